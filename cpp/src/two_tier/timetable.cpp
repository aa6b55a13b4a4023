#include "interlock/two_tier/timetable.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <functional>
#include <limits>
#include <numeric>
#include <queue>
#include <span>
#include <tuple>
#include <utility>

#include "interlock/arithmetic.hpp"
#include "interlock/errors.hpp"
#include "interlock/two_tier/constants.hpp"
#include "interlock/two_tier/paths.hpp"

namespace interlock {
namespace {

constexpr std::uint32_t kNobody = std::numeric_limits<std::uint32_t>::max();

/// For each message the later, or earlier, ones that have to do with it.
struct Links {
    std::vector<std::uint32_t> first, message;
    [[nodiscard]] std::span<const std::uint32_t> of(std::size_t m) const {
        return std::span(message).subspan(first[m], first[m + 1] - first[m]);
    }
};

/// Messages with the ports that each holds, for how long, and who carries on what it brings.
class Jobs {
public:
    Jobs(const ScheduleRows& rows, const Ports& ports, const TwoTierCosts& costs)
        : ranks(ports.ranks()), opens_s(costs.stage_overhead_s) {
        require(ranks <= kMostTimed, "ports have at most 64 partners");
        const std::vector<double> rate = ports.rates();
        const std::size_t count = rows.src.size();
        src.reserve(count);
        for (std::size_t m = 0; m < count; ++m) {
            const bool is_wire = rows.phase[m] == static_cast<std::uint8_t>(MessagePhase::kScaleOut);
            const std::int32_t from = rows.src[m], to = rows.dst[m];
            const RoutePorts on(ports, is_wire ? Route{from, to, from, to, -1} : Route{from, to, -1, -1, -1});
            const std::size_t out = on.all().front(), in = on.all().back();
            src.push_back(to_size(from));
            dst.push_back(to_size(to));
            crosses.push_back(is_wire);
            port.push_back({out, in});
            holds_s.push_back(static_cast<double>(rows.size_bytes[m]) / std::min(rate[out], rate[in]) +
                              costs.message_overhead_s);
            latency_s.push_back(is_wire ? costs.scale_out_latency_s : costs.scale_up_latency_s);
        }
        num_ports = ports.count();
        link(rows);
    }

    [[nodiscard]] std::size_t count() const { return src.size(); }
    /// Of ranks, inside servers or by NICs.
    [[nodiscard]] std::size_t pair(std::size_t m) const { return (crosses[m] * ranks + src[m]) * ranks + dst[m]; }

    std::size_t ranks, num_ports = 0;
    double opens_s;  ///< a rank's stage
    std::vector<std::size_t> src, dst;
    std::vector<std::uint8_t> crosses;  ///< to another NIC
    std::vector<std::array<std::size_t, 2>> port;
    std::vector<double> holds_s, latency_s;
    Links feeds, fed_by;

private:
    void link(const ScheduleRows& rows) {
        fed_by.first = {0};
        feeds.first.assign(count() + 1, 0);
        for (std::size_t m = 0; m < count(); ++m) {
            for (std::int64_t d = rows.dep_offsets[m]; d < rows.dep_offsets[m + 1]; ++d) {
                const std::size_t earlier = to_size(rows.deps[to_size(d)]);
                if (rows.dst[earlier] != rows.src[m]) continue;  // for its pace only
                require(earlier < m, "a message must come after what brings its bytes");
                fed_by.message.push_back(static_cast<std::uint32_t>(earlier));
                ++feeds.first[earlier + 1];
            }
            fed_by.first.push_back(static_cast<std::uint32_t>(fed_by.message.size()));
        }
        std::partial_sum(feeds.first.begin(), feeds.first.end(), feeds.first.begin());
        feeds.message.resize(fed_by.message.size());
        std::vector<std::uint32_t> end(feeds.first.begin(), feeds.first.end() - 1);
        for (std::size_t m = 0; m < count(); ++m)
            for (const std::uint32_t earlier : fed_by.of(m))
                feeds.message[end[earlier]++] = static_cast<std::uint32_t>(m);
    }
};

/// List schedules: whenever ports are free, of those that can start the first in the given order does. Backwards in time
/// messages begin where they would arrive, and wait for those that they bring bytes.
class ListSchedule {
public:
    explicit ListSchedule(const Jobs& jobs)
        : jobs_(jobs),
          waits_for_(jobs.count()),
          place_(jobs.count()),
          ends_(jobs.num_ports),
          waiting_(2 * jobs.ranks * jobs.ranks),
          first_waiting_(waiting_.size(), kNobody),
          opened_s_(jobs.ranks) {
        for (std::size_t m = 0; m < jobs.count(); ++m) {
            const auto [out, in] = jobs.port[m];
            const std::size_t first = jobs.pair(m) - jobs.src[m] * jobs.ranks - jobs.dst[m];
            ends_[in] = {first + jobs.dst[m], jobs.ranks, &is_free_[2 * jobs.crosses[m]]};
            ends_[out] = {first + jobs.src[m] * jobs.ranks, 1, in == out ? &kAll : &is_free_[2 * jobs.crosses[m] + 1]};
        }
    }
    ListSchedule(const ListSchedule&) = delete;
    ListSchedule& operator=(const ListSchedule&) = delete;

