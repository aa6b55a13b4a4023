#include "interlock/two_tier/two_tier_plan.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include "interlock/errors.hpp"
#include "interlock/limits.hpp"
#include "interlock/two_tier/constants.hpp"
#include "interlock/two_tier/ledger.hpp"
#include "interlock/two_tier/port_loads.hpp"
#include "interlock/two_tier/slices.hpp"
#include "interlock/two_tier/tiles.hpp"
#include "interlock/two_tier/timetable.hpp"
#include "interlock/two_tier/trial_run.hpp"

namespace interlock {
namespace {

class Planner {
public:
    Planner(std::span<const std::int64_t> demand, const TwoTierCosts& costs, const Ports& ports, std::int32_t only,
            bool has_time)
        : demand_(demand),
          costs_(costs),
          ports_(ports),
          has_time_(has_time && ports.ranks() <= kMostInDetail),
          ledger_(demand, costs, ports),
          slices_(ledger_, ports, costs),
          tiles_(ledger_.tiles()),
          counts_ports_((has_time || ports.ranks() <= kMostInDetail) &&
                        (only >= 0 || ledger_.ports_matter() || !ports.is_even() || ports.couples_ends() ||
                         (has_time_ && is_crowded(1)))) {}

    TwoTierDecision decide(std::int32_t only, std::int32_t slices) {
        const auto wanted = [&](Way way) { return only < 0 || only == static_cast<std::int32_t>(way); };
        const double slices_per_lane = slices > 0 ? slices : slices_.choose();
        const auto cut = [&](TwoTierDecision& decision) {
            decision.slice_bytes = slices_.bytes(decision.way, slices_per_lane);
        };
        const bool has_rails = all_tiles_have_rails();
        Candidate &direct = at(Way::kDirect), &burst = at(Way::kBurst), &staged = at(Way::kStaged),
                  &detour = at(Way::kDetour);
        if (wanted(Way::kBurst) && has_rails) {
            burst.decision = make_burst();
            cut(burst.decision);
            burst.seconds =
                ledger_.burst_seconds({slices_per_lane, burst.decision.slice_bytes}, levels(burst.decision));
        }
        // Who asks for slices wants a way that has some, where there is one.
        const bool may_be_whole = slices <= 0 || only >= 0 || !(has_rails && only < 0);
        if (wanted(Way::kDirect) && may_be_whole) {
            direct.decision = started(Way::kDirect);
            direct.seconds = ledger_.direct_seconds();
        }
        // Timetables, the assignment and the stages are most of the work: not made where they can gain nothing that is
        // worth telling.
        const auto may_gain = [&](double least_s) {
            if (only >= 0) return true;
            do {
                if (least_s * (1 + kToldApart) < best().seconds) return true;
            } while (run(best()));
            return false;
        };
        const auto may_win = [&](Candidate& way, double least_s) {
            if (may_gain(least_s)) return true;
            way.least_s = least_s;
            return false;
        };
        if (burst.seconds < kNever && may_be_timed(1) && may_gain(ledger_.least_detour_seconds())) give_turns(burst);
        const bool may_be_assigned = !ports_.couples_ends() || ports_.ranks() <= kMostInDetail;
        if (wanted(Way::kDetour) && may_be_whole && may_be_assigned && may_believe(only, has_rails) &&
            may_win(detour, ledger_.least_detour_seconds())) {
            detour.decision = make_detour();
            cut(detour.decision);
            if (detour.decision.assignment.is_whole) {
                // Without messages and last slices it is the least that a detour takes: those are counted where it may
                // win.
                const Assignment& made = detour.decision.assignment;
                detour.seconds = ledger_.detour_seconds({made.nic_s, made.up_s});
                if (counts_ports_ || &best() == &detour)
                    detour.seconds = ledger_.detour_seconds(counted(detour.decision));
                if (may_be_timed(tiles_.width)) give_turns(detour);
            }
        }
        const bool may_take_turns = only >= 0 || tiles_.largest_far > 0;
        if (wanted(Way::kStaged) && has_rails && may_take_turns &&
            may_win(staged, ledger_.least_staged_seconds(is_strict() && !has_time_))) {
            double stages_s = 0;
            staged.decision = make_staged(stages_s);
            cut(staged.decision);
            const PortLevels busy = levels(staged.decision);
            if (staged.decision.pace != Pace::kExclusive) {
                staged.seconds =
                    ledger_.window_seconds({slices_per_lane, slices_.bytes(Way::kBurst, slices_per_lane)}, busy);
            } else {
                staged.seconds =
                    ledger_.staged_seconds({staged.decision.segments, staged.decision.num_stages, stages_s}, busy);
                // Taken at its worst where it is not run before it wins.
                if (!has_time_) staged.seconds += ledger_.stage_port_seconds();
            }
        }
        require(best().seconds < kNever, only >= 0 ? "this way cannot carry the traffic on this cluster"
                                                   : "two servers must talk but no rail joins them");
        // Who wins by a sum must win by a run too, and whoever may have lost by the error of one is run as well.
        while (Candidate* next = unsure()) run(*next);
        Candidate* chosen = &choose();
        TwoTierDecision decision = std::move(chosen->decision);
        for (std::size_t way = 0; way < kNumWays; ++way) {
            decision.predicted_s[way] = candidates_[way].seconds;
            decision.basis[way] = candidates_[way].basis;
            decision.least_s[way] = candidates_[way].least_s;
        }
        return decision;
    }

private:
    /// A way with its price.
    struct Candidate {
        TwoTierDecision decision;
        double seconds = kNever;
        Basis basis = Basis::kSummed;
        double least_s = 0;  // where it was left out
    };
    [[nodiscard]] Candidate& at(Way way) { return candidates_[static_cast<std::size_t>(way)]; }
    [[nodiscard]] Candidate& best() { return *std::ranges::min_element(candidates_, {}, &Candidate::seconds); }
    /// Of ways that cannot be told apart, sending straight is simplest, and the lanes of a burst follow traffic that
    /// drifts.
    [[nodiscard]] Candidate& choose() {
        Candidate* chosen = &best();
        for (const Way simpler : {Way::kDirect, Way::kBurst}) {
            const bool is_simple = chosen == &at(Way::kDirect) || chosen == &at(Way::kBurst);
            const bool are_told = chosen->basis != Basis::kSummed && at(simpler).basis != Basis::kSummed;
            if (!is_simple && !are_told && at(simpler).seconds < (1 + kToldApart) * chosen->seconds)
                chosen = &at(simpler);
        }
        return *chosen;
    }

