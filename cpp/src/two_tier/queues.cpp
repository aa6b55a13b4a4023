#include "interlock/two_tier/queues.hpp"

#include <algorithm>
#include <array>
#include <numeric>
#include <utility>
#include <vector>

#include "interlock/arithmetic.hpp"
#include "interlock/two_tier/shared_ports.hpp"
#include "interlock/two_tier/wires.hpp"

namespace interlock {
namespace {

constexpr double kNoLimit = 1e300;

/// Work that reaches a port at some time.
struct Job {
    double ready_s, work_s;
};

/// When a port that never pauses is done with all of them.
double end_of(std::vector<Job>& jobs) {
    std::ranges::sort(jobs, {}, &Job::ready_s);
    double done = 0;
    for (const Job& job : jobs) done = std::max(done, job.ready_s) + job.work_s;
    return done;
}

/// Slices that one pair of NICs carries.
struct LaneFlow {
    std::int32_t src, dst;
    double bytes = 0;
    std::int32_t slices = 0, flows = 0;  // flows: slices on the wire at once, of equal parts of it
    std::vector<double> slice_bytes;     // in the order in which they leave
    std::array<std::int32_t, 2> after = {-1, -1};  // lanes that must be over before it begins
    [[nodiscard]] double bytes_in_flight() const { return bytes * flows / std::max(1, slices); }
};

/// Seconds of a lane on NICs that it has for itself: each slice leaves when one before it has arrived.
double alone_seconds(const LaneFlow& lane, double rate, double latency_s, double overhead_s) {
    double seconds = 0;
    for (const double bytes : lane.slice_bytes) {
        const double wire_s = bytes / rate + overhead_s;
        seconds += std::max(wire_s, (wire_s + latency_s) / lane.flows);
    }
    return seconds;
}

/// Moves inside servers of one phase, one per (server, wave, from, to), as they will be written.
class Moves {
public:
    Moves(const Ports& ports, std::int32_t waves)
        : waves_(to_size(waves)),
          width_(ports.width),
          bytes_(ports.ranks() * waves_ * width_, 0.0),
          moment_s_(bytes_.size(), 0.0) {}

    [[nodiscard]] std::size_t at(std::int32_t wave, std::int32_t from, std::int32_t to) const {
        const std::size_t src = to_size(from), dst = to_size(to);
        return ((src / width_ * waves_ + to_size(wave)) * width_ + src % width_) * width_ + dst % width_;
    }
    double& bytes(std::size_t move) { return bytes_[move]; }
    double& moment_s(std::size_t move) { return moment_s_[move]; }  ///< when it is done, or may begin

    /// What every move takes of each port that it occupies, in the order in which they leave.
    template <typename Visit>
    void for_each(const Ports& ports, std::span<const double> rate, double overhead_s, Visit visit) const {
        for (std::size_t move = 0; move < bytes_.size(); ++move) {
            if (bytes_[move] <= 0) continue;
            const std::size_t first = move / (width_ * width_ * waves_) * width_;
            const RoutePorts on(
                ports, {to_int32(first + move / width_ % width_), to_int32(first + move % width_), -1, -1, -1});
            double overhead = overhead_s;  // at the first
            for (const std::size_t port : on.all())
                visit(move, port, bytes_[move] / rate[port] + std::exchange(overhead, 0.0));
        }
    }

    template <typename Visit>
    void for_each_move(Visit visit) const {
        for (std::size_t move = 0; move < bytes_.size(); ++move) {
            if (bytes_[move] <= 0) continue;
            const std::size_t first = move / (width_ * width_ * waves_) * width_;
            visit(move, to_int32(move / (width_ * width_) % waves_), first + move / width_ % width_,
                  first + move % width_, bytes_[move]);
        }
    }

private:
    std::size_t waves_, width_;
    std::vector<double> bytes_, moment_s_;
};

class Queues {
public:
    Queues(std::span<const std::int64_t> demand, const TwoTierDecision& decision, const Ports& ports,
           const TwoTierCosts& costs)
        : demand_(demand),
          decision_(decision),
          ports_(ports),
          costs_(costs),
          rate_(ports.rates()),
          table_(cut_wires(demand, DecidedPlan(demand, decision, kEveryone).plan())),
          jobs_(ports.count()),
          at_once_s_(ports.count(), 0.0),
          sends_at_once_(ports.ranks(), false),
          opened_s_(ports.ranks(), 1e300),
          wire_bytes_(table_.wires.size(), 0.0),
          ready_s_(table_.wires.size(), 0.0),
          arrives_s_(table_.wires.size(), 0.0) {
        // Uplinks are ports here: what NICs get of them is found, not given. In a window lanes are alike, each a slice
        // at a time.
        if (decision.pace == Pace::kWindow) return;
        for (std::size_t rank = 0; rank < ports.ranks(); ++rank) {
            rate_[ports.out(rank)] = ports.nic[rank];
            rate_[ports.in(rank)] = ports.nic[rank] * ports.efficiency;
        }
    }