    /// @param by_place messages by who goes first
    /// @param ended_s when each message leaves its ports
    void operator()(std::span<const std::uint32_t> by_place, bool is_backwards, std::span<double> ended_s) {
        is_backwards_ = is_backwards;
        const Links& before = is_backwards ? jobs_.feeds : jobs_.fed_by;
        const Links& after = is_backwards ? jobs_.fed_by : jobs_.feeds;
        std::ranges::fill(opened_s_, is_backwards ? 0.0 : -1.0);
        for (std::size_t place = 0; place < by_place.size(); ++place)
            place_[by_place[place]] = static_cast<std::uint32_t>(place);
        for (std::size_t m = 0; m < jobs_.count(); ++m) {
            waits_for_[m] = before.of(m).size();
            if (waits_for_[m] == 0) may_start(m, 0);
        }
        while (!events_.empty()) {
            const double now = events_.top().at_s;
            while (!events_.empty() && events_.top().at_s == now) {
                const auto [at_s, kind, m] = events_.top();
                events_.pop();
                if (kind == Event::kReady) {
                    add_waiting(m);
                } else if (kind == Event::kLeft) {
                    hold(m, false);
                } else {
                    for (const std::uint32_t other : after.of(m)) {
                        if (--waits_for_[other] == 0) may_start(other, now);
                    }
                }
            }
            for (std::uint32_t place = next(by_place); place != kNobody; place = next(by_place)) {
                const std::size_t m = by_place[place];
                remove_waiting(m);
                hold(m, true);
                ended_s[m] = open(jobs_.src[m], now) + jobs_.holds_s[m];
                events_.push({ended_s[m], Event::kLeft, m});
                if (!after.of(m).empty())
                    events_.push({ended_s[m] + (is_backwards ? 0.0 : jobs_.latency_s[m]), Event::kArrived, m});
            }
        }
    }

private:
    struct Event {
        enum Kind : std::uint32_t { kLeft, kArrived, kReady };
        double at_s;
        Kind kind;
        std::size_t message;
        bool operator>(const Event& other) const {
            return std::tie(at_s, kind, message) > std::tie(other.at_s, other.kind, other.message);
        }
    };
    /// A port as an end of pairs of ranks: messages by NICs, or inside the server.
    struct End {
        std::size_t first = 0, step = 0;             // its pair with rank 0, and from there to that with rank 1
        const std::uint64_t* others_free = nullptr;  // bits of ranks whose port at the other end is free
        std::uint64_t others = 0;                    // bits of ranks at the other end of what waits
        bool is_busy = false, is_changed = false;
    };
    using Candidate = std::pair<std::uint32_t, End*>;           // a place, and where it was found
    static constexpr std::uint64_t kAll = ~std::uint64_t{0};  // a link of a mesh has no port at the other end

