#pragma once

#include <cstdint>
#include <tuple>
#include <vector>

#include "interlock/simulate/admission.hpp"
#include "interlock/simulate/earliest_end.hpp"
#include "interlock/simulate/fan_in.hpp"
#include "interlock/simulate/flow_sim.hpp"
#include "interlock/simulate/flow_waits.hpp"
#include "interlock/simulate/link_turns.hpp"
#include "interlock/simulate/max_min.hpp"
#include "interlock/simulate/stage_doors.hpp"

namespace interlock {

/// Watches a run from outside; a plain run has none.
class FlowObserver {
public:
    FlowObserver() = default;
    FlowObserver(const FlowObserver&) = delete;
    FlowObserver& operator=(const FlowObserver&) = delete;
    virtual ~FlowObserver() = default;
    virtual void on_refill(double now_s, const MaxMinShare& shares) = 0;
    virtual void on_departure(double now_s, std::int32_t message, const MaxMinShare& shares) = 0;
};

/// One schedule under way: messages wait, start, hold their port, share channels, leave and arrive.
class FlowRun {
public:
    explicit FlowRun(const FlowProblem& problem, FlowObserver* observer = nullptr);

    FlowTimes run();

private:
    enum class Moment : std::uint8_t { start, arrive };
    using Timed = std::tuple<double, Moment, std::int32_t>;

    [[nodiscard]] double next_event_s() const;
    void step(double next_s);
    void depart_until(double limit_s);
    void at(double time_s, Moment moment, std::int32_t message);

    // Waiting.
    void release_first();
    void release_ready();
    void meet(std::int32_t message, Wait what, std::int32_t by);
    void open_epochs(std::int32_t last_arrived);

    /// Breaks off a run that cannot end before `end_s`, where that is too late.
    void give_up_after(double end_s);

    // The life of a message, in order.
    void start(std::int32_t message);
    void transmit(std::int32_t message);
    void leave(std::int32_t message);
    void sent(std::int32_t message);
    void arrive(std::int32_t message);

    const FlowProblem& problem_;
    FlowObserver* observer_;
    std::size_t num_messages_;
    Rows<std::int32_t> channels_;
    Waits waits_;
    LinkTurns turns_;
    Admission admission_;
    EarliestEnd earliest_end_;
    StageDoors doors_;
    FanIn fan_in_;
    MaxMinShare shares_;
    std::vector<std::uint8_t> is_in_overhead_;  // [messages]: its flow is the message overhead, not yet its bytes
    std::vector<std::int64_t> epoch_left_;      // [epochs]: messages that have not arrived
    std::vector<Timed> timed_;                  // min-heap
    std::vector<std::int32_t> departed_;
    std::vector<std::int32_t> ready_;
    FlowTimes times_;
    std::size_t open_epoch_ = 0;
    std::size_t num_arrived_ = 0;
    double now_s_ = 0;
};

}  // namespace interlock
