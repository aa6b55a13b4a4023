#include "interlock/two_tier/wires.hpp"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "interlock/arithmetic.hpp"
#include "interlock/errors.hpp"
#include "interlock/two_tier/constants.hpp"
#include "interlock/two_tier/parcels.hpp"

namespace interlock {
namespace {

constexpr std::int64_t kMostFlowsOfLane = kMostSlices / kRampSteps;  // each has slices that follow each other

class WireCutter {
public:
    WireCutter(std::span<const std::int64_t> demand, const TwoTierPlan& plan)
        : demand_(demand),
          plan_(plan),
          width_(plan.width),
          ranks_(plan.servers * plan.width),
          assigner_(to_int32(plan.width)),
          lanes_out_(plan.pace == Pace::kWindow ? ranks_ : 0),
          lanes_in_(lanes_out_.size()),
          waves_out_(plan.servers, 0),
          waves_in_(plan.servers, 0) {
        require(plan.slice_bytes.size() == plan.servers, "slice_bytes must be [servers]");
        table_.wires.reserve(4 * ranks_);  // a few for each peer; of everybody's they grow on
        table_.pieces.reserve(4 * ranks_);
        if (plan.assignment != nullptr && plan.assignment->has_far())
            parcels_.emplace(demand, *plan.assignment, plan.servers, plan.width);
    }

    WireTable cut() {
        const std::int64_t typical = typical_lane_bytes();
        // Slices that are all on the wire at once arrive together, with nothing to hide behind: at least two groups
        // must follow.
        if (!parcels_ && num_slices(typical, std::ranges::max(plan_.slice_bytes)) < 2 * kInFlight) usual_flows_ = 1;
        flow_bytes_ = std::max<std::int64_t>(1, parcels_ ? plan_.flow_bytes : typical / usual_flows_);
        const std::vector<std::uint8_t> is_end = segments_at_ends();
        for (std::size_t n = 0; n < is_end.size(); ++n) {
            const Segment& segment = plan_.segments[n];
            if (plan_.wants(to_size(segment.src_server)) || plan_.wants(to_size(segment.dst_server)))
                cut_segment(segment, is_end[n] != 0);
        }
        number_waves();
        return std::move(table_);
    }

private:
    /// The lanes of a segment side by side, slice by slice.
    void cut_segment(const Segment& segment, bool is_end) {
        const auto src = to_size(segment.src_server), dst = to_size(segment.dst_server);
        const std::int64_t tile_bytes = sum_tile(tile_of(src, dst));
        require(segment.first_byte >= 0 && segment.bytes > 0 && segment.bytes <= tile_bytes - segment.first_byte,
                "a segment must lie inside its tile");
        if (parcels_) parcels_->cut(src, dst, plan_.only_rank);
        const auto lanes = parcels_ ? parcels_->lanes() : plan_.lanes.of(src, dst, tile_bytes, scratch_);
        const auto loads = parcels_ ? parcels_->loads() : assigner_.assign(tile_of(src, dst), ranks_, lanes);
        std::int64_t most_slices = 1;
        lane_cuts_.resize(lanes.size());
        wanted_.clear();
        first_sender_ = to_int32(src * width_);
        first_receiver_ = to_int32(dst * width_);
        const auto servers = static_cast<double>(plan_.servers);
        const auto turn = static_cast<double>((dst + plan_.servers - src) % plan_.servers);  // 1 ... servers - 1
        stagger_ = (turn - servers / 2) / (servers - 1);
        for (std::size_t lane = 0; lane < lanes.size(); ++lane) {
            cut_lane(lane_cuts_[lane], segment, tile_bytes, lanes[lane], loads[lane], is_end);
            find_wanted(lane_cuts_[lane], src, lanes[lane], loads[lane]);
            // In a burst, slices of lanes that are not wanted do not tell.
            if (lane_cuts_[lane].is_skipped && plan_.pace == Pace::kBurst) continue;
            most_slices = std::max(most_slices, lane_cuts_[lane].count);
            if (!lane_cuts_[lane].is_skipped) wanted_.push_back(lane);
        }
        for (std::int64_t slice = 0; slice < most_slices; ++slice) {
            Wire wire{0, 0, segment.stage, static_cast<std::int32_t>(slice), 0, 0, {kNoWire, kNoWire}};
            if (plan_.pace != Pace::kBurst) {
                wire.balance_wave = waves_out_[src]++;
                wire.restore_wave = waves_in_[dst]++;
            }
            for (const std::size_t lane : wanted_) {
                if (slice >= lane_cuts_[lane].count || lane_cuts_[lane].is_over()) continue;
                wire.src = first_sender_ + lanes[lane].out_gpu;
                wire.dst = first_receiver_ + lanes[lane].in_gpu;
                add_wire(wire, lane_cuts_[lane], loads[lane], slice);
            }
        }
        if (plan_.pace == Pace::kWindow) remember_lanes(src, dst, lanes);
    }