    template <typename Visit>
    void for_each_end(std::size_t m, Visit visit) {
        const auto [out, in] = jobs_.port[m];
        visit(ends_[out], jobs_.dst[m]);
        if (in != out) visit(ends_[in], jobs_.src[m]);
    }
    void change(End& end) {
        if (!std::exchange(end.is_changed, true)) changed_.push_back(&end);
    }

    void may_start(std::size_t m, double now) {
        events_.push({now + (is_backwards_ ? jobs_.latency_s[m] : 0.0), Event::kReady, m});
    }
    void add_waiting(std::size_t m) {
        const std::size_t pair = jobs_.pair(m);
        waiting_[pair].push_back(place_[m]);
        std::ranges::push_heap(waiting_[pair], std::greater<>());
        first_waiting_[pair] = waiting_[pair].front();
        for_each_end(m, [&](End& end, std::size_t other) {
            end.others |= std::uint64_t{1} << other;
            change(end);
        });
    }
    void remove_waiting(std::size_t m) {
        const std::size_t pair = jobs_.pair(m);
        std::ranges::pop_heap(waiting_[pair], std::greater<>());
        waiting_[pair].pop_back();
        if (!waiting_[pair].empty()) {
            first_waiting_[pair] = waiting_[pair].front();
            return;
        }
        for_each_end(m, [](End& end, std::size_t other) { end.others &= ~(std::uint64_t{1} << other); });
    }
    void hold(std::size_t m, bool is_busy) {
        for_each_end(m, [&](End& end, std::size_t) {
            end.is_busy = is_busy;
            if (!is_busy) change(end);
        });
        const std::array<std::uint64_t, 2> at = {std::uint64_t{1} << jobs_.src[m], std::uint64_t{1} << jobs_.dst[m]};
        for (std::size_t side = 0; side < 2; ++side) {
            std::uint64_t& is_free = is_free_[2 * jobs_.crosses[m] + side];
            is_free = is_busy ? is_free & ~at[side] : is_free | at[side];
        }
    }

    /// A rank opens the stage when its first message has its turn.
    double open(std::size_t rank, double now) {
        double& opened = opened_s_[rank];
        if (opened < 0) opened = now + jobs_.opens_s;
        return std::max(now, opened);
    }

    /// Adds who goes first of those that wait for a port and can start now.
    void add_candidate(End& end) {
        if (end.is_busy) return;
        std::uint32_t first = kNobody;
        for (std::uint64_t bits = end.others & *end.others_free; bits != 0; bits &= bits - 1)
            first = std::min(first, first_waiting_[end.first + end.step * to_size(std::countr_zero(bits))]);
        if (first != kNobody) candidates_.emplace(first, &end);
    }

    /// The place of who goes first of those that can start now, if any. Only at ports where something has changed can
    /// anyone; whoever cannot any more is followed by somebody later.
    [[nodiscard]] std::uint32_t next(std::span<const std::uint32_t> by_place) {
        for (End* end : changed_) {
            end->is_changed = false;
            add_candidate(*end);
        }
        changed_.clear();
        while (!candidates_.empty()) {
            const auto [place, end] = candidates_.top();
            candidates_.pop();
            const auto [out, in] = jobs_.port[by_place[place]];
            if (!ends_[out].is_busy && !ends_[in].is_busy) return place;
            add_candidate(*end);
        }
        return kNobody;
    }

    const Jobs& jobs_;
    bool is_backwards_ = false;
    std::vector<std::size_t> waits_for_;  // per message
    std::vector<std::uint32_t> place_;    // per message
    std::array<std::uint64_t, 4> is_free_ = {kAll, kAll, kAll, kAll};  // ranks: ports out and in, NICs out and in
    std::vector<End> ends_;                                            // per port
    std::vector<std::vector<std::uint32_t>> waiting_;  // per pair, a heap of places of who waits for ports only
    std::vector<std::uint32_t> first_waiting_;         // per pair that has any
    std::vector<double> opened_s_;                     // per rank its stage; -1: not yet
    std::vector<End*> changed_;                        // ports that somebody left or came to
    std::priority_queue<Candidate, std::vector<Candidate>, std::greater<>> candidates_;
    std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;
};

/// One message after the other, each from the first moment at which both its ports have enough time. In the order in
/// which messages end in a schedule, and backwards in time, none of it gets longer.
class Insertion {
public:
    explicit Insertion(const Jobs& jobs) : jobs_(jobs), busy_(jobs.num_ports) {}