    /// Whether a price is a sum that may be mistaken, and there is time to run it.
    [[nodiscard]] bool is_unsure(const Candidate& candidate) const {
        const Way way = candidate.decision.way;
        return has_time_ && candidate.seconds < kNever && candidate.basis == Basis::kSummed && way != Way::kDirect &&
               (counts_ports_ || way != Way::kBurst);
    }
    /// The best of those that may win but for the error of a sum.
    [[nodiscard]] Candidate* unsure() {
        Candidate* next = nullptr;
        for (Candidate& candidate : candidates_) {
            const bool may_win = is_unsure(candidate) && (1 - kSumsErr) * candidate.seconds < best().seconds;
            if (may_win && (next == nullptr || candidate.seconds < next->seconds)) next = &candidate;
        }
        return next;
    }
    /// Its messages in the simulator. @returns whether the price is new
    bool run(Candidate& candidate) const {
        if (!is_unsure(candidate)) return false;
        candidate.seconds = trial_seconds(demand_, candidate.decision, ports_, costs_);
        candidate.basis = Basis::kRun;
        return true;
    }
    [[nodiscard]] PortLevels counted(const TwoTierDecision& decision) const {
        return port_levels(demand_, decision, ports_, costs_.message_overhead_s);
    }
    /// Of balanced traffic: counted where ports may set the time, else the most that they can be busy.
    [[nodiscard]] PortLevels levels(const TwoTierDecision& decision) const {
        return counts_ports_ ? counted(decision) : PortLevels{0, ledger_.most_port_seconds()};
    }

