#include "interlock/open_shop.hpp"

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <utility>

#include "interlock/errors.hpp"

namespace interlock {
namespace {

constexpr std::int32_t kNone = -1;

/// Ports 0..n-1 are senders, n..2n-1 receivers.
class Shop {
public:
    Shop(std::span<const std::int64_t> work, std::int32_t num_ports, std::int64_t setup, std::int64_t target,
         std::int32_t stage_limit)
        : n_(num_ports),
          stage_limit_(stage_limit),
          setup_(setup),
          target_(target),
          left_(work.begin(), work.end()),
          pending_(2 * size(n_), 0),
          end_(2 * size(n_), 0),
          start_(2 * size(n_), 0),
          partner_(2 * size(n_), kNone),
          stages_(2 * size(n_), 0),
          num_pending_(2 * size(n_), 0),
          from_(2 * size(n_)),
          through_(2 * size(n_)) {
        for (std::int32_t i = 0; i < n_; ++i) {
            for (std::int32_t j = 0; j < n_; ++j) {
                const std::int64_t amount = left_[at(i, j)];
                if (amount <= 0) continue;
                ++num_left_;
                for (const std::int32_t port : {i, n_ + j}) {
                    pending_[size(port)] += amount + setup_;
                    ++num_pending_[size(port)];
                }
            }
        }
    }

    std::vector<Run> solve() {
        runs_.reserve(2 * num_left_);
        while (true) {
            finish_runs();
            if (num_left_ == 0) break;
            pair_free_ports(false);
            while (rescue_late_port()) pair_free_ports(false);
            if (num_running_ == 0) pair_free_ports(true);
            now_ = std::max(next_event(), now_ + 1);
        }
        std::stable_sort(runs_.begin(), runs_.end(), [](const Timed& a, const Timed& b) { return a.start < b.start; });
        std::vector<Run> result;
        result.reserve(runs_.size());
        for (const Timed& timed : runs_) result.push_back(timed.run);
        return result;
    }

private:
    struct Timed {
        std::int64_t start;
        Run run;
    };

    static std::size_t size(std::int32_t index) { return static_cast<std::size_t>(index); }
    [[nodiscard]] std::size_t at(std::int32_t sender, std::int32_t receiver) const {
        return size(sender) * size(n_) + size(receiver);
    }
    /// Work left between two ports of opposite sides.
    [[nodiscard]] std::int64_t between(std::int32_t a, std::int32_t b) const {
        return a < n_ ? left_[at(a, b - n_)] : left_[at(b, a - n_)];
    }
    /// How long a port may still idle.
    [[nodiscard]] std::int64_t slack(std::int32_t port) const {
        const std::int64_t free_at = partner_[size(port)] == kNone ? now_ : end_[size(port)];
        return target_ - pending_[size(port)] - free_at;
    }

    void begin(std::int32_t sender, std::int32_t receiver) {
        const std::int64_t cost = left_[at(sender, receiver - n_)] + setup_;
        const std::int32_t stages = std::max(stages_[size(sender)], stages_[size(receiver)]) + 1;
        ++num_running_;
        for (const auto& [port, other] : {std::pair{sender, receiver}, std::pair{receiver, sender}}) {
            partner_[size(port)] = other;
            start_[size(port)] = now_;
            end_[size(port)] = now_ + cost;
            pending_[size(port)] -= cost;
            --num_pending_[size(port)];
            stages_[size(port)] = stages;
        }
    }

    /// Ends a run early; what was done so far becomes a run of its own.
    void interrupt(std::int32_t sender) {
        const std::int32_t receiver = partner_[size(sender)];
        std::int64_t& left = left_[at(sender, receiver - n_)];
        const std::int64_t done = now_ - start_[size(sender)] - setup_;
        if (done > 0) {
            runs_.push_back({start_[size(sender)], {sender, receiver - n_, done}});
            left -= done;
        }
        for (const std::int32_t port : {sender, receiver}) {
            pending_[size(port)] += left + setup_;
            ++num_pending_[size(port)];
            partner_[size(port)] = kNone;
        }
        --num_running_;
    }