    double run() {
        Moves before(ports_, table_.num_waves), after(ports_, table_.num_waves);
        for (const WirePiece& piece : table_.pieces) {
            const Wire& wire = table_.wires[to_size(piece.wire)];
            const auto bytes = static_cast<double>(piece.length);
            wire_bytes_[to_size(piece.wire)] += bytes;
            if (piece.sender != wire.src) {
                before.bytes(before.at(wire.balance_wave, piece.sender, wire.src)) += bytes;
                if (wire.stage == 0) sends_at_once_[to_size(piece.sender)] = true;
            }
            if (piece.receiver != wire.dst) after.bytes(after.at(wire.restore_wave, wire.dst, piece.receiver)) += bytes;
        }
        double end = stay_inside();
        give(before, after);
        end = std::max(end, decision_.pace == Pace::kExclusive ? take_turns() : flow());
        pass_on(after);
        for (std::size_t port = 2 * ports_.ranks(); port < ports_.first_uplink(); ++port) {
            if (at_once_s_[port] > 0) jobs_[port].push_back({costs_.stage_overhead_s, at_once_s_[port]});
            if (!jobs_[port].empty()) end = std::max(end, end_of(jobs_[port]) + costs_.scale_up_latency_s);
        }
        return end;
    }

private:
    [[nodiscard]] RoutePorts hop(std::int32_t from, std::int32_t to) const { return {ports_, {from, to, -1, -1, -1}}; }
    [[nodiscard]] RoutePorts wire(std::int32_t out, std::int32_t in) const { return {ports_, {out, in, out, in, -1}}; }

    void add_near(std::int32_t from, std::int32_t to, double bytes, double messages) {
        if (from == to) return;
        const RoutePorts on = hop(from, to);
        for (const std::size_t port : on.all()) at_once_s_[port] += bytes / rate_[port];
        at_once_s_[on.all().front()] += messages * costs_.message_overhead_s;
    }
    void add_loop(std::int32_t out, std::int32_t in, double bytes, std::int32_t parts) {
        const std::size_t port = ports_.out(to_size(out));
        lanes_.push_back({out, in, bytes, parts, parts, {}, {-1, -1}});
        jobs_[port].push_back({costs_.stage_overhead_s, bytes / rate_[port] + parts * costs_.message_overhead_s});
    }

