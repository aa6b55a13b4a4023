#include "interlock/two_tier/open_shop.hpp"

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <functional>
#include <limits>
#include <queue>
#include <utility>

#include "interlock/arithmetic.hpp"
#include "interlock/errors.hpp"
#include "interlock/two_tier/constants.hpp"

namespace interlock {
namespace {

constexpr std::int32_t kNone = -1;

/// Ports 0..n-1 are senders, n..2n-1 receivers.
class Shop {
public:
    Shop(std::span<const std::int64_t> work, std::int32_t num_ports, std::int64_t setup, std::int64_t target,
         std::int32_t stages)
        : n_(num_ports),
          num_stages_(stages),
          setup_(setup),
          target_(target),
          words_((size(n_) + 63) / 64),
          left_(work.begin(), work.end()),
          ports_(2 * size(n_)),
          wants_(2 * size(n_) * words_, 0),
          is_free_(2 * words_, 0),
          from_(2 * size(n_)),
          through_(2 * size(n_)) {
        for (std::int32_t i = 0; i < n_; ++i) {
            for (std::int32_t j = 0; j < n_; ++j) {
                const std::int64_t amount = left_[at(i, j)];
                if (amount <= 0) continue;
                ++num_left_;
                set_wants(i, j, true);
                for (const std::int32_t port : {i, n_ + j}) ports_[size(port)].pending += amount + setup_;
            }
        }
        for (std::int32_t port = 0; port < 2 * n_; ++port) release(port);
    }

    std::vector<Run> solve() {
        runs_.reserve(2 * num_left_);
        while (true) {
            finish_runs();
            if (num_left_ == 0) break;
            pair_fresh_ports();
            while (rescue_late_port()) pair_fresh_ports();
            std::int64_t next = next_event();
            if (ends_.empty()) {
                pair_anyone();
                next = next_event();
            }
            now_ = std::max(next, now_ + 1);
        }
        std::stable_sort(runs_.begin(), runs_.end(), [](const Timed& a, const Timed& b) { return a.start < b.start; });
        std::vector<Run> result;
        result.reserve(runs_.size());
        for (const Timed& timed : runs_) result.push_back(timed.run);
        return result;
    }

private:
    struct Port {
        std::int64_t pending = 0;       // work that has not begun, setups included
        std::int64_t start = 0, end = 0;  // of the run in progress
        std::int32_t partner = kNone;
        std::int32_t stages = 0;        // used up when its last run ends
        std::int64_t gave_up_at = -1;   // when no rival could be found for it
        std::int64_t opens_at = 0;      // when it may begin its next stage
    };
    struct Timed {
        std::int64_t start;
        Run run;
    };
    struct End {
        std::int64_t when;
        std::int32_t sender;
        bool operator>(const End& other) const {
            return when != other.when ? when > other.when : sender > other.sender;
        }
    };

    static std::size_t size(std::int32_t index) { return static_cast<std::size_t>(index); }
    [[nodiscard]] std::size_t at(std::int32_t sender, std::int32_t receiver) const {
        return size(sender) * size(n_) + size(receiver);
    }
    [[nodiscard]] Port& port(std::int32_t index) { return ports_[size(index)]; }
    [[nodiscard]] const Port& port(std::int32_t index) const { return ports_[size(index)]; }

    void set_wants(std::int32_t sender, std::int32_t receiver, bool wants) {
        const auto set = [&](std::int32_t who, std::int32_t whom) {
            std::uint64_t& word = wants_[size(who) * words_ + size(whom / 64)];
            const std::uint64_t bit = std::uint64_t{1} << (whom % 64);
            word = wants ? word | bit : word & ~bit;
        };
        set(sender, receiver);
        set(n_ + receiver, sender);
    }
    /// Visits the ports of the other side that a port still has work with, in order, until one says true.
    template <typename Visit>
    void each_wanted(std::int32_t index, Visit visit) const {
        for (std::size_t word = 0; word < words_; ++word) {
            for (std::uint64_t left = wants_[size(index) * words_ + word]; left != 0; left &= left - 1) {
                if (visit((index < n_ ? n_ : 0) + static_cast<std::int32_t>(word) * 64 + std::countr_zero(left)))
                    return;
            }
        }
    }
    void set_free(std::int32_t index, bool free) {
        const std::int32_t place = index < n_ ? index : index - n_;
        std::uint64_t& word = is_free_[(index < n_ ? 0 : words_) + size(place / 64)];
        const std::uint64_t bit = std::uint64_t{1} << (place % 64);
        word = free ? word | bit : word & ~bit;
    }