    /// Leaves no number between waves unused.
    void number_waves() {
        std::vector<std::int32_t> number(to_size(table_.num_waves), 0);
        for (const Wire& wire : table_.wires)
            number[to_size(wire.balance_wave)] = number[to_size(wire.restore_wave)] = 1;
        table_.num_waves = 0;
        for (std::int32_t& place : number) {
            if (place != 0) place = table_.num_waves++;
        }
        for (Wire& wire : table_.wires) {
            wire.balance_wave = number[to_size(wire.balance_wave)];
            wire.restore_wave = number[to_size(wire.restore_wave)];
        }
        table_.num_waves = std::max(table_.num_waves, 1);
    }

    [[nodiscard]] const std::int64_t* tile_of(std::size_t src, std::size_t dst) const {
        return demand_.data() + src * width_ * ranks_ + dst * width_;
    }

    /// Later lanes of the same NICs wait for these.
    void remember_lanes(std::size_t src, std::size_t dst, std::span<const Lane> lanes) {
        for (std::size_t lane = 0; lane < lanes.size(); ++lane) {
            const LaneCut& cut = lane_cuts_[lane];
            if (cut.sent == 0) continue;
            const std::int32_t id = cut.last_ids[to_size((cut.sent - 1) % kMostFlowsOfLane)];
            // Of other servers not all lanes are known where one rank's part is wanted.
            if (plan_.wants(src)) lanes_out_[src * width_ + to_size(lanes[lane].out_gpu)].push_back(id);
            if (plan_.wants(dst)) lanes_in_[dst * width_ + to_size(lanes[lane].in_gpu)].push_back(id);
        }
    }

    /// The last message of the lane that must be over before another one of this NIC begins.
    [[nodiscard]] std::int32_t window_end(const std::vector<std::int32_t>& lanes) const {
        const std::size_t window = to_size(plan_.window);
        return lanes.size() < window ? kNoWire : lanes[lanes.size() - window];
    }

    /// The parcels of a lane up to where slices have taken them.
    struct Cursor {
        std::int64_t until = 0;  // bytes taken
        std::int64_t start = 0;  // bytes before the parcel at hand
        std::size_t parcel = 0;
    };

    /// How a lane's part of a segment is sliced.
    struct Range {
        std::int64_t first, last;
        [[nodiscard]] bool meets(std::int64_t from, std::int64_t to) const { return first < to && from < last; }
    };
    struct LaneCut {
        std::int64_t first, bytes, count;
        std::int64_t in_flight;  // slices on the wire at once
        Cursor at;
        Range wanted;     // what may be of the rank whose part is wanted
        bool is_skipped;  // nothing is
        [[nodiscard]] bool is_over() const { return at.until >= wanted.last; }
        std::int64_t sent = 0;                             // slices
        std::array<std::int32_t, kMostFlowsOfLane> last_ids;  // of the last of them, in turn
    };

    /// Whether a segment is the first of its sender or the last of its receiver, where hops have least to hide behind.
    [[nodiscard]] std::vector<std::uint8_t> segments_at_ends() const {
        std::vector<std::uint8_t> is_end(plan_.segments.size(), 0), has_sent(plan_.servers, 0), has_received(has_sent);
        if (plan_.pace == Pace::kBurst) return is_end;
        for (std::size_t n = 0; n < is_end.size(); ++n) {
            if (std::exchange(has_sent[to_size(plan_.segments[n].src_server)], 1) == 0) is_end[n] = 1;
            const std::size_t back = is_end.size() - 1 - n;
            if (std::exchange(has_received[to_size(plan_.segments[back].dst_server)], 1) == 0) is_end[back] = 1;
        }
        return is_end;
    }

