#pragma once

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

}  // namespace interlock
