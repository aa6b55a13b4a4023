#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace interlock {

/// How one server spreads what it owes the others over its rails, knowing only its own traffic and the rails' rates.
///
/// On equal rails every destination gets an equal quotient on each rail and a remainder that starts on another rail for
/// each (server, destination), so that no rail collects all the remainders. On unequal rails a destination's share
/// starts in proportion to the slower of the two NICs on each rail; then what goes to servers with even rails is
/// rescaled so that the server's own rails carry loads in proportion to their rates. When every server does the same,
/// receivers come out balanced too.
///
/// @param owed_bytes [servers] bytes for each server; the entry of `own` is ignored
/// @param rates row-major [servers, rails] rate of each server's NIC; 0 is a dead one
/// @param shares row-major [servers, rails], written; 0 where nothing is owed or no rail joins the two
/// @returns false where something is owed to a server that no rail reaches
bool rail_shares(std::span<const std::int64_t> owed_bytes, std::span<const double> rates, std::int32_t own,
                 std::int32_t rails, std::span<std::int64_t> shares);

}  // namespace interlock
