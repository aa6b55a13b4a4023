#include "interlock/simulate/step_ledger.hpp"

#include <algorithm>
#include <limits>
#include <vector>

#include "interlock/arithmetic.hpp"
#include "interlock/errors.hpp"

namespace interlock {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

class StepRun {
public:
    explicit StepRun(const StepWork& step)
        : step_(step),
          num_tasks_(step.seconds.size()),
          num_channels_(num_tasks_ == 0 ? 0 : step.work_s.size() / num_tasks_),
          rest_s_(step.work_s.begin(), step.work_s.end()),
          own_end_s_(num_tasks_, 0.0),
          end_s_(num_tasks_, 0.0),
          num_open_(num_tasks_),
          later_(num_tasks_) {
        for (std::size_t task = 0; task < num_tasks_; ++task) {
            num_open_[task] = step.after[task].size();
            for (const std::int32_t before : step.after[task]) later_[at(before)].push_back(task);
            if (num_open_[task] == 0) starts_.emplace_back(step.ready_s[task], task);
        }
    }

    double run() {
        std::size_t num_ended = 0;
        while (!starts_.empty() || !under_way_.empty()) {
            begin_ready();
            find_ends();
            double next_s = kNever;
            for (const auto& [start_s, task] : starts_) next_s = std::min(next_s, start_s);
            for (const std::size_t task : under_way_) next_s = std::min(next_s, end_s_[task]);
            work(next_s - now_s_);
            now_s_ = std::max(now_s_, next_s);
            num_ended += end_due();
        }
        require(num_ended == num_tasks_, "tasks wait for each other in a circle");
        return now_s_;
    }

private:
    double& rest(std::size_t channel, std::size_t task) { return rest_s_[channel * num_tasks_ + task]; }

    void begin_ready() {
        const auto waits = [&](const auto& start) { return start.first > now_s_; };
        const auto due = std::stable_partition(starts_.begin(), starts_.end(), waits);
        for (auto each = due; each != starts_.end(); ++each) {
            own_end_s_[each->second] = now_s_ + step_.seconds[each->second];
            under_way_.push_back(each->second);
        }
        starts_.erase(due, starts_.end());
        std::stable_sort(under_way_.begin(), under_way_.end(),
                         [&](std::size_t a, std::size_t b) { return step_.level[a] < step_.level[b]; });
    }

    /// Puts the tasks of each level with work left at the channel into `sharing_`, least first, and calls visit with
    /// the work of the levels before.
    template <typename Visit>
    void for_each_level(std::size_t channel, Visit visit) {
        double before_s = 0;
        for (std::size_t first = 0; first < under_way_.size();) {
            sharing_.clear();
            const std::int32_t level = step_.level[under_way_[first]];
            double total_s = 0;
            for (; first < under_way_.size() && step_.level[under_way_[first]] == level; ++first) {
                const double left_s = rest(channel, under_way_[first]);
                if (left_s <= 0) continue;
                sharing_.emplace_back(left_s, under_way_[first]);
                total_s += left_s;
            }
            if (sharing_.empty()) continue;
            std::sort(sharing_.begin(), sharing_.end());
            visit(before_s);
            before_s += total_s;
        }
    }

    void find_ends() {
        for (const std::size_t task : under_way_) end_s_[task] = own_end_s_[task];
        for (std::size_t channel = 0; channel < num_channels_; ++channel) {
            for_each_level(channel, [&](double before_s) {
                double done_s = before_s;
                double shared_s = 0;  // by each that is left
                for (std::size_t k = 0; k < sharing_.size(); ++k) {
                    const auto [left_s, task] = sharing_[k];
                    done_s += (left_s - shared_s) * static_cast<double>(sharing_.size() - k);
                    shared_s = left_s;
                    end_s_[task] = std::max(end_s_[task], now_s_ + done_s);
                }
            });
        }
    }

    void work(double span_s) {
        if (span_s <= 0) return;
        for (std::size_t channel = 0; channel < num_channels_; ++channel) {
            for_each_level(channel, [&](double before_s) {
                double free_s = std::max(span_s - before_s, 0.0);
                double shared_s = 0;
                for (std::size_t k = 0; k < sharing_.size(); ++k) {
                    const auto [left_s, task] = sharing_[k];
                    const double more_s =
                        std::min(left_s - shared_s, free_s / static_cast<double>(sharing_.size() - k));
                    free_s -= more_s * static_cast<double>(sharing_.size() - k);
                    shared_s += more_s;
                    rest(channel, task) = left_s - shared_s;
                }
            });
        }
    }

    std::size_t end_due() {
        const auto goes_on = [&](std::size_t task) { return end_s_[task] > now_s_; };
        const auto ended = std::stable_partition(under_way_.begin(), under_way_.end(), goes_on);
        const std::vector<std::size_t> done(ended, under_way_.end());
        under_way_.erase(ended, under_way_.end());
        for (const std::size_t task : done) {
            for (const std::size_t next : later_[task]) {
                if (--num_open_[next] == 0) starts_.emplace_back(std::max(now_s_, step_.ready_s[next]), next);
            }
        }
        return done.size();
    }

    const StepWork& step_;
    std::size_t num_tasks_;
    std::size_t num_channels_;
    std::vector<double> rest_s_;     // [channels, tasks]
    std::vector<double> own_end_s_;  // [tasks]: when it has spent its own seconds
    std::vector<double> end_s_;      // [tasks under way]: if nothing else starts or ends
    std::vector<std::size_t> num_open_;
    std::vector<std::vector<std::size_t>> later_;
    std::vector<std::pair<double, std::size_t>> starts_;   // (when, task)
    std::vector<std::size_t> under_way_;                   // most urgent first
    std::vector<std::pair<double, std::size_t>> sharing_;  // (work left, task) of a level at a channel
    double now_s_ = 0;
};

}  // namespace

double step_makespan_s(const StepWork& step) {
    const std::size_t tasks = step.seconds.size();
    require(step.ready_s.size() == tasks && step.level.size() == tasks, "tasks must have one entry in every column");
    require(tasks == 0 ? step.work_s.empty() : step.work_s.size() % tasks == 0, "work_s must be [channels, tasks]");
    const auto is_time = [](double seconds) { return seconds >= 0 && seconds < 1e300; };
    require(std::all_of(step.work_s.begin(), step.work_s.end(), is_time) &&
                std::all_of(step.seconds.begin(), step.seconds.end(), is_time) &&
                std::all_of(step.ready_s.begin(), step.ready_s.end(), is_time),
            "times must be finite, at least 0");
    step.after.check(tasks, "after");
    for (const std::int32_t before : step.after.values) {
        require(before >= 0 && static_cast<std::size_t>(before) < tasks, "after names a task that is not there");
    }
    return StepRun(step).run();
}

}  // namespace interlock