    /// @param by_place messages, each after those that it waits for
    /// @param ended_s when each message leaves its ports
    void operator()(std::span<const std::uint32_t> by_place, bool is_backwards, std::span<double> ended_s) {
        for (Times& times : busy_) times.clear();
        for (const std::uint32_t m : by_place) {
            double start_s = is_backwards ? jobs_.latency_s[m] : jobs_.opens_s;
            for (const std::uint32_t before : (is_backwards ? jobs_.feeds : jobs_.fed_by).of(m))
                start_s = std::max(start_s, ended_s[before] + jobs_.latency_s[is_backwards ? m : before]);
            ended_s[m] = take(jobs_.port[m], start_s, jobs_.holds_s[m]);
        }
    }

private:
    using Times = std::vector<std::pair<double, double>>;  // from when to when, one after the other

    /// @returns until when both ports are held
    double take(const std::array<std::size_t, 2>& port, double start_s, double holds_s) {
        std::array<std::size_t, 2> at;  // what each port does next
        for (std::size_t side = 0; side < 2; ++side) {
            const Times& times = busy_[port[side]];
            const auto later = std::ranges::upper_bound(times, start_s, {}, &std::pair<double, double>::second);
            at[side] = to_size(later - times.begin());
        }
        for (std::size_t fits = 0, side = 0; fits < 2; side = 1 - side) {
            const Times& times = busy_[port[side]];
            const double before_s = start_s;
            for (; at[side] < times.size() && times[at[side]].first < start_s + holds_s; ++at[side])
                start_s = std::max(start_s, times[at[side]].second);
            fits = start_s == before_s ? fits + 1 : 1;
        }
        for (std::size_t side = 0; side < (port[0] == port[1] ? 1 : 2); ++side) {
            Times& times = busy_[port[side]];
            times.insert(times.begin() + static_cast<std::ptrdiff_t>(at[side]), {start_s, start_s + holds_s});
        }
        return start_s + holds_s;
    }