    void cut_lane(LaneCut& cut, const Segment& segment, std::int64_t tile_bytes, const Lane& lane, const LaneLoad& load,
                  bool is_end) const {
        const std::int64_t first = portion(lane.bytes, segment.first_byte, tile_bytes);
        const std::int64_t last = portion(lane.bytes, segment.first_byte + segment.bytes, tile_bytes);
        cut.first = first;
        cut.bytes = last - first;
        cut.count = cut.in_flight = 1;
        cut.sent = 0;
        cut.at = {first};
        const bool hops = std::ranges::any_of(load, [&](const Parcel& parcel) {
            return parcel.sender != lane.out_gpu || parcel.receiver != lane.in_gpu;
        });
        // Flows share a NIC evenly: a lane larger than its neighbours needs more of them to end with them. With a
        // single partner two are needed to keep the wire busy while an arrival is on its way.
        const std::int64_t slice_bytes = plan_.slice_bytes[to_size(segment.src_server)];
        const bool is_cut = parcels_ && hops && lane.bytes / 2 >= slice_bytes;
        const std::int64_t flows = std::clamp<std::int64_t>((lane.bytes + flow_bytes_ / 2) / flow_bytes_,
                                                            is_cut ? kInFlight : 1, kMostFlowsOfLane);
        if (plan_.pace != Pace::kWindow) cut.in_flight = flows;
        if (!hops) {
            if (plan_.pace == Pace::kBurst) cut.count = flows;
        } else if (parcels_) {
            // Slices that are all on the wire at once arrive together: what comes after them would have nothing to hide
            // behind.
            const std::int64_t least = flows > kInFlight ? kRampSteps * flows : 1;
            cut.count = std::clamp<std::int64_t>(num_slices(cut.bytes, slice_bytes), least, kMostSlices);
        } else {
            const bool is_large = plan_.pace == Pace::kBurst && flows > usual_flows_;
            cut.count = num_slices(cut.bytes, (slice_bytes + 2) / (is_end ? kInFlight : is_large ? flows : 1));
        }
    }

    /// Bytes of an average lane out of the server where that is most.
    [[nodiscard]] std::int64_t typical_lane_bytes() const {
        if (plan_.typical_lane_bytes > 0) return plan_.typical_lane_bytes;
        std::vector<std::int64_t> bytes(plan_.servers, 0), lanes(plan_.servers, 0);
        for (const Segment& segment : plan_.segments) {
            const auto src = to_size(segment.src_server), dst = to_size(segment.dst_server);
            require(src < plan_.servers && dst < plan_.servers && src != dst, "a segment must join two servers");
            bytes[src] += segment.bytes;
            const std::size_t tile = src * plan_.servers + dst;
            const auto& offsets = plan_.lanes.offsets;
            lanes[src] += offsets.empty() ? static_cast<std::int64_t>(width_) : offsets[tile + 1] - offsets[tile];
        }
        std::int64_t most = 0;
        for (std::size_t s = 0; s < plan_.servers; ++s) most = std::max(most, lanes[s] == 0 ? 0 : bytes[s] / lanes[s]);
        return most;
    }

    [[nodiscard]] std::int64_t sum_tile(const std::int64_t* tile) const {
        std::int64_t sum = 0;
        for (std::size_t i = 0; i < width_; ++i) {
            for (std::size_t j = 0; j < width_; ++j) sum += tile[i * ranks_ + j];
        }
        return sum;
    }

    /// Where a slice of a lane begins. Where each waits for the one before it, the lanes of a NIC must not all wait at
    /// once, with the wire idle: to every server slices end at another moment, up to half a slice early or late.
    [[nodiscard]] std::int64_t start_of(const LaneCut& cut, std::int64_t slice) const {
        const auto evenly = [&](std::int64_t at) { return slice_start(cut.bytes, at, cut.count); };
        const std::int64_t start = evenly(slice);
        if (plan_.pace != Pace::kBurst || parcels_ || cut.in_flight > 1 || slice <= 0 || slice >= cut.count)
            return start;
        const std::int64_t room = std::min(start - evenly(slice - 1), evenly(slice + 1) - start);
        return start + static_cast<std::int64_t>(stagger_ * static_cast<double>(room));
    }

    /// One slice of a lane as a message.
    void add_wire(Wire wire, LaneCut& cut, const LaneLoad& load, std::int64_t slice) {
        const std::int64_t last = cut.first + start_of(cut, slice + 1);
        if (cut.at.until == last) return;
        if (!cut.wanted.meets(cut.at.until, last)) {
            cut.at.until = last;
            return;
        }
        const std::int32_t id = to_int32(table_.wires.size());
        if (plan_.pace != Pace::kExclusive && cut.sent >= cut.in_flight) {
            wire.after[0] = cut.last_ids[to_size((cut.sent - cut.in_flight) % kMostFlowsOfLane)];
        } else if (plan_.pace == Pace::kWindow) {
            wire.after = {window_end(lanes_out_[to_size(wire.src)]), window_end(lanes_in_[to_size(wire.dst)])};
        }
        if (plan_.pace == Pace::kBurst) {
            // Flows share a NIC evenly: slices of all lanes that are equally far along their flows are on the wire
            // together.
            const std::int64_t along = (cut.first + start_of(cut, slice)) / cut.in_flight;
            const std::int64_t part = std::min(kMostSlices - 1, portion(kMostSlices / kInFlight, along, flow_bytes_));
            wire.balance_wave = wire.restore_wave = static_cast<std::int32_t>(part + kMostSlices * wire.stage);
        }
        const std::size_t pieces = table_.pieces.size();
        add_range(load, cut.at, last, wire, id);
        if (table_.pieces.size() == pieces) return;  // nothing of the rank whose part is wanted
        cut.last_ids[to_size(cut.sent++ % kMostFlowsOfLane)] = id;
        table_.wires.push_back(wire);
        table_.num_waves = std::max({table_.num_waves, wire.balance_wave + 1, wire.restore_wave + 1});
    }