    [[nodiscard]] TwoTierDecision started(Way way) const {
        TwoTierDecision decision;
        decision.servers = tiles_.servers;
        decision.width = tiles_.width;
        decision.way = way;
        decision.has_links = ports_.is_mesh;
        decision.slice_bytes.assign(tiles_.servers, 0);
        decision.tile_bytes = tiles_.bytes;
        const double rate = std::min(ports_.link_rate(), std::ranges::max(ports_.nic));
        const double message_bytes = costs_.message_overhead_s * rate;
        decision.hop_costs = {message_bytes, message_bytes + costs_.scale_up_latency_s * rate,
                              message_bytes + costs_.scale_out_latency_s * rate};
        return decision;
    }

    [[nodiscard]] TwoTierDecision make_burst() const {
        TwoTierDecision decision = started(Way::kBurst);
        if (ledger_.ports_matter()) {
            Assignment shared = share_all();
            decision.targets = nic_targets(shared, ports_);
            decision.assignment.near = std::move(shared.near);
        } else {
            decision.targets = rate_targets(ports_);
        }
        return decision;
    }

    [[nodiscard]] TwoTierDecision make_staged(double& seconds) const {
        TwoTierDecision decision = started(Way::kStaged);
        if (ports_.is_mesh) decision.assignment.near = share_all().near;
        decision.targets = rate_targets(ports_);
        Stages stages = make_stages(tiles_, ports_, is_strict() ? costs_.stage_overhead_s : 0.0);
        if (!is_strict()) {
            for (Segment& segment : stages.segments) segment.stage = 0;
            stages.num_stages = 1;
        }
        seconds = stages.seconds;
        decision.pace = is_strict() && ports_.server_uplink() <= 0 ? Pace::kExclusive : Pace::kWindow;
        decision.window = std::max(1, costs_.fan_in);
        decision.segments = std::move(stages.segments);
        decision.num_stages = std::max(stages.num_stages, 1);
        return decision;
    }

    /// Whether stages have one partner at a time: with no more partners than the fabric tolerates senders, a burst is a
    /// window already.
    [[nodiscard]] bool is_strict() const {
        return costs_.fan_in <= 1 || static_cast<std::size_t>(costs_.fan_in) + 1 >= tiles_.servers;
    }

    [[nodiscard]] TwoTierDecision make_detour() const {
        TwoTierDecision decision = started(Way::kDetour);
        const std::vector<double> busy = ledger_.busy_seconds();
        // A NIC with a sender more than the fabric likes would lose by loops, unless senders have turns.
        const bool may_loop = costs_.fan_in == 0 || tiles_.largest_far == 0 || may_be_timed(tiles_.width);
        const AssignmentGoal goal{.busy_s = busy, .worth_s = worth_s(), .may_loop = may_loop, .evens_out = has_time_};
        decision.assignment = assign_bytes(demand_, ledger_.loads(), ports_, goal);
        decision.flow_bytes = slices_.flow_bytes();
        decision.pair_bytes = slices_.pair_bytes();
        return decision;
    }

