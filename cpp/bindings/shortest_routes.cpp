#include "interlock/synthesis/shortest_routes.hpp"

#include <nanobind/stl/pair.h>

#include "arrays.hpp"
#include "bindings.hpp"

namespace interlock::bindings {

using namespace nb::literals;

void bind_shortest_routes(nb::module_& m) {
    m.def(
        "shortest_routes",
        [](std::int32_t num_ranks, std::int32_t num_nodes, const I32& link_src, const I32& link_dst, const I64& cost,
           const I32& src, const I32& dst) {
            auto routes = without_gil([&] {
                const RoutedGraph graph{num_ranks, num_nodes, as_span(link_src), as_span(link_dst), as_span(cost)};
                return shortest_routes(graph, as_span(src), as_span(dst));
            });
            return std::pair(column(std::move(routes.offsets)), column(std::move(routes.links)));
        },
        "num_ranks"_a, "num_nodes"_a, "link_src"_exact, "link_dst"_exact, "cost"_exact, "src"_exact, "dst"_exact,
        "Offsets and link ids of the cheapest route of every pair, passing through no other rank.");
}

}  // namespace interlock::bindings
