#include "interlock/schedule/step_order.hpp"

#include <algorithm>
#include <cstddef>

#include "interlock/arithmetic.hpp"
#include "interlock/errors.hpp"

namespace interlock {
namespace {

/// Rows so that each comes after all it lists; shorter than the rows where some wait in a circle.
std::vector<std::int32_t> in_order(const Csr<std::int32_t>& deps) {
    const std::size_t num_rows = deps.num_rows();
    const Rows<std::int32_t> next = turned_round(deps, num_rows);
    std::vector<std::int32_t> open(num_rows, 0);
    std::vector<std::int32_t> sequence;
    sequence.reserve(num_rows);
    for (std::size_t r = 0; r < num_rows; ++r) {
        open[r] = static_cast<std::int32_t>(deps[r].size());
        if (open[r] == 0) sequence.push_back(static_cast<std::int32_t>(r));
    }
    for (std::size_t k = 0; k < sequence.size(); ++k) {
        for (const std::int32_t later : next[at(sequence[k])]) {
            if (--open[at(later)] == 0) sequence.push_back(later);
        }
    }
    return sequence;
}

}  // namespace

StepOrder check_step_order(const StepRows& rows) {
    const std::size_t num_rows = rows.task.size();
    const std::size_t num_tasks = rows.after.num_rows();
    rows.deps.check(num_rows, "deps");
    rows.after.check(num_tasks, "after");
    require(rows.seconds.size() == num_rows, "seconds must have one entry per row");
    require_ids(rows.deps.values, to_int32(num_rows), "every dependency must be a row");
    for (const std::int32_t task : rows.task)
        require(task >= -1 && task < static_cast<std::int32_t>(num_tasks), "every row must be of a task, or of none");
    require_ids(rows.after.values, to_int32(num_tasks), "after must name tasks");

    StepOrder result;
    result.earliest_s.assign(num_rows, 0.0);
    const std::vector<std::int32_t> sequence = in_order(rows.deps);
    result.is_cyclic = sequence.size() < num_rows;
    if (result.is_cyclic) return result;

    std::vector<bool> is_last(num_rows, true);  // no row of its task lists it
    for (std::size_t r = 0; r < num_rows; ++r)
        for (const std::int32_t dep : rows.deps[r])
            if (rows.task[at(dep)] == rows.task[r]) is_last[at(dep)] = false;
    std::vector<std::int32_t> num_last(num_tasks, 0);
    for (std::size_t r = 0; r < num_rows; ++r)
        if (rows.task[r] >= 0 && is_last[r]) ++num_last[at(rows.task[r])];

    const std::size_t words = num_tasks / 64 + 1;
    std::vector<std::uint64_t> ended(num_rows * words, 0);  // tasks that have surely ended when a row starts
    std::vector<std::int32_t> listed(num_tasks, 0);
    std::vector<std::int32_t> touched;
    std::vector<bool> is_named(num_tasks * num_tasks, false);  // of two tasks, one row is named
    for (const std::int32_t row : sequence) {
        const std::size_t r = at(row);
        touched.clear();
        for (const std::int32_t dep : rows.deps[r]) {
            const std::size_t d = at(dep);
            result.earliest_s[r] = std::max(result.earliest_s[r], result.earliest_s[d] + rows.seconds[d]);
            for (std::size_t w = 0; w < words; ++w) ended[r * words + w] |= ended[d * words + w];
            if (rows.task[d] < 0 || !is_last[d]) continue;
            if (listed[at(rows.task[d])]++ == 0) touched.push_back(rows.task[d]);
        }
        for (const std::int32_t task : touched) {
            if (listed[at(task)] == num_last[at(task)])
                ended[r * words + at(task) / 64] |= std::uint64_t{1} << (at(task) % 64);
            listed[at(task)] = 0;
        }
        if (rows.task[r] < 0) continue;
        for (const std::int32_t before : rows.after[at(rows.task[r])]) {
            const bool is_after =
                num_last[at(before)] == 0 || (ended[r * words + at(before) / 64] >> (at(before) % 64) & 1) != 0;
            const std::size_t pair = at(rows.task[r]) * num_tasks + at(before);
            if (is_after || is_named[pair]) continue;
            is_named[pair] = true;
            result.too_early.push_back(row);
            result.too_early_task.push_back(before);
        }
    }
    return result;
}

}  // namespace interlock