    /// How long a port may still idle.
    [[nodiscard]] std::int64_t slack(std::int32_t index) const {
        const Port& p = port(index);
        return target_ - p.pending - (p.partner == kNone ? now_ : p.end);
    }

    void release(std::int32_t index) {
        port(index).partner = kNone;
        if (port(index).pending == 0) return;
        set_free(index, true);
        free_.push_back(index);
        fresh_.push_back(index);
    }

    void begin(std::int32_t sender, std::int32_t receiver) {
        const std::int64_t cost = left_[at(sender, receiver - n_)] + setup_;
        const std::int32_t stages = std::max(port(sender).stages, port(receiver).stages) + 1;
        // Ports with slack use up their stages no faster than time passes: one that ran ahead would make all its later
        // partners skip stages too.
        const std::int64_t opens_at = portion(target_, std::max(stages - kInFlight, 0), num_stages_);
        for (const auto& [index, other] : {std::pair{sender, receiver}, std::pair{receiver, sender}}) {
            port(index) = {port(index).pending - cost, now_, now_ + cost, other, stages, -1, opens_at};
            set_free(index, false);
        }
        ends_.push({now_ + cost, sender});
    }

    /// Ends a run early; what was done so far becomes a run of its own.
    void interrupt(std::int32_t sender) {
        const std::int32_t receiver = port(sender).partner;
        std::int64_t& left = left_[at(sender, receiver - n_)];
        const std::int64_t done = now_ - port(sender).start - setup_;
        if (done > 0) {
            runs_.push_back({port(sender).start, {sender, receiver - n_, done}});
            left -= done;
        }
        for (const std::int32_t index : {sender, receiver}) {
            port(index).pending += left + setup_;
            release(index);
        }
    }

    void finish_runs() {
        for (; !ends_.empty() && ends_.top().when <= now_; ends_.pop()) {
            const auto [when, sender] = ends_.top();
            // An interrupted run leaves its end behind; the port has moved on since.
            if (port(sender).partner == kNone || port(sender).end != when) continue;
            const std::int32_t receiver = port(sender).partner;
            std::int64_t& left = left_[at(sender, receiver - n_)];
            runs_.push_back({port(sender).start, {sender, receiver - n_, left}});
            left = 0;
            set_wants(sender, receiver - n_, false);
            release(sender);
            release(receiver);
            --num_left_;
        }
    }

    [[nodiscard]] bool is_in_step(std::int32_t a, std::int32_t b) const {
        return (port(a).opens_at <= now_ && port(b).opens_at <= now_) || slack(a) <= 0 || slack(b) <= 0;
    }

    /// Free ports that could not pair up earlier still cannot: only those that are newly free or late are tried.
    void pair_fresh_ports() {
        std::sort(fresh_.begin(), fresh_.end(), [&](std::int32_t a, std::int32_t b) { return is_before(a, b); });
        for (const std::int32_t index : fresh_) {
            if (port(index).partner != kNone) continue;
            const std::int32_t other = best_partner(index, false);
            if (other != kNone) begin(std::min(index, other), std::max(index, other));
        }
        fresh_.clear();
        std::erase_if(free_, [&](std::int32_t index) { return port(index).partner != kNone; });
    }

    /// All free ports idle from now on, so the most pending work is the least slack.
    [[nodiscard]] bool is_before(std::int32_t a, std::int32_t b) const {
        return port(a).pending != port(b).pending ? port(a).pending > port(b).pending : a < b;
    }

    /// The free port with least slack that this one has work for.
    [[nodiscard]] std::int32_t best_partner(std::int32_t index, bool at_any_stage) const {
        const std::uint64_t* free = is_free_.data() + (index < n_ ? words_ : 0);
        std::int32_t best = kNone;
        for (std::size_t word = 0; word < words_; ++word) {
            for (std::uint64_t open = wants_[size(index) * words_ + word] & free[word]; open != 0; open &= open - 1) {
                const std::int32_t other =
                    (index < n_ ? n_ : 0) + static_cast<std::int32_t>(word) * 64 + std::countr_zero(open);
                if (best != kNone && !is_before(other, best)) continue;
                if (at_any_stage || is_in_step(index, other)) best = other;
            }
        }
        return best;
    }

