#pragma once

#include <cstdio>
#include <cstdlib>

/// Ends the test program with the place and the claim that failed.
#define CHECK(claim)                                                              \
    do {                                                                          \
        if (!(claim)) {                                                           \
            std::fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #claim);      \
            std::exit(1);                                                         \
        }                                                                         \
    } while (false)

/// The expression must throw `type`.
#define CHECK_THROWS(expression, type)                                            \
    do {                                                                          \
        bool thrown = false;                                                      \
        try {                                                                     \
            (void)(expression);                                                   \
        } catch (const type&) {                                                   \
            thrown = true;                                                        \
        }                                                                         \
        CHECK(thrown && #expression);                                             \
    } while (false)