    void finish_runs() {
        for (std::int32_t sender = 0; sender < n_; ++sender) {
            const std::int32_t receiver = partner_[size(sender)];
            if (receiver == kNone || end_[size(sender)] > now_) continue;
            std::int64_t& left = left_[at(sender, receiver - n_)];
            runs_.push_back({start_[size(sender)], {sender, receiver - n_, left}});
            left = 0;
            partner_[size(sender)] = partner_[size(receiver)] = kNone;
            --num_left_;
            --num_running_;
        }
    }

    /// A port that runs far ahead of its partner would use up stages for both.
    [[nodiscard]] bool is_in_step(std::int32_t a, std::int32_t b) const {
        return std::abs(stages_[size(a)] - stages_[size(b)]) <= stage_limit_;
    }

    void pair_free_ports(bool at_any_stage) {
        free_.clear();
        for (std::int32_t port = 0; port < 2 * n_; ++port) {
            if (partner_[size(port)] == kNone && pending_[size(port)] > 0) free_.push_back(port);
        }
        // All free ports idle from now on, so the most pending work is the least slack.
        std::stable_sort(free_.begin(), free_.end(),
                         [&](std::int32_t a, std::int32_t b) { return pending_[size(a)] > pending_[size(b)]; });
        for (std::size_t a = 0; a < free_.size(); ++a) {
            const std::int32_t port = free_[a];
            for (std::size_t b = a + 1; partner_[size(port)] == kNone && b < free_.size(); ++b) {
                const std::int32_t other = free_[b];
                if ((port < n_) == (other < n_) || partner_[size(other)] != kNone || between(port, other) <= 0) continue;
                if (!at_any_stage && !is_in_step(port, other) && slack(port) > 0 && slack(other) > 0) continue;
                begin(std::min(port, other), std::max(port, other));
            }
        }
    }

    /// Finds work for one idle port that has no slack left; true when partners changed.
    bool rescue_late_port() {
        for (const std::int32_t port : free_) {
            if (partner_[size(port)] != kNone) continue;
            if (slack(port) > 0) return false;
            if (augment(port)) return true;
        }
        return false;
    }

    /// Breadth-first over alternating paths, from an idle port to one on the same side that can wait.
    bool augment(std::int32_t port) {
        const std::int32_t first_other = port < n_ ? n_ : 0;
        std::fill(through_.begin(), through_.end(), kNone);
        queue_.assign(1, port);
        for (std::size_t head = 0; head < queue_.size(); ++head) {
            const std::int32_t here = queue_[head];
            std::int32_t best = kNone;
            std::int64_t most_slack = 0;
            for (std::int32_t other = first_other; other < first_other + n_; ++other) {
                const std::int32_t rival = partner_[size(other)];
                if (rival == here || between(here, other) <= 0) continue;
                if (rival == kNone) {
                    best = other;
                    break;
                }
                if (rival == port) continue;
                if (slack(rival) > most_slack) {
                    most_slack = slack(rival);
                    best = other;
                }
            }
            if (best != kNone) {
                swap_partners(port, here, best);
                return true;
            }
            for (std::int32_t other = first_other; other < first_other + n_; ++other) {
                const std::int32_t rival = partner_[size(other)];
                if (rival == kNone || rival == here || rival == port || through_[size(rival)] != kNone) continue;
                if (between(here, other) <= 0) continue;
                through_[size(rival)] = other;
                from_[size(rival)] = here;
                queue_.push_back(rival);
            }
        }
        return false;
    }