    /// Where a NIC has more senders than the fabric bears. @param senders of each server to a NIC
    [[nodiscard]] bool is_crowded(std::size_t senders) const {
        return costs_.fan_in > 0 && static_cast<std::size_t>(costs_.fan_in) < (tiles_.servers - 1) * senders;
    }
    [[nodiscard]] bool may_be_timed(std::size_t senders) const {
        const bool has_own_ports = ports_.ranks() <= kMostTimed && ports_.count() == ports_.first_uplink();
        return has_time_ && has_own_ports && (ledger_.ports_matter() || is_crowded(senders));
    }
    /// Sums miss what slices of a detour wait for and whom they crowd.
    [[nodiscard]] bool may_believe(std::int32_t only, bool has_rails) const {
        return ports_.ranks() <= kMostInDetail || only >= 0 || !has_rails;
    }
    /// Messages in a timetable, where that takes less time than ports that are shared.
    void give_turns(Candidate& candidate) const {
        TwoTierDecision& way = candidate.decision;
        const double enough_s = (1 + kToldApart) * ledger_.least_detour_seconds();
        run(candidate);
        const auto consider = [&](const PieceBytes& pieces) {
            if (candidate.seconds <= enough_s && !way.turns.empty()) return;
            Timetable timetable = make_timetable(timed_rows(demand_, way, pieces), ports_, costs_, enough_s);
            if (timetable.seconds >= candidate.seconds) return;
            candidate.seconds = timetable.seconds;
            candidate.basis = Basis::kInTurns;
            way.turns = std::move(timetable.turns);
            way.pieces = pieces;
        };
        if (way.way != Way::kDetour) return consider({});
        const PieceBytes fine = slices_.pieces();
        consider(fine);
        consider({2 * fine.wire, 2 * fine.hop});  // most routes are short: fewer of them are cut
    }

    /// Bytes between servers shared out over NICs, but for what ports have no time for. On a mesh, bytes between
    /// neighbours whose link has no time for them beside that take a third GPU.
    [[nodiscard]] Assignment share_all() const {
        const AssignmentGoal goal{.worth_s = worth_s(), .may_loop = false, .shares_all = true};
        return assign_bytes(demand_, ledger_.loads(), ports_, goal);
    }
    /// That a move must save: what its messages cost.
    [[nodiscard]] double worth_s() const { return 2 * costs_.message_overhead_s; }

    /// Whether every two servers that must talk have a GPU index whose NICs work at both.
    [[nodiscard]] bool all_tiles_have_rails() const {
        if (std::ranges::all_of(ports_.nic, [](double rate) { return rate > 0; })) return true;
        for (std::size_t tile = 0; tile < tiles_.bytes.size(); ++tile) {
            const std::size_t src = tile / tiles_.servers, dst = tile % tiles_.servers;
            if (src == dst || tiles_.bytes[tile] == 0) continue;
            bool joined = false;
            for (std::size_t rail = 0; rail < tiles_.width; ++rail) {
                joined = joined ||
                         std::min(ports_.nic[src * tiles_.width + rail], ports_.nic[dst * tiles_.width + rail]) > 0;
            }
            if (!joined) return false;
        }
        return true;
    }