    /// Which part of a lane may carry bytes of the rank whose part is wanted: all of it where it is its NIC's.
    void find_wanted(LaneCut& cut, std::size_t src, const Lane& lane, const LaneLoad& load) const {
        const bool is_sender = plan_.wants(src);
        const auto gpu = static_cast<std::int32_t>(to_size(plan_.only_rank) % width_);
        cut.wanted = {0, lane.bytes};
        if (plan_.only_rank != kEveryone && (is_sender ? lane.out_gpu : lane.in_gpu) != gpu) {
            cut.wanted = {0, 0};
            std::int64_t start = 0;
            for (const Parcel& parcel : load) {
                const std::int64_t end = start + parcel.bytes;
                if ((is_sender ? parcel.sender : parcel.receiver) == gpu)
                    cut.wanted = {cut.wanted.last == 0 ? start : cut.wanted.first, end};
                start = end;
            }
        }
        cut.is_skipped = cut.wanted.last == 0;
    }

    /// Adds the bytes of `parcels` from where the last slice ended to `last`, where the rank whose part is wanted
    /// handles them.
    void add_range(std::span<const Parcel> parcels, Cursor& at, std::int64_t last, const Wire& wire, std::int32_t id) {
        const std::int32_t rank = plan_.only_rank;
        const bool wants_all = rank == kEveryone || wire.src == rank || wire.dst == rank;
        while (at.until < last && at.parcel < parcels.size()) {
            const Parcel& parcel = parcels[at.parcel];
            const std::int64_t end = at.start + parcel.bytes, to = std::min(last, end);
            if (at.until < to) {
                const std::int32_t sender = first_sender_ + parcel.sender, receiver = first_receiver_ + parcel.receiver;
                if (wants_all || sender == rank || receiver == rank) {
                    table_.pieces.push_back({sender, receiver, id, parcel.offset + at.until - at.start, to - at.until});
                }
                at.until = to;
            }
            if (end > to) return;
            at.start = end;
            ++at.parcel;
        }
    }

    std::span<const std::int64_t> demand_;
    const TwoTierPlan& plan_;
    std::size_t width_, ranks_;
    std::optional<TileParcels> parcels_;  // of what an assignment lists; else lanes are filled
    LaneAssigner assigner_;
    std::vector<Lane> scratch_;
    std::int32_t first_sender_ = 0, first_receiver_ = 0;  // ranks of the tile's servers
    double stagger_ = 0;                                  // of a slice, that those between them end late
    std::vector<LaneCut> lane_cuts_;
    std::vector<std::size_t> wanted_;  // lanes with anything of the rank whose part is wanted
    std::vector<std::vector<std::int32_t>> lanes_out_, lanes_in_;  // per NIC, last wire of each lane so far
    std::vector<std::int32_t> waves_out_, waves_in_;  // per server; every slice of a tile is one that has turns
    std::int64_t usual_flows_ = kInFlight;            // slices of a lane of average size on the wire at once
    std::int64_t flow_bytes_ = 1;                     // of such a lane, that each of these flows carries
    WireTable table_;
};

}  // namespace

std::int64_t num_slices(std::int64_t lane_bytes, std::int64_t slice_bytes) {
    if (slice_bytes <= 0) return 1;
    return std::clamp<std::int64_t>((lane_bytes + slice_bytes / 2) / slice_bytes, 1, kMostSlices);
}

std::int64_t slice_start(std::int64_t bytes, std::int64_t slice, std::int64_t count) {
    // Weights rise 1, 2, … to the ramp's top, stay there, and fall again; this is their running sum.
    const std::int64_t top = std::min(kRampSteps, (count + 1) / 2);
    const auto rising = [&](std::int64_t n) {
        return n < top ? n * (n + 1) / 2 : top * (top + 1) / 2 + (n - top) * top;
    };
    const std::int64_t total = rising(count) - top * (top - 1) / 2;
    const std::int64_t until_fall = count - top;
    std::int64_t sum = rising(std::min(slice, until_fall));
    if (slice > until_fall) sum = total - rising(count - slice);
    return portion(bytes, sum, total);
}

WireTable cut_wires(std::span<const std::int64_t> demand_bytes, const TwoTierPlan& plan) {
    return WireCutter(demand_bytes, plan).cut();
}

}  // namespace interlock