    /// Traffic inside servers: straight, around a link or by NICs.
    /// @returns when the longest chain of slices around a link is over
    double stay_inside() {
        const std::size_t ranks = ports_.ranks(), width = ports_.width;
        for (std::size_t src = 0; src < ranks; ++src) {
            for (std::size_t dst = src / width * width; dst < (src / width + 1) * width; ++dst) {
                const std::int64_t bytes = demand_[src * ranks + dst];
                if (bytes > 0) add_near(to_int32(src), to_int32(dst), static_cast<double>(bytes), 1);
                sends_at_once_[src] = sends_at_once_[src] || (bytes > 0 && src != dst);
            }
        }
        double end = 0;
        std::vector<bool> has_own = sends_at_once_;
        for (const Wire& wire : table_.wires) has_own[to_size(wire.src)] = true;
        const auto around = [&](const Route& route, double bytes) {
            add_near(route.from, route.to, -bytes, 0);
            const std::int32_t slices = relay_slices(static_cast<std::int64_t>(bytes), route, decision_.hop_costs);
            const std::int32_t first = route.relay >= 0 ? route.relay : route.out,
                               second = route.relay >= 0 ? route.relay : route.in;
            add_near(route.from, first, bytes, slices);
            if (first != second || route.relay < 0) add_loop(first, second, bytes, slices);
            add_near(second, route.to, bytes, slices);
            // Each slice leaves when one before it is there.
            const double slice_s =
                (route.relay >= 0 ? costs_.scale_up_latency_s : costs_.scale_out_latency_s) + costs_.message_overhead_s;
            if (first != route.from || second != route.to) {
                // A relay that has nothing of its own opens the stage when the first slice is there.
                const double opened_s =
                    has_own[to_size(first)] && has_own[to_size(second)] ? 0.0 : costs_.stage_overhead_s;
                end = std::max(end, costs_.stage_overhead_s + opened_s + bytes / ports_.link_rate() +
                                        (slices / kRelayFlows + 1) * slice_s);
            }
        };
        for (const NearPair& pair : decision_.near_pairs) {
            if (pair.nic_bytes <= 0) continue;
            const auto bytes = static_cast<double>(pair.nic_bytes);
            add_near(pair.src, pair.dst, -bytes, 0);
            add_loop(pair.src, pair.dst, bytes, pair.parts);
        }
        for (const auto& [route, bytes] : decision_.assignment.near) around(route, static_cast<double>(bytes));
        return end;
    }

    /// What hops to NICs of neighbours, wave by wave, shares a port with what stays inside the server as long as there
    /// is any, and with what wires bring for others, which comes as long as they run.
    void give(Moves& moves, const Moves& later) {
        std::vector<double> clock_s(ports_.count(), 0.0), gives_s(ports_.count(), 0.0), passes_s(ports_.count(), 0.0);
        moves.for_each(ports_, rate_, costs_.message_overhead_s,
                       [&](std::size_t, std::size_t port, double seconds) { gives_s[port] += seconds; });
        later.for_each(ports_, rate_, costs_.message_overhead_s,
                       [&](std::size_t, std::size_t port, double seconds) { passes_s[port] += seconds; });
        const double wires_s = longest_wire_s();
        moves.for_each(
            ports_, rate_, costs_.message_overhead_s, [&](std::size_t move, std::size_t port, double seconds) {
                clock_s[port] += seconds;
                const double others =
                    passes_s[port] / std::max(wires_s, at_once_s_[port] + gives_s[port] + passes_s[port]);
                const double shared_s = clock_s[port] + std::min(at_once_s_[port], clock_s[port]);
                const double done_s = costs_.stage_overhead_s + shared_s / (1 - others) + costs_.scale_up_latency_s;
                moves.moment_s(move) = std::max(moves.moment_s(move), done_s);
            });
        for (std::size_t port = 0; port < clock_s.size(); ++port) at_once_s_[port] += clock_s[port];
        wait_in_waves(moves);
        for (const WirePiece& piece : table_.pieces) {
            const Wire& wire = table_.wires[to_size(piece.wire)];
            if (piece.sender == wire.src) continue;
            double& ready = ready_s_[to_size(piece.wire)];
            ready = std::max(ready, moves.moment_s(moves.at(wire.balance_wave, piece.sender, wire.src)));
        }
    }

    /// Seconds that the busiest NIC needs.
    [[nodiscard]] double longest_wire_s() const {
        std::vector<double> seconds(2 * ports_.ranks(), 0.0);
        for (std::size_t id = 0; id < table_.wires.size(); ++id) {
            const std::size_t out = ports_.out(to_size(table_.wires[id].src)),
                              in = ports_.in(to_size(table_.wires[id].dst));
            seconds[out] += wire_bytes_[id] / rate_[out];
            seconds[in] += wire_bytes_[id] / rate_[in];
        }
        return std::ranges::max(seconds);
    }

