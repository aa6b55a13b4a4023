#pragma once

#include <algorithm>
#include <cstdint>
#include <tuple>
#include <vector>

#include "interlock/simulate/flow_sim.hpp"

namespace interlock {

/// When each sending rank opens each stage. A rank opens one stage at a time, each taking the stage overhead.
class StageDoors {
public:
    explicit StageDoors(const FlowProblem& problem) : problem_(problem) {
        if (problem.stage_overhead_s == 0) return;
        std::vector<std::tuple<std::int32_t, std::int32_t, std::size_t>> uses;  // rank, stage, place in senders
        std::int32_t num_ranks = 0;
        for (std::size_t m = 0; m < problem.size_bytes.size(); ++m) {
            for (auto place = problem.senders.offsets[m]; place < problem.senders.offsets[m + 1]; ++place) {
                const std::int32_t rank = problem.senders.values[at(place)];
                num_ranks = std::max(num_ranks, rank + 1);
                uses.emplace_back(rank, problem.stage[m], at(place));
            }
        }
        std::sort(uses.begin(), uses.end());
        door_by_sender_.resize(uses.size());
        std::int32_t door = -1;
        for (std::size_t k = 0; k < uses.size(); ++k) {
            const bool is_new = k == 0 || std::get<0>(uses[k]) != std::get<0>(uses[k - 1]) ||
                                std::get<1>(uses[k]) != std::get<1>(uses[k - 1]);
            if (is_new) ++door;
            door_by_sender_[std::get<2>(uses[k])] = door;
        }
        open_at_s_.assign(at(door + 1), -1.0);
        rank_free_at_s_.assign(at(num_ranks), 0.0);
    }

    /// When a message that is ready now may start.
    double pass(std::int32_t message, double now_s) {
        double start_s = now_s;
        if (problem_.stage_overhead_s == 0) return start_s;
        const auto m = at(message);
        for (auto place = problem_.senders.offsets[m]; place < problem_.senders.offsets[m + 1]; ++place) {
            const auto p = at(place);
            double& open_at_s = open_at_s_[at(door_by_sender_[p])];
            if (open_at_s < 0) {
                double& free_at_s = rank_free_at_s_[at(problem_.senders.values[p])];
                free_at_s = std::max(free_at_s, now_s) + problem_.stage_overhead_s;
                open_at_s = free_at_s;
            }
            start_s = std::max(start_s, open_at_s);
        }
        return start_s;
    }

private:
    const FlowProblem& problem_;
    std::vector<std::int32_t> door_by_sender_;
    std::vector<double> open_at_s_;  // negative while shut
    std::vector<double> rank_free_at_s_;
};

}  // namespace interlock
