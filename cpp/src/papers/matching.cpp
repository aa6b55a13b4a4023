#include "interlock/papers/matching.hpp"

#include <algorithm>
#include <bit>

#include "interlock/arithmetic.hpp"

namespace interlock {
namespace {

constexpr std::int32_t kFree = -1;
constexpr std::int32_t kWordBits = 64;

}  // namespace

ShrinkingMatching::ShrinkingMatching(std::int32_t num_vertices)
    : num_vertices_(num_vertices),
      words_((to_size(num_vertices) + kWordBits - 1) / kWordBits),
      edges_(to_size(num_vertices) * words_, 0),
      unseen_(words_),
      right_of_(to_size(num_vertices), kFree),
      left_of_(to_size(num_vertices), kFree) {}

void ShrinkingMatching::add_edge(std::int32_t left, std::int32_t right) {
    row(left)[to_size(right / kWordBits)] |= std::uint64_t{1} << (right % kWordBits);
}

void ShrinkingMatching::remove_edge(std::int32_t left, std::int32_t right) {
    row(left)[to_size(right / kWordBits)] &= ~(std::uint64_t{1} << (right % kWordBits));
    if (right_of_[to_size(left)] != right) return;
    right_of_[to_size(left)] = left_of_[to_size(right)] = kFree;
}

bool ShrinkingMatching::complete() {
    for (std::int32_t left = 0; left < num_vertices_; ++left) {
        if (right_of_[to_size(left)] != kFree) continue;
        std::fill(unseen_.begin(), unseen_.end(), ~std::uint64_t{0});
        if (!augment(left)) return false;
    }
    return true;
}

bool ShrinkingMatching::augment(std::int32_t left) {
    for (std::size_t word = 0; word < words_; ++word) {
        // Read anew after each try: deeper searches clear bits of `unseen_`.
        for (std::uint64_t open = row(left)[word] & unseen_[word]; open != 0; open = row(left)[word] & unseen_[word]) {
            const std::int32_t right = static_cast<std::int32_t>(word) * kWordBits + std::countr_zero(open);
            unseen_[word] &= ~(open & (~open + 1));
            const std::int32_t rival = left_of_[to_size(right)];
            if (rival != kFree && !augment(rival)) continue;
            right_of_[to_size(left)] = right;
            left_of_[to_size(right)] = left;
            return true;
        }
    }
    return false;
}

}  // namespace interlock
