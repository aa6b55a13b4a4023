#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

#include <string>

#include "bindings.hpp"
#include "interlock/errors.hpp"

namespace nb = nanobind;

// Looked up when thrown: interlock.errors may not be imported yet when this module loads.
static void translate(const std::exception_ptr& error, void*) {
    try {
        std::rethrow_exception(error);
    } catch (const interlock::InvalidInput& invalid) {
        const nb::object type = nb::module_::import_("interlock.errors").attr("InvalidInput");
        PyErr_SetString(type.ptr(), invalid.what());
    }
}

static std::string build_facts() {
#if defined(__clang__)
    const std::string compiler = "clang " + std::to_string(__clang_major__) + "." + std::to_string(__clang_minor__);
#elif defined(__GNUC__)
    const std::string compiler = "gcc " + std::to_string(__GNUC__) + "." + std::to_string(__GNUC_MINOR__);
#else
    const std::string compiler = "an unknown compiler";
#endif
#if defined(NDEBUG)
    return compiler + ", optimised";
#else
    return compiler + ", with assertions";
#endif
}

NB_MODULE(_core, m) {
    m.doc() = "Interlock's native kernels: arrays in, read-only arrays out.";
    nb::register_exception_translator(translate);
    m.def("build_facts", &build_facts, "Compiler and kind of build.");
    interlock::bindings::bind_cuts(m);
    interlock::bindings::bind_digest(m);
    interlock::bindings::bind_program(m);
    interlock::bindings::bind_rail_shares(m);
    interlock::bindings::bind_task_sim(m);
    interlock::bindings::bind_step_ledger(m);
    interlock::bindings::bind_tier_slices(m);
    interlock::bindings::bind_schedule_check(m);
    interlock::bindings::bind_slot_delivery(m);
    interlock::bindings::bind_fast(m);
    interlock::bindings::bind_flow_sim(m);
    interlock::bindings::bind_step_order(m);
    interlock::bindings::bind_shortest_routes(m);
    interlock::bindings::bind_decompose(m);
    interlock::bindings::bind_two_tier(m);
    interlock::bindings::bind_synthesis(m);
}
