#include "interlock/synthesis/shortest_routes.hpp"

#include <nanobind/stl/pair.h>

#include "arrays.hpp"
#include "bindings.hpp"

namespace interlock::bindings {

using namespace nb::literals;

void bind_shortest_routes(nb::module_& m) {
    m.def(
        "shortest_routes",
        [](std::int32_t num_ranks, std::int32_t num_nodes, const Array1<std::int32_t>& link_src,
           const Array1<std::int32_t>& link_dst, const Array1<std::int64_t>& cost, const Array1<std::int32_t>& src,
           const Array1<std::int32_t>& dst) {
            Routes routes;
            {
                const nb::gil_scoped_release nogil;
                const RoutedGraph graph{num_ranks, num_nodes, as_span(link_src), as_span(link_dst), as_span(cost)};
                routes = shortest_routes(graph, as_span(src), as_span(dst));
            }
            return std::pair(column(std::move(routes.offsets)), column(std::move(routes.links)));
        },
        "num_ranks"_a, "num_nodes"_a, "link_src"_a.noconvert(), "link_dst"_a.noconvert(), "cost"_a.noconvert(),
        "src"_a.noconvert(), "dst"_a.noconvert(),
        "Offsets and link ids of the cheapest route of every pair, passing through no other rank.");
}

}  // namespace interlock::bindings