    /// A GPU's moves leave wave by wave, each after one before it has arrived.
    void wait_in_waves(Moves& moves) const {
        struct Sender {
            std::int32_t wave = -1;
            std::vector<double> done_s;  // by wave that it takes part in
        };
        const std::size_t streams = decision_.has_links ? ports_.width : 1;  // of one GPU
        std::vector<Sender> senders(ports_.ranks() * streams);
        moves.for_each_move([&](std::size_t move, std::int32_t wave, std::size_t src, std::size_t to, double bytes) {
            Sender& sender = senders[src * streams + to % streams];
            if (std::exchange(sender.wave, wave) != wave) sender.done_s.push_back(0.0);
            const std::size_t count = sender.done_s.size();
            const double before_s =
                count > kBalanceWaves ? sender.done_s[count - 1 - kBalanceWaves] : costs_.stage_overhead_s;
            double& done_s = moves.moment_s(move);
            done_s = std::max(
                done_s, before_s + bytes / ports_.link_rate() + costs_.message_overhead_s + costs_.scale_up_latency_s);
            sender.done_s.back() = std::max(sender.done_s.back(), done_s);
        });
    }

    /// A rank opens the stage when it first has something to send: who only passes on opens it late. Wires wait for
    /// that.
    void open_doors() {
        for (std::size_t rank = 0; rank < ports_.ranks(); ++rank) {
            if (sends_at_once_[rank]) opened_s_[rank] = costs_.stage_overhead_s;
        }
        for (std::size_t id = 0; id < table_.wires.size(); ++id) {
            double& opened = opened_s_[to_size(table_.wires[id].src)];
            opened = std::min(opened, ready_s_[id] + costs_.stage_overhead_s);
        }
        for (std::size_t id = 0; id < table_.wires.size(); ++id) {
            ready_s_[id] = std::max(ready_s_[id], opened_s_[to_size(table_.wires[id].src)]);
        }
    }

    /// All lanes at once: a lane ends with the last of its NICs and uplinks.
    double flow() {
        const std::size_t ranks = ports_.ranks();
        open_doors();
        std::vector<std::int32_t> lane_at(ranks * ranks, -1), lane_of(table_.wires.size());
        for (std::size_t id = 0; id < table_.wires.size(); ++id) {
            const Wire& wire = table_.wires[id];
            std::int32_t& lane = lane_at[to_size(wire.src) * ranks + to_size(wire.dst)];
            if (lane < 0 || (decision_.pace == Pace::kWindow && wire.slice == 0)) {
                lane = to_int32(lanes_.size());
                lanes_.push_back({.src = wire.src, .dst = wire.dst, .slice_bytes = {}});
                if (decision_.pace == Pace::kWindow) {
                    for (std::size_t n = 0; n < 2; ++n)
                        lanes_.back().after[n] = wire.after[n] == kNoWire ? -1 : lane_of[to_size(wire.after[n])];
                }
            }
            lane_of[id] = lane;
            lanes_[to_size(lane)].bytes += wire_bytes_[id];
            ++lanes_[to_size(lane)].slices;
            lanes_[to_size(lane)].slice_bytes.push_back(wire_bytes_[id]);
            if (lanes_[to_size(lane)].flows == 0 || wire.after[0] == kNoWire) ++lanes_[to_size(lane)].flows;
            const std::size_t port = ports_.out(to_size(wire.src));
            jobs_[port].push_back({ready_s_[id], wire_bytes_[id] / rate_[port] + costs_.message_overhead_s});
        }
        const std::vector<Span> spans = end_lanes();
        // Backwards, so that of the slices on the wire together the last is met first.
        std::vector<double> left(lanes_.size()), together(lanes_.size());
        std::vector<std::int32_t> slice(lanes_.size());
        for (std::size_t lane = 0; lane < lanes_.size(); ++lane) {
            left[lane] = lanes_[lane].bytes;
            slice[lane] = lanes_[lane].slices;
        }
        for (std::size_t id = table_.wires.size(); id-- > 0;) {
            const std::size_t lane = to_size(lane_of[id]);
            const LaneFlow& flow = lanes_[lane];
            if (slice[lane] == flow.slices || slice[lane] % std::max(1, flow.flows) == 0)
                together[lane] = left[lane] / flow.bytes;
            --slice[lane];
            left[lane] -= wire_bytes_[id];
            const double paced_s = spans[lane].start_s + (spans[lane].end_s - spans[lane].start_s) * together[lane];
            const double rate = std::min(rate_[ports_.out(to_size(flow.src))], rate_[ports_.in(to_size(flow.dst))]);
            const double alone_s = ready_s_[id] + wire_bytes_[id] / rate + costs_.message_overhead_s;
            arrives_s_[id] = std::max(paced_s, alone_s) + costs_.scale_out_latency_s;
            // Who only passes on opens the stage when the first slice is there, which the others may have let through.
            double& opened = opened_s_[to_size(flow.dst)];
            opened = std::min(opened, alone_s + costs_.scale_out_latency_s + costs_.stage_overhead_s);
        }
        double last = 0;
        for (std::size_t id = 0; id < table_.wires.size(); ++id) {
            const Wire& slice = table_.wires[id];
            const double rate = std::min(rate_[ports_.out(to_size(slice.src))], rate_[ports_.in(to_size(slice.dst))]);
            for (const std::int32_t earlier : slice.after) {
                if (earlier == kNoWire) continue;
                arrives_s_[id] = std::max(arrives_s_[id], arrives_s_[to_size(earlier)] + wire_bytes_[id] / rate +
                                                              costs_.message_overhead_s + costs_.scale_out_latency_s);
            }
            last = std::max(last, arrives_s_[id]);
        }
        for (const Span& span : spans) last = std::max(last, span.end_s + costs_.scale_out_latency_s);
        return last;
    }

