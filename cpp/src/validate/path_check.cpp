#include "interlock/validate/path_check.hpp"

#include <cstddef>
#include <vector>

#include "interlock/arithmetic.hpp"

namespace interlock {
namespace {

class PathCheck {
public:
    PathCheck(const MessageTable& messages, const Csr<std::int32_t>& path, const LinkTable& links)
        : messages_(messages), path_(path), links_(links), spots_(links.num_nodes()) {}

    Findings run() {
        for (std::size_t m = 0; m < messages_.size(); ++m) {
            const auto src = messages_.src[m];
            const auto dst = messages_.dst[m];
            if (!links_exist(m)) continue;
            if (src.size() == 1 && dst.size() == 1) {
                if (!path_[m].empty() && !connects(m, src.front(), dst.front()))
                    found_.add(Rule::path_connects, id(m), src.front());
            } else if (dst.size() > 1) {
                check_tree(m, src.front(), dst, links_.src, links_.dst, links_.multicasts);
            } else {
                check_tree(m, dst.front(), src, links_.dst, links_.src, links_.reduces);
            }
        }
        return std::move(found_);
    }

private:
    /// What is known of a node in the tree of message `seen_by`.
    struct Spot {
        std::int64_t seen_by = -1;
        std::int32_t parent = -1;
        std::int32_t num_children = 0;
        bool is_leaf = false;  // an end of the message other than the root
        bool is_connected = false;
        bool is_walked = false;
    };

    static std::int64_t id(std::size_t m) { return static_cast<std::int64_t>(m); }

    bool links_exist(std::size_t m) {
        for (const std::int32_t link : path_[m]) {
            if (link < 0 || at(link) >= links_.src.size() || !links_.carries_data[at(link)]) {
                found_.add(Rule::link_exists, id(m));
                return false;
            }
        }
        return true;
    }

    /// No node twice: what goes in a circle never had to leave.
    bool connects(std::size_t m, std::int32_t from, std::int32_t to) {
        std::int32_t node = from;
        spot(node, m);
        for (const std::int32_t link : path_[m]) {
            if (links_.src[at(link)] != node || (node != from && is_rank(node))) return false;
            node = links_.dst[at(link)];
            if (spots_[at(node)].seen_by == id(m)) return false;
            spot(node, m);
        }
        return node == to;
    }

    /// The tree from `root` to `leaves`; a reduction's is looked at against its direction.
    void check_tree(std::size_t m, std::int32_t root, std::span<const std::int32_t> leaves,
                    std::span<const std::int32_t> upper, std::span<const std::int32_t> lower,
                    std::span<const bool> branches) {
        const auto broken = [&](std::int32_t node) { found_.add(Rule::tree_connects, id(m), node); };
        spot(root, m).is_connected = true;
        for (const std::int32_t leaf : leaves) spot(leaf, m).is_leaf = true;
        for (const std::int32_t link : path_[m]) {
            Spot& below = spot(lower[at(link)], m);
            if (below.parent >= 0 || lower[at(link)] == root) return broken(lower[at(link)]);
            below.parent = upper[at(link)];
            ++spot(upper[at(link)], m).num_children;
        }
        for (const std::int32_t leaf : leaves)
            if (spot(leaf, m).parent < 0) return broken(leaf);
        for (const std::int32_t link : path_[m]) {
            const std::int32_t node = lower[at(link)];
            if (!is_connected(m, node)) return broken(node);
            // Leaves are where the data ends, and only there.
            const bool is_end = spot(node, m).num_children == 0;
            if (spot(node, m).is_leaf != is_end || (is_rank(node) && !is_end)) return broken(node);
            const std::int32_t above = upper[at(link)];
            if (spot(above, m).num_children > 1 && !branches[at(above)]) {
                found_.add(Rule::switch_able, id(m), above);
                return;
            }
        }
    }

    [[nodiscard]] bool is_rank(std::int32_t node) const { return node < links_.num_ranks; }

    bool is_connected(std::size_t m, std::int32_t node) {
        walked_.clear();
        while (!spot(node, m).is_connected) {
            Spot& here = spot(node, m);
            if (here.is_walked || here.parent < 0) return false;
            here.is_walked = true;
            walked_.push_back(node);
            node = here.parent;
        }
        for (const std::int32_t below : walked_) spots_[at(below)].is_connected = true;
        return true;
    }

    Spot& spot(std::int32_t node, std::size_t m) {
        Spot& here = spots_[at(node)];
        if (here.seen_by != id(m)) here = {.seen_by = id(m)};
        return here;
    }

    const MessageTable& messages_;
    const Csr<std::int32_t>& path_;
    const LinkTable& links_;
    std::vector<Spot> spots_;  // by node
    std::vector<std::int32_t> walked_;
    Findings found_;
};

}  // namespace

void LinkTable::check() const {
    require(dst.size() == src.size() && carries_data.size() == src.size(), "link columns must have equal length");
    require(reduces.size() == multicasts.size(), "node columns must have equal length");
    require_ends(src, dst, to_int32(num_nodes()), "every link must join nodes of the topology");
}

Findings check_paths(const MessageTable& messages, const Csr<std::int32_t>& path, const LinkTable& links) {
    messages.check();
    path.check(messages.size(), "path");
    links.check();
    for (const auto ends : {messages.src.values, messages.dst.values})
        require_ids(ends, to_int32(links.num_nodes()), "every rank must be a node of the topology");
    for (std::size_t m = 0; m < messages.size(); ++m)
        require(!messages.src[m].empty() && !messages.dst[m].empty(),
                "every message must have a source and a destination");
    return PathCheck(messages, path, links).run();
}

}  // namespace interlock
