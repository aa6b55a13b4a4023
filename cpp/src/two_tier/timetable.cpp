#include "interlock/two_tier/timetable.hpp"

#include <algorithm>
#include <array>
#include <functional>
#include <numeric>
#include <queue>
#include <tuple>
#include <utility>

#include "interlock/arithmetic.hpp"
#include "interlock/errors.hpp"

namespace interlock {
namespace {

/// What brings a message its bytes.
template <typename Visit>
void for_each_bringer(const ScheduleRows& rows, std::size_t message, Visit visit) {
    for (std::int64_t d = rows.dep_offsets[message]; d < rows.dep_offsets[message + 1]; ++d) {
        const std::int32_t earlier = rows.deps[to_size(d)];
        if (rows.dst[to_size(earlier)] == rows.src[message]) visit(to_size(earlier));
    }
}

/// A list schedule on ports.
class ListSchedule {
public:
    ListSchedule(const ScheduleRows& rows, const Ports& ports, const TwoTierCosts& costs)
        : costs_(costs),
          rows_(rows),
          count_(rows.src.size()),
          ports_of_(count_),
          holds_s_(count_),
          waits_for_(count_, 0),
          feeds_offsets_(count_ + 1, 0),
          opened_s_(ports.ranks(), -1.0),
          is_busy_(ports.count(), 0),
          has_changed_(ports.count(), 0),
          ready_(ports.count()) {
        const std::vector<double> rate = ports.rates();
        std::vector<double> load(ports.count(), 0.0);
        for (std::size_t m = 0; m < count_; ++m) {
            const std::int32_t src = rows.src[m], dst = rows.dst[m];
            const RoutePorts on(ports, is_wire(m) ? Route{src, dst, src, dst, -1} : Route{src, dst, -1, -1, -1});
            const std::size_t out = on.all().front(), in = on.all().back();
            ports_of_[m] = {out, in};
            const auto bytes = static_cast<double>(rows.size_bytes[m]);
            holds_s_[m] = bytes / std::min(rate[out], rate[in]) + costs.message_overhead_s;
            load[out] += holds_s_[m];
            if (in != out) load[in] += holds_s_[m];
        }
        link();
        rank_messages(load);
    }

    Timetable run() {
        Timetable made{std::vector<std::int64_t>(count_, 0), 0};
        for (std::size_t m = 0; m < count_; ++m) {
            if (waits_for_[m] == 0) events_.push({0, Event::kReady, m});
        }
        std::int64_t turn = 0;
        while (!events_.empty()) {
            const double now = events_.top().at_s;
            while (!events_.empty() && events_.top().at_s == now) {
                const Event event = events_.top();
                events_.pop();
                happen(event);
            }
            for (std::size_t m = next(); m != count_; m = next()) {
                made.turns[m] = turn++;
                for (const std::size_t port : ports_of_[m]) is_busy_[port] = 1;
                for_each_port(m, [&](std::size_t port, std::size_t) { ready_[port].erase(where(port, m)); });
                const double left_s = open(rows_.src[m], now) + holds_s_[m], there_s = left_s + latency_s(m);
                events_.push({left_s, Event::kLeft, m});
                events_.push({there_s, Event::kArrived, m});
                made.seconds = std::max(made.seconds, there_s);
            }
        }
        require(turn == static_cast<std::int64_t>(count_), "messages wait for each other in a circle");
        return made;
    }

private:
    struct Event {
        enum Kind : std::int32_t { kLeft, kArrived, kReady };
        double at_s;
        Kind kind;
        std::size_t message;
        bool operator>(const Event& other) const {
            return std::tie(at_s, kind, message) > std::tie(other.at_s, other.kind, other.message);
        }
    };

    /// A message at a port: its place among all, and the port at its other end, which must be free too.
    struct Waiting {
        std::size_t place, other;
    };

    /// Each port with the other; once where out and in are the same, as on a mesh.
    template <typename Visit>
    void for_each_port(std::size_t m, Visit visit) const {
        const auto [out, in] = ports_of_[m];
        visit(out, in);
        if (in != out) visit(in, out);
    }
    /// Of a message among those that wait for a port.
    [[nodiscard]] std::vector<Waiting>::iterator where(std::size_t port, std::size_t m) {
        return std::ranges::lower_bound(ready_[port], place_[m], {}, &Waiting::place);
    }
    [[nodiscard]] bool can_start(std::size_t m) const {
        return is_busy_[ports_of_[m][0]] == 0 && is_busy_[ports_of_[m][1]] == 0;
    }

    [[nodiscard]] bool is_wire(std::size_t m) const {
        return rows_.phase[m] == static_cast<std::uint8_t>(MessagePhase::kScaleOut);
    }
    [[nodiscard]] double latency_s(std::size_t m) const {
        return is_wire(m) ? costs_.scale_out_latency_s : costs_.scale_up_latency_s;
    }

