#pragma once

#include <cstdint>
#include <span>

namespace interlock {

/// Plays a slot table on equal links: every link sends what the table gives it, in that order, each as soon as the link
/// is free and the chunk is there (for sums: all that the table adds to it before). Returns when the last one ends, in
/// slots; never more than the table has rows.
///
/// @param table [num_slots, num_links], the largest number of the type where a link rests
/// Keeps two bytes per node and chunk, four where there are more than 65,000 slots.
template <typename Slot>
std::int64_t replay_slots(std::span<const Slot> table, std::span<const std::int32_t> link_src,
                          std::span<const std::int32_t> link_dst, std::int32_t num_nodes, std::int32_t num_chunks);

extern template std::int64_t replay_slots<std::uint16_t>(std::span<const std::uint16_t>, std::span<const std::int32_t>,
                                                         std::span<const std::int32_t>, std::int32_t, std::int32_t);
extern template std::int64_t replay_slots<std::uint32_t>(std::span<const std::uint32_t>, std::span<const std::int32_t>,
                                                         std::span<const std::int32_t>, std::int32_t, std::int32_t);

}  // namespace interlock