    /// With nothing running, ports out of step must pair up after all: those that are least far ahead.
    void pair_anyone() {
        std::int32_t least = kNone;
        for (const std::int32_t index : free_) {
            if (port(index).partner == kNone && (least == kNone || port(index).stages < port(least).stages))
                least = index;
        }
        const std::int32_t other = best_partner(least, true);
        begin(std::min(least, other), std::max(least, other));
    }

    /// Finds work for one idle port that has no slack left; true when partners changed.
    bool rescue_late_port() {
        std::int32_t latest = kNone;
        for (const std::int32_t index : free_) {
            if (port(index).partner != kNone || slack(index) > 0 || port(index).gave_up_at == now_) continue;
            if (latest == kNone || is_before(index, latest)) latest = index;
        }
        if (latest == kNone) return false;
        if (!augment(latest)) port(latest).gave_up_at = now_;
        return true;
    }

    /// Breadth-first over alternating paths, from an idle port to a free port of the other side, or to one of its own
    /// side that can wait.
    bool augment(std::int32_t start) {
        std::fill(through_.begin(), through_.end(), kNone);
        queue_.assign(1, start);
        for (std::size_t head = 0; head < queue_.size(); ++head) {
            const std::int32_t here = queue_[head];
            std::int32_t best = kNone;
            std::int64_t most_slack = 0;
            each_wanted(here, [&](std::int32_t other) {
                const std::int32_t rival = port(other).partner;
                if (rival == kNone) {
                    best = other;
                } else if (rival != here && rival != start && slack(rival) > most_slack) {
                    most_slack = slack(rival);
                    best = other;
                }
                return rival == kNone;
            });
            if (best != kNone) {
                swap_partners(start, here, best);
                return true;
            }
            each_wanted(here, [&](std::int32_t other) {
                const std::int32_t rival = port(other).partner;
                if (rival == kNone || rival == here || rival == start || through_[size(rival)] != kNone) return false;
                through_[size(rival)] = other;
                from_[size(rival)] = here;
                queue_.push_back(rival);
                return false;
            });
        }
        return false;
    }

    void swap_partners(std::int32_t start, std::int32_t here, std::int32_t other) {
        path_.clear();
        for (; here != start; other = through_[size(here)], here = from_[size(here)]) path_.emplace_back(here, other);
        path_.emplace_back(here, other);
        for (const auto& [winner, taken] : path_) {
            if (port(taken).partner != kNone) interrupt(std::min(port(taken).partner, taken));
        }
        for (const auto& [winner, taken] : path_) begin(std::min(winner, taken), std::max(winner, taken));
    }

    [[nodiscard]] std::int64_t next_event() {
        while (!ends_.empty() &&
               (port(ends_.top().sender).partner == kNone || port(ends_.top().sender).end != ends_.top().when)) {
            ends_.pop();
        }
        std::int64_t next = ends_.empty() ? std::numeric_limits<std::int64_t>::max() : ends_.top().when;
        for (const std::int32_t index : free_) {
            if (port(index).partner != kNone) continue;
            for (const std::int64_t when : {target_ - port(index).pending, port(index).opens_at}) {
                if (when <= now_ || when > next) continue;
                if (when < next) fresh_.clear();
                fresh_.push_back(index);
                next = when;
            }
        }
        return next;
    }

    std::int32_t n_, num_stages_;
    std::int64_t setup_, target_, now_ = 0;
    std::size_t words_, num_left_ = 0;
    std::vector<std::int64_t> left_;            // [n, n]
    std::vector<Port> ports_;                   // [2n]
    std::vector<std::uint64_t> wants_;          // [2n] bit set of the other side: work left
    std::vector<std::uint64_t> is_free_;        // two bit sets: free senders, free receivers
    std::vector<std::int32_t> from_, through_;  // alternating path: predecessor, and the port won from it
    std::vector<std::int32_t> free_, fresh_;    // ports with work and no partner; those not yet tried
    std::vector<std::int32_t> queue_;
    std::vector<std::pair<std::int32_t, std::int32_t>> path_;
    std::priority_queue<End, std::vector<End>, std::greater<>> ends_;
    std::vector<Timed> runs_;
};

}  // namespace

std::vector<Run> open_shop(std::span<const std::int64_t> work, std::int32_t num_ports, std::int64_t setup,
                           std::int64_t target, std::int32_t stages) {
    const auto n = static_cast<std::size_t>(num_ports);
    require(num_ports >= 0 && work.size() == n * n, "work must be [num_ports, num_ports]");
    require(setup >= 0 && stages > 0, "setup must not be negative, stages must be positive");
    return Shop(work, num_ports, setup, target, stages).solve();
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