    /// Which messages carry on what a message brings.
    void link() {
        for (std::size_t m = 0; m < count_; ++m) {
            for_each_bringer(rows_, m, [&](std::size_t earlier) {
                require(earlier < m, "a message must come after what brings its bytes");
                ++waits_for_[m];
                ++feeds_offsets_[earlier + 1];
            });
        }
        std::partial_sum(feeds_offsets_.begin(), feeds_offsets_.end(), feeds_offsets_.begin());
        feeds_.resize(feeds_offsets_.back());
        std::vector<std::size_t> end(feeds_offsets_.begin(), feeds_offsets_.end() - 1);
        for (std::size_t m = 0; m < count_; ++m)
            for_each_bringer(rows_, m, [&](std::size_t earlier) { feeds_[end[earlier]++] = m; });
    }
    [[nodiscard]] std::span<const std::size_t> fed_by(std::size_t m) const {
        return std::span(feeds_).subspan(feeds_offsets_[m], feeds_offsets_[m + 1] - feeds_offsets_[m]);
    }

    void rank_messages(std::span<const double> load) {
        std::vector<std::int32_t> hops(count_, 0);
        for (std::size_t m = count_; m-- > 0;) {
            for (const std::size_t later : fed_by(m)) hops[m] = std::max(hops[m], hops[later] + 1);
        }
        const auto busiest = [&](std::size_t m) {
            return std::max(load[ports_of_[m][0]], load[ports_of_[m][1]]);
        };
        by_place_.resize(count_);
        std::iota(by_place_.begin(), by_place_.end(), std::size_t{0});
        std::ranges::stable_sort(by_place_, [&](std::size_t a, std::size_t b) {
            return hops[a] != hops[b] ? hops[a] > hops[b] : busiest(a) > busiest(b);
        });
        place_.resize(count_);
        for (std::size_t place = 0; place < count_; ++place) place_[by_place_[place]] = place;
    }

    /// When a rank can send: it opens the stage when its first message has its turn.
    double open(std::int32_t rank, double now) {
        double& opened = opened_s_[to_size(rank)];
        if (opened < 0) opened = now + costs_.stage_overhead_s;
        return std::max(now, opened);
    }

    void happen(const Event& event) {
        const std::size_t m = event.message;
        if (event.kind == Event::kArrived) {
            for (const std::size_t later : fed_by(m)) {
                if (--waits_for_[later] == 0) events_.push({event.at_s, Event::kReady, later});
            }
            return;
        }
        for_each_port(m, [&](std::size_t port, std::size_t other) {
            if (std::exchange(has_changed_[port], 1) == 0) changed_.push_back(port);
            if (event.kind == Event::kLeft) {
                is_busy_[port] = 0;
            } else {
                ready_[port].insert(where(port, m), {place_[m], other});
            }
        });
    }

    /// Adds who goes first of those that wait for a port and can start now.
    void add_candidate(std::size_t port) {
        if (is_busy_[port] != 0) return;
        const auto first =
            std::ranges::find_if(ready_[port], [&](const Waiting& each) { return is_busy_[each.other] == 0; });
        if (first != ready_[port].end()) candidates_.push({first->place, port});
    }

    /// Who goes first of those that can start now, or how many messages there are. Only at ports where something has
    /// changed can anyone; whoever cannot any more is followed by somebody later.
    [[nodiscard]] std::size_t next() {
        for (const std::size_t port : changed_) {
            has_changed_[port] = 0;
            add_candidate(port);
        }
        changed_.clear();
        while (!candidates_.empty()) {
            const auto [place, port] = candidates_.top();
            candidates_.pop();
            if (can_start(by_place_[place])) return by_place_[place];
            add_candidate(port);
        }
        return count_;
    }

    const TwoTierCosts& costs_;
    const ScheduleRows& rows_;
    std::size_t count_;
    std::vector<std::array<std::size_t, 2>> ports_of_;  // per message, out and in
    std::vector<double> holds_s_;                        // per message
    std::vector<std::int32_t> waits_for_;                // per message, how many
    std::vector<std::size_t> feeds_offsets_, feeds_;
    std::vector<std::size_t> by_place_, place_;  // messages by who goes first
    std::vector<double> opened_s_;               // per rank its stage; -1: not yet
    std::vector<std::uint8_t> is_busy_;          // per port
    std::vector<std::uint8_t> has_changed_;      // per port: it stands in changed_
    std::vector<std::vector<Waiting>> ready_;  // per port, by place, messages that wait for nothing but ports
    std::vector<std::size_t> changed_;               // ports that somebody left or came to
    std::priority_queue<std::pair<std::size_t, std::size_t>, std::vector<std::pair<std::size_t, std::size_t>>,
                        std::greater<>>
        candidates_;  // place and port of who might start now
    std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;
};

}  // namespace

Timetable make_timetable(const ScheduleRows& rows, const Ports& ports, const TwoTierCosts& costs) {
    return ListSchedule(rows, ports, costs).run();
}

void take_turns(ScheduleRows& rows, std::span<const std::int64_t> turns) {
    require(turns.size() == rows.src.size(), "there must be one turn per message");
    std::size_t kept = 0, first = 0;
    for (std::size_t m = 0; m < turns.size(); ++m) {
        const auto last = to_size(rows.dep_offsets[m + 1]);
        for (std::size_t d = first; d < last; ++d) {
            if (rows.dst[to_size(rows.deps[d])] == rows.src[m]) rows.deps[kept++] = rows.deps[d];
        }
        first = last;
        rows.dep_offsets[m + 1] = static_cast<std::int64_t>(kept);
        rows.order[m] = turns[m];
    }
    rows.deps.resize(kept);
}

}  // namespace interlock