    /// When each lane begins and is over: its flows share ports evenly with those of others, as a fluid.
    std::vector<Span> end_lanes() {
        const std::size_t ranks = ports_.ranks();
        std::vector<double> load(ports_.count(), 0.0), flows(ports_.count(), 0.0), rate(ports_.count(), 0.0);
        std::vector<SharingLane> sharing;
        sharing.reserve(lanes_.size());
        for (const LaneFlow& lane : lanes_) {
            sharing.push_back({{}, 0, lane.bytes, static_cast<double>(std::max(1, lane.flows)), kNoLimit, lane.after});
            SharingLane& made = sharing.back();
            double alone = kNoLimit;
            const RoutePorts on = wire(lane.src, lane.dst);
            for (const std::size_t port : on.all()) {
                made.port[to_size(made.num_ports++)] = to_int32(port);
                load[port] += lane.bytes;
                flows[port] += made.flows;
                alone = std::min(alone, rate_[port]);
            }
            if (lane.slices > lane.flows) {
                made.most_rate =
                    lane.bytes / alone_seconds(lane, alone, costs_.scale_out_latency_s, costs_.message_overhead_s);
            }
        }
        // A NIC begins the messages of all its flows before the first byte leaves: nothing arrives until then.
        std::vector<double> begun_s(ports_.count(), kNoLimit);
        for (const SharingLane& lane : sharing) {
            for (const std::int32_t port : lane.ports())
                begun_s[to_size(port)] =
                    std::min(begun_s[to_size(port)], costs_.message_overhead_s * flows[to_size(lane.port.front())]);
        }
        // What a NIC sends waits for hops and pays for messages: it is as much slower.
        for (std::size_t port = 0; port < rate.size(); ++port) {
            if (load[port] <= 0) continue;
            const double busy_s =
                port < ranks ? end_of(jobs_[port]) - costs_.stage_overhead_s : begun_s[port] + load[port] / rate_[port];
            rate[port] = load[port] / busy_s;
        }
        const auto lose = [&](std::span<const std::int32_t> active, std::span<double> now) {
            if (costs_.fan_in == 0) return;
            std::vector<double> senders(ranks, 0.0), in_flight(ranks, 0.0);
            for (const std::int32_t lane : active) {
                const LaneFlow& flow = lanes_[to_size(lane)];
                senders[to_size(flow.dst)] += 1;
                in_flight[to_size(flow.dst)] += flow.bytes_in_flight();
            }
            for (std::size_t rank = 0; rank < ranks; ++rank) {
                if (senders[rank] > 0)
                    now[ports_.in(rank)] *= costs_.congestion.goodput(static_cast<std::int32_t>(senders[rank]),
                                                                      in_flight[rank] / senders[rank]);
            }
        };
        std::vector<Span> spans = share_ports(sharing, rate, costs_.scale_out_latency_s, lose);
        for (Span& span : spans) span = {costs_.stage_overhead_s + span.start_s, costs_.stage_overhead_s + span.end_s};
        return spans;
    }

