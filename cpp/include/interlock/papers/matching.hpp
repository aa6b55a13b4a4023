#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace interlock {

/// Perfect matchings of a bipartite graph whose edges only disappear: after each loss only the ends of lost edges are
/// matched again, along alternating paths.
class ShrinkingMatching {
public:
    explicit ShrinkingMatching(std::int32_t num_vertices);

    void add_edge(std::int32_t left, std::int32_t right);
    /// Removes an edge; its ends become free if it was matched.
    void remove_edge(std::int32_t left, std::int32_t right);
    /// Matches every free left vertex; false where no perfect matching exists.
    bool complete();
    /// Right partner of each left vertex; -1 while it is free.
    [[nodiscard]] std::span<const std::int32_t> partner() const { return right_of_; }

private:
    bool augment(std::int32_t left);
    [[nodiscard]] std::span<std::uint64_t> row(std::int32_t left) {
        return std::span(edges_).subspan(static_cast<std::size_t>(left) * words_, words_);
    }

    std::int32_t num_vertices_;
    std::size_t words_;
    std::vector<std::uint64_t> edges_;   // [left] bit set of right vertices
    std::vector<std::uint64_t> unseen_;  // right vertices not yet tried in this search
    std::vector<std::int32_t> right_of_, left_of_;
};

}  // namespace interlock