    void swap_partners(std::int32_t port, std::int32_t here, std::int32_t other) {
        path_.clear();
        for (; here != port; other = through_[size(here)], here = from_[size(here)]) path_.emplace_back(here, other);
        path_.emplace_back(here, other);
        for (const auto& [winner, taken] : path_) {
            if (partner_[size(taken)] != kNone) interrupt(std::min(partner_[size(taken)], taken));
        }
        for (const auto& [winner, taken] : path_) begin(std::min(winner, taken), std::max(winner, taken));
    }

    [[nodiscard]] std::int64_t next_event() const {
        std::int64_t next = std::numeric_limits<std::int64_t>::max();
        for (std::int32_t port = 0; port < 2 * n_; ++port) {
            if (partner_[size(port)] != kNone) {
                next = std::min(next, end_[size(port)]);
            } else if (pending_[size(port)] > 0 && target_ - pending_[size(port)] > now_) {
                next = std::min(next, target_ - pending_[size(port)]);
            }
        }
        return next;
    }

    std::int32_t n_, stage_limit_, num_running_ = 0;
    std::int64_t setup_, target_, now_ = 0;
    std::size_t num_left_ = 0;
    std::vector<std::int64_t> left_;             // [n, n]
    std::vector<std::int64_t> pending_;          // per port, what has not begun, setups included
    std::vector<std::int64_t> end_, start_;      // per port, of the run in progress
    std::vector<std::int32_t> partner_;          // per port
    std::vector<std::int32_t> stages_;           // per port, that its last run ends
    std::vector<std::int32_t> num_pending_;      // per port, pairs that have not begun or were interrupted
    std::vector<std::int32_t> from_, through_;   // alternating path: predecessor, and the port won from it
    std::vector<std::int32_t> free_, queue_;
    std::vector<std::pair<std::int32_t, std::int32_t>> path_;
    std::vector<Timed> runs_;
};

}  // namespace

std::vector<Run> open_shop(std::span<const std::int64_t> work, std::int32_t num_ports, std::int64_t setup,
                           std::int64_t target, std::int32_t stage_limit) {
    const auto n = static_cast<std::size_t>(num_ports);
    require(num_ports >= 0 && work.size() == n * n, "work must be [num_ports, num_ports]");
    require(setup >= 0, "setup must not be negative");
    return Shop(work, num_ports, setup, target, stage_limit).solve();
}

std::int64_t open_shop_bound(std::span<const std::int64_t> work, std::int32_t num_ports, std::int64_t setup) {
    const auto n = static_cast<std::size_t>(num_ports);
    std::vector<std::int64_t> load(2 * n, 0);
    for (std::size_t i = 0; i < n; ++i) {
        for (std::size_t j = 0; j < n; ++j) {
            const std::int64_t amount = work[i * n + j];
            if (amount <= 0) continue;
            load[i] += amount + setup;
            load[n + j] += amount + setup;
        }
    }
    return load.empty() ? 0 : *std::max_element(load.begin(), load.end());
}

RunTimes time_runs(std::span<const Run> runs, std::int32_t num_ports, std::int64_t setup) {
    struct Port {
        std::int64_t free_at = 0;
        std::int32_t stages = 0;
    };
    std::vector<Port> ports(2 * static_cast<std::size_t>(num_ports));
    RunTimes times;
    times.stage.reserve(runs.size());
    for (const Run& run : runs) {
        require(run.sender >= 0 && run.sender < num_ports && run.receiver >= 0 && run.receiver < num_ports,
                "a run names a port outside 0..num_ports");
        Port& from = ports[static_cast<std::size_t>(run.sender)];
        Port& to = ports[static_cast<std::size_t>(num_ports + run.receiver)];
        times.stage.push_back(std::max(from.stages, to.stages));
        from.free_at = to.free_at = std::max(from.free_at, to.free_at) + setup + run.work;
        from.stages = to.stages = times.stage.back() + 1;
        times.makespan = std::max(times.makespan, from.free_at);
        times.num_stages = std::max(times.num_stages, from.stages);
    }
    return times;
}

}  // namespace interlock