    const Jobs& jobs_;
    std::vector<Times> busy_;  // per port
};

/// When it is all over if each port keeps the order of turns and a message starts as soon as its ports and what it
/// carries on are there: what will happen.
double seconds_of(const Jobs& jobs, std::span<const std::uint32_t> by_turn) {
    // Whom each waits for: the one before it at either port, and who brings what it carries on.
    std::vector<std::array<std::uint32_t, 2>> next(jobs.count(), {kNobody, kNobody});
    std::vector<std::uint32_t> last(jobs.num_ports, kNobody);
    std::vector<std::size_t> waits_for(jobs.count());
    for (const std::uint32_t m : by_turn) {
        waits_for[m] = jobs.fed_by.of(m).size();
        const auto [out, in] = jobs.port[m];
        for (const std::size_t port : {out, in}) {
            const std::uint32_t before = std::exchange(last[port], m);
            if (before == kNobody || before == m) continue;
            next[before][jobs.port[before][0] == port ? 0 : 1] = m;
            ++waits_for[m];
        }
    }
    // By when they start: a rank opens with the first.
    using Start = std::pair<double, std::uint32_t>;
    std::priority_queue<Start, std::vector<Start>, std::greater<>> starts;
    std::vector<double> may_start_s(jobs.count(), 0.0), opened_s(jobs.ranks, -1.0);
    const auto release = [&](std::uint32_t m, double now) {
        may_start_s[m] = std::max(may_start_s[m], now);
        if (--waits_for[m] == 0) starts.emplace(may_start_s[m], m);
    };
    for (const std::uint32_t m : by_turn) {
        if (waits_for[m] == 0) starts.emplace(0.0, m);
    }
    double seconds = 0;
    std::size_t started = 0;
    for (; !starts.empty(); ++started) {
        const auto [now, m] = starts.top();
        starts.pop();
        double& opened = opened_s[jobs.src[m]];
        if (opened < 0) opened = now + jobs.opens_s;
        const double left_s = std::max(now, opened) + jobs.holds_s[m], there_s = left_s + jobs.latency_s[m];
        for (const std::uint32_t other : next[m]) {
            if (other != kNobody) release(other, left_s);
        }
        for (const std::uint32_t other : jobs.feeds.of(m)) release(other, there_s);
        seconds = std::max(seconds, there_s);
    }
    require(started == jobs.count(), "messages wait for each other in a circle");
    return seconds;
}

/// Most hops to come first; of as many, all that goes from one rank to another is as far as the time is.
std::vector<std::uint32_t> in_step(const ScheduleRows& rows, const Jobs& jobs) {
    std::vector<std::int32_t> hops(jobs.count(), 0), slices(2 * jobs.ranks * jobs.ranks, 0);
    for (std::size_t m = jobs.count(); m-- > 0;) {
        for (const std::uint32_t later : jobs.feeds.of(m)) hops[m] = std::max(hops[m], hops[later] + 1);
        slices[jobs.pair(m)] = std::max(slices[jobs.pair(m)], rows.slice[m] + 1);
    }
    std::vector<std::uint32_t> by_place(jobs.count());
    std::iota(by_place.begin(), by_place.end(), 0U);
    std::ranges::stable_sort(by_place, {}, [&](std::uint32_t m) {
        return std::pair(-hops[m], (rows.slice[m] + 0.5) / slices[jobs.pair(m)]);
    });
    return by_place;
}

}  // namespace

Timetable make_timetable(const ScheduleRows& rows, const Ports& ports, const TwoTierCosts& costs, double enough_s) {
    const Jobs jobs(rows, ports, costs);
    std::vector<std::uint32_t> by_place = in_step(rows, jobs), shortest;
    std::vector<double> ended_s(jobs.count());
    double least_s = std::numeric_limits<double>::infinity();
    // Forwards and backwards: who ends last goes first, so that turns follow what is short of time in the end.
    const auto search = [&](auto schedule) {
        bool is_backwards = false;
        for (std::size_t in_vain = 0; in_vain < kMostInVain && least_s > enough_s; is_backwards = !is_backwards) {
            schedule(by_place, is_backwards, ended_s);
            std::ranges::stable_sort(by_place, std::greater<>(), [&](std::uint32_t m) { return ended_s[m]; });
            std::vector<std::uint32_t> by_turn = by_place;
            if (!is_backwards)
                std::ranges::stable_sort(by_turn, {}, [&](std::uint32_t m) { return ended_s[m] - jobs.holds_s[m]; });
            const double seconds = seconds_of(jobs, by_turn);
            in_vain = seconds < least_s ? 0 : in_vain + jobs.count();
            if (seconds >= least_s) continue;
            least_s = seconds;
            shortest = std::move(by_turn);
        }
    };
    search(ListSchedule(jobs));
    by_place = shortest;
    search(Insertion(jobs));
    Timetable made{std::vector<std::int64_t>(jobs.count()), least_s};
    for (std::size_t turn = 0; turn < jobs.count(); ++turn)
        made.turns[shortest[turn]] = static_cast<std::int64_t>(turn);
    return made;
}

ScheduleRows timed_rows(std::span<const std::int64_t> demand_bytes, const TwoTierDecision& decision,
                        const PieceBytes& pieces) {
    if (pieces.wire > 0) return expand_paths(demand_bytes, decision, pieces);
    const DecidedPlan decided(demand_bytes, decision, kEveryone);
    return expand_two_tier(demand_bytes, decided.plan());
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