    std::span<const std::int64_t> demand_;
    const TwoTierCosts& costs_;
    const Ports& ports_;
    bool has_time_;  // for timetables and trial runs: a matter of milliseconds
    const Ledger ledger_;
    const Slices slices_;
    const Tiles& tiles_;
    bool counts_ports_;  // as it will be written: ports inside servers, unlike NICs, uplinks or crowds may set the time
    std::array<Candidate, kNumWays> candidates_;
};

/// Bytes of tiles as the decision left them.
Tiles tiles_of(std::span<const std::int64_t> demand, const TwoTierDecision& decision) {
    const std::size_t servers = decision.servers, width = decision.width;
    require(demand.size() == servers * width * servers * width, "demand_bytes must be [ranks, ranks]");
    if (decision.tile_bytes.empty()) return sum_tiles(demand, servers, width);
    return {servers, width, decision.tile_bytes, {}, {}, {}, 0};
}

/// As the segments of `whole_tiles` would tell.
std::int64_t typical_lane_bytes(const Tiles& tiles, const LaneTable& lanes) {
    std::int64_t most = 1;
    for (std::size_t src = 0; src < tiles.servers; ++src) {
        std::int64_t bytes = 0, count = 0;
        for (std::size_t tile = src * tiles.servers; tile < (src + 1) * tiles.servers; ++tile) {
            if (tile % tiles.servers == src || tiles.bytes[tile] == 0) continue;
            bytes += tiles.bytes[tile];
            count += lanes.offsets.empty() ? static_cast<std::int64_t>(tiles.width)
                                           : lanes.offsets[tile + 1] - lanes.offsets[tile];
        }
        if (count > 0) most = std::max(most, bytes / count);
    }
    return most;
}

LaneTable lanes_of(const Tiles& tiles, const TwoTierDecision& decision) {
    if (decision.targets.are_equal()) return {tiles.servers, tiles.width, {}, {}};
    return rail_lanes(tiles, decision.targets, decision.pace == Pace::kBurst ? ShareRule::kServer : ShareRule::kTile);
}

/// Tiles from and to one server, all at once.
std::vector<Segment> tiles_at(const Tiles& tiles, std::size_t server) {
    std::vector<Segment> segments;
    segments.reserve(2 * tiles.servers);
    for (std::size_t src = 0; src < tiles.servers; ++src) {
        const std::size_t first = src == server ? 0 : server, last = src == server ? tiles.servers : server + 1;
        for (std::size_t dst = first; dst < last; ++dst) {
            const std::int64_t bytes = src == dst ? 0 : tiles.bytes[src * tiles.servers + dst];
            if (bytes > 0)
                segments.push_back({static_cast<std::int32_t>(src), static_cast<std::int32_t>(dst), 0, 0, bytes});
        }
    }
    return segments;
}

}  // namespace

TwoTierDecision plan_two_tier(std::span<const std::int64_t> demand_bytes, const TwoTierCosts& costs, const Ports& ports,
                              std::int32_t only, std::int32_t slices, bool has_time) {
    require(ports.servers > 0 && ports.width > 0 && ports.nic.size() == ports.ranks(), "nic rates must be [ranks]");
    require(only >= -1 && only < static_cast<std::int32_t>(kNumWays), "no such way");
    require(slices >= 0 && slices <= kMostRounds, "slices must be between 0 and 100000");
    return Planner(demand_bytes, costs, ports, only, has_time).decide(only, slices);
}

DirectPrice direct_price(std::span<const std::int64_t> demand_bytes, const TwoTierCosts& costs, const Ports& ports) {
    const Ledger ledger(demand_bytes, costs, ports);
    return {ledger.direct_seconds(), costs.stage_overhead_s + ledger.cut_s()};
}

DecidedPlan::DecidedPlan(std::span<const std::int64_t> demand, const TwoTierDecision& decision, std::int32_t rank)
    : tiles_(tiles_of(demand, decision)),
      lanes_(lanes_of(tiles_, decision)),
      plan_{decision.servers,     decision.width,     decision.segments,    lanes_,
            decision.slice_bytes, decision.pace,      decision.window,      decision.has_links,
            decision.flow_bytes,  decision.hop_costs, &decision.assignment, rank} {
    if (decision.way == Way::kDetour) plan_.typical_lane_bytes = decision.pair_bytes;
    plan_.local_waits = !decision.has_links && decision.way != Way::kDetour && tiles_.has_far();
    if (!decision.segments.empty()) return;
    // In a burst, tiles between other servers do not tell.
    whole_ = rank == kEveryone || decision.pace != Pace::kBurst
                 ? whole_tiles(tiles_)
                 : tiles_at(tiles_, static_cast<std::size_t>(rank) / decision.width);
    plan_.segments = whole_;
    if (decision.way != Way::kDetour) plan_.typical_lane_bytes = typical_lane_bytes(tiles_, lanes_);
}

TwoTierDecision scaled(const TwoTierDecision& decision, std::span<const std::int64_t> demand_bytes) {
    TwoTierDecision made = decision;
    made.tile_bytes.clear();
    made.turns.clear();
    if (decision.segments.empty()) return made;
    const Tiles tiles = sum_tiles(demand_bytes, decision.servers, decision.width);
    made.segments = scale_segments(decision.segments, tiles);
    made.tile_bytes = tiles.bytes;
    return made;
}

}  // namespace interlock
