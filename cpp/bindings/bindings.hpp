#pragma once

#include <nanobind/nanobind.h>

namespace interlock::bindings {

// One topic per file; each adds its functions to the module.
void bind_cuts(nanobind::module_& m);
void bind_digest(nanobind::module_& m);
void bind_program(nanobind::module_& m);
void bind_rail_shares(nanobind::module_& m);
void bind_task_sim(nanobind::module_& m);
void bind_step_ledger(nanobind::module_& m);
void bind_tier_slices(nanobind::module_& m);
void bind_schedule_check(nanobind::module_& m);
void bind_slot_delivery(nanobind::module_& m);
void bind_fast(nanobind::module_& m);
void bind_flow_sim(nanobind::module_& m);
void bind_step_order(nanobind::module_& m);
void bind_shortest_routes(nanobind::module_& m);
void bind_decompose(nanobind::module_& m);
void bind_two_tier(nanobind::module_& m);
void bind_synthesis(nanobind::module_& m);

}  // namespace interlock::bindings
