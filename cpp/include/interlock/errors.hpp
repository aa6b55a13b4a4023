#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>

namespace interlock {

/// A caller broke a precondition; arrives in Python as interlock.errors.InvalidInput.
class InvalidInput : public std::invalid_argument {
public:
    using std::invalid_argument::invalid_argument;
};

/// Throws InvalidInput with `rule` unless `holds`.
inline void require(bool holds, const char* rule) {
    if (!holds) throw InvalidInput(rule);
}

/// Throws InvalidInput with `rule` unless every id is one of 0 .. limit - 1.
inline void require_ids(std::span<const std::int32_t> ids, std::int32_t limit, const char* rule) {
    require(std::ranges::all_of(ids, [=](std::int32_t id) { return id >= 0 && id < limit; }), rule);
}

/// Throws InvalidInput with `rule` unless links have both ends among `num_nodes` nodes.
inline void require_ends(std::span<const std::int32_t> src, std::span<const std::int32_t> dst, std::int32_t num_nodes,
                         const char* rule) {
    require(src.size() == dst.size(), rule);
    require_ids(src, num_nodes, rule);
    require_ids(dst, num_nodes, rule);
}

}  // namespace interlock
