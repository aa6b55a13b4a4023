#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <utility>
#include <vector>

#include "interlock/csr.hpp"

namespace interlock {

/// A part of what a receiving port loses: nothing up to `senders`, then
/// per_sender * (senders at once - senders)^sender_exponent * (bytes per sender / reference_bytes)^size_exponent.
struct LossTerm {
    double senders = 0;
    double per_sender = 0;
    double sender_exponent = 1;
    double size_exponent = 0;
};

/// Goodput of a receiving port is 1 / (1 + loss), loss being the sum of the terms, at most max_loss.
struct Congestion {
    bool is_modelled = false;
    LossTerm mild;      // beyond the fabric's fan-in
    LossTerm collapse;  // where congestion control gives up
    double reference_bytes = 1;
    double max_loss = 0;

    [[nodiscard]] double goodput(std::int32_t num_senders, double bytes_per_sender) const;
};

/// A schedule on a network, as arrays. A *link* is what paths and link orders name; a *channel* is what has capacity.
struct FlowProblem {
    std::span<const double> capacity_bytes_per_s;     // [channels]
    std::span<const std::uint8_t> is_receiving_port;  // [channels]: fan-in is counted here
    std::span<const std::int32_t> channel_by_link;    // [links]

    std::span<const std::int64_t> size_bytes;  // [messages], as are the next
    std::span<const double> latency_s;         // between the last byte sent and the last byte there
    std::span<const double> overhead_s;        // how long an otherwise idle first link is held before the bytes
    std::span<const std::int32_t> stage;
    std::span<const std::uint8_t> is_exclusive;
    std::span<const std::int64_t> order;
    Csr<std::int32_t> path;     // links; empty takes no time
    Csr<std::int32_t> deps;     // messages that must have arrived
    Csr<std::int32_t> senders;  // ranks

    std::span<const std::int32_t> barriers;  // ascending stages
    double stage_overhead_s = 0;
    std::int32_t num_ordered_links = 0;  // links from here on are shared even by exclusive messages
    Congestion congestion;
    /// 0 is exact. Otherwise departures close together are handled as one: see MaxMinShare.
    double tolerance = 0;
    /// [messages] or empty: how urgent each is, 0 the most; see Admission.
    std::span<const std::int32_t> level;
    /// [messages] or empty: the least time from the arrival of each to the end of all. A run that cannot end before
    /// `give_up_s` is broken off; its makespan is infinite then.
    std::span<const double> tail_s;
    bool takes_turns = false;  // a link goes to the first in its order that is ready, not to the first in its order
    double give_up_s = std::numeric_limits<double>::infinity();
};

/// Why a message could not start sooner.
enum class Wait : std::uint8_t { nothing = 0, dependency = 1, link_order = 2, barrier = 3 };

struct FlowTimes {
    std::vector<double> start_s;                // [messages]: all it waited for is there, and its stage is open
    std::vector<double> sent_s;                 // last byte on the wire: the path is free
    std::vector<double> finish_s;               // last byte there
    std::vector<std::uint8_t> wait;             // Wait: what came last
    std::vector<std::int32_t> waited_for;       // the message that came last, -1 where `wait` is nothing
    std::vector<std::int32_t> bottleneck;       // channel that held it back when it ended, -1 where none did
    std::vector<std::int32_t> peak_fan_in;      // [channels]
    std::vector<std::pair<std::int32_t, std::int32_t>> stood_back;  // (message, the more urgent one it waited for)
    std::vector<std::int64_t> turn;  // [messages]: which turn each took, where turns are taken
    double makespan_s = 0;
    double largest_idle_share = 0;  // the largest part of its capacity a channel lost to the tolerance
    std::int64_t num_events = 0;
};

/// Runs the schedule to its end. Throws InvalidInput where messages wait for each other in a circle or a used
/// channel has no capacity.
FlowTimes simulate_flows(const FlowProblem& problem);

/// The rate each message had from each change on: exact, and large; for checking and small pictures.
struct RateChanges {
    std::vector<double> time_s;
    std::vector<std::int32_t> message;
    std::vector<double> rate_bytes_per_s;
};
RateChanges record_rates(const FlowProblem& problem);

/// Mean part of each channel's capacity in use during each of `num_bins` equal spans of [0, horizon_s].
std::vector<double> channel_utilisation(const FlowProblem& problem, std::size_t num_bins, double horizon_s);

}  // namespace interlock