    /// One partner at a time, in the order of the wires; each rank opens one stage after the other.
    double take_turns() {
        const std::size_t ranks = ports_.ranks();
        std::vector<double> out(ranks, 0.0), in(ranks, 0.0), opened(ranks, 0.0), load(ports_.count(), 0.0);
        std::vector<std::int32_t> stage(ranks, -1);
        // Who has anything to send inside the server opens the first stage at once.
        for (std::size_t src = 0; src < ranks; ++src) {
            if (!sends_at_once_[src]) continue;
            stage[src] = 0;
            opened[src] = costs_.stage_overhead_s;
        }
        double last = 0;
        for (std::size_t id = 0; id < table_.wires.size(); ++id) {
            const Wire& turn = table_.wires[id];
            const std::size_t src = to_size(turn.src), dst = to_size(turn.dst);
            double start_s = std::max({out[src], in[dst], ready_s_[id]});
            if (std::exchange(stage[src], turn.stage) != turn.stage)
                opened[src] = std::max(opened[src], start_s) + costs_.stage_overhead_s;
            start_s = std::max(start_s, opened[src]);
            const double rate = std::min(rate_[ports_.out(src)], rate_[ports_.in(dst)]);
            out[src] = in[dst] = start_s + costs_.message_overhead_s + wire_bytes_[id] / rate;
            arrives_s_[id] = out[src] + costs_.scale_out_latency_s;
            last = std::max(last, arrives_s_[id]);
            const RoutePorts on = wire(turn.src, turn.dst);
            for (const std::size_t port : on.all()) load[port] += wire_bytes_[id];
        }
        // Who only passes on opens the stage when the first slice is there.
        for (std::size_t id = 0; id < table_.wires.size(); ++id) {
            const std::size_t dst = to_size(table_.wires[id].dst);
            opened_s_[dst] = stage[dst] >= 0 ? 0.0 : std::min(opened_s_[dst], arrives_s_[id] + costs_.stage_overhead_s);
        }
        for (const LaneFlow& loop : lanes_) {
            const RoutePorts on = wire(loop.src, loop.dst);
            for (const std::size_t port : on.all()) load[port] += loop.bytes;
        }
        for (std::size_t port = 0; port < load.size(); ++port) {
            if (load[port] > 0)
                last = std::max(last, costs_.stage_overhead_s + load[port] / rate_[port] + costs_.scale_out_latency_s);
        }
        return last;
    }

    /// What wires bring for neighbours, when it is there.
    void pass_on(Moves& moves) {
        for (const WirePiece& piece : table_.pieces) {
            const Wire& wire = table_.wires[to_size(piece.wire)];
            if (piece.receiver == wire.dst) continue;
            double& ready = moves.moment_s(moves.at(wire.restore_wave, wire.dst, piece.receiver));
            ready = std::max(ready, arrives_s_[to_size(piece.wire)]);
        }
        moves.for_each_move([&](std::size_t move, std::int32_t, std::size_t from, std::size_t, double) {
            moves.moment_s(move) = std::max(moves.moment_s(move), opened_s_[from]);
        });
        moves.for_each(ports_, rate_, costs_.message_overhead_s,
                       [&](std::size_t move, std::size_t port, double seconds) {
                           jobs_[port].push_back({moves.moment_s(move), seconds});
                       });
    }

    std::span<const std::int64_t> demand_;
    const TwoTierDecision& decision_;
    const Ports& ports_;
    const TwoTierCosts& costs_;
    std::vector<double> rate_;
    WireTable table_;
    std::vector<LaneFlow> lanes_;
    std::vector<std::vector<Job>> jobs_;  // per port
    std::vector<double> at_once_s_;       // per port, work that nothing holds back
    std::vector<bool> sends_at_once_;     // per rank
    std::vector<double> opened_s_;        // per rank, its first stage
    std::vector<double> wire_bytes_, ready_s_, arrives_s_;  // per wire
};

}  // namespace

double queue_seconds(std::span<const std::int64_t> demand_bytes, const TwoTierDecision& decision, const Ports& ports,
                     const TwoTierCosts& costs) {
    return Queues(demand_bytes, decision, ports, costs).run();
}

}  // namespace interlock
