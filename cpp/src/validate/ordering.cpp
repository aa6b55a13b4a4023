#include "interlock/validate/ordering.hpp"

#include <algorithm>
#include <cstddef>
#include <numeric>

#include "interlock/arithmetic.hpp"

namespace interlock {
namespace {

using Ids = std::vector<std::int32_t>;

/// One use of a link by an exclusive message.
struct Claim {
    std::int64_t order;
    std::int32_t message;
    std::int64_t entry;  // in path.values

    bool operator<(const Claim& other) const {
        return order != other.order ? order < other.order : message < other.message;
    }
};

/// Sorts each link's claims and notes who comes before whom.
class LinkOrders {
public:
    LinkOrders(const LinkClaims& claims, Findings& found) : claims_(claims), found_(found) {}

    Ids previous_on_link() {
        const bool any = std::find(claims_.exclusive.begin(), claims_.exclusive.end(), true) != claims_.exclusive.end();
        if (!any) return {};
        std::vector<bool> is_shared(at(claims_.num_links), false);
        for (std::size_t m = 0; m < claims_.exclusive.size(); ++m) {
            if (claims_.exclusive[m]) continue;
            for (const std::int32_t link : claims_.path[m]) is_shared[at(link)] = true;
        }
        for_each_use([&](std::int32_t link, const Claim& claim) {
            if (is_shared[at(link)]) found_.add(Rule::exclusive_link, claim.message);
        });
        Rows<Claim> by_link = grouped<Claim>(at(claims_.num_links), [&](auto put) { for_each_use(put); });
        Ids previous(claims_.path.values.size(), -1);
        for (std::int32_t link = 0; link < claims_.num_links; ++link) {
            const auto first = by_link.values.begin() + by_link.offsets[at(link)];
            const auto end = by_link.values.begin() + by_link.offsets[at(link) + 1];
            if (!std::is_sorted(first, end)) std::sort(first, end);
            for (auto claim = first; claim != end; ++claim) {
                if (claim == first) continue;
                const Claim& before = *(claim - 1);
                if (before.order == claim->order) found_.add(Rule::link_order, claim->message);
                previous[static_cast<std::size_t>(claim->entry)] = before.message;
            }
        }
        return previous;
    }

private:
    template <typename Visit>
    void for_each_use(Visit visit) const {
        for (std::size_t m = 0; m < claims_.exclusive.size(); ++m) {
            if (!claims_.exclusive[m]) continue;
            for (std::int64_t e = claims_.path.offsets[m]; e < claims_.path.offsets[m + 1]; ++e)
                visit(claims_.path.values[to_size(e)], Claim{claims_.order[m], to_int32(m), e});
        }
    }

    const LinkClaims& claims_;
    Findings& found_;
};

/// Kahn's algorithm. Barriers cut the messages into groups; a group opens when all groups before it are done, so a
/// barrier costs one counter however many messages stand on either side.
class Sorter {
public:
    Sorter(const MessageTable& messages, const LinkClaims& claims, const Ids& previous_on_link)
        : messages_(messages), claims_(claims), previous_on_link_(previous_on_link), group_(messages.size(), 0) {
        if (messages.barriers.empty()) return;
        for (std::size_t m = 0; m < messages.size(); ++m) {
            if (m > 0 && messages.stage[m] == messages.stage[m - 1]) {
                group_[m] = group_[m - 1];
                continue;
            }
            const auto passed = std::upper_bound(messages.barriers.begin(), messages.barriers.end(), messages.stage[m]);
            group_[m] = static_cast<std::int32_t>(passed - messages.barriers.begin());
        }
    }

    /// Most producers list messages in an order that works already: then there is nothing to sort.
    [[nodiscard]] bool is_sorted() const {
        for (std::size_t m = 0; m < messages_.size(); ++m) {
            const auto id = static_cast<std::int32_t>(m);
            if (m > 0 && group_[m] < group_[m - 1]) return false;
            const auto deps = messages_.deps[m];
            if (!deps.empty() && deps.back() >= id) return false;
            for (const std::int32_t before : link_predecessors(m))
                if (before >= id) return false;
        }
        return true;
    }

    Ids sort() {
        const Rows<std::int32_t> by_group = places_by_key(messages_.barriers.size() + 1, group_);
        const Rows<std::int32_t> successors =
            grouped<std::int32_t>(messages_.size(), [&](auto put) { for_each_edge(put); });
        waits_for_.assign(messages_.size(), 0);
        for (const std::int32_t later : successors.values) ++waits_for_[at(later)];
        for (std::size_t m = 0; m < messages_.size(); ++m) waits_for_[m] += group_[m] > 0;
        std::vector<std::int64_t> left_in_group(by_group.offsets.size() - 1);
        for (std::size_t group = 0; group < left_in_group.size(); ++group)
            left_in_group[group] = static_cast<std::int64_t>(by_group[group].size());
        const std::size_t n = messages_.size();
        Ids sequence;
        sequence.reserve(n);
        for (std::size_t m = 0; m < n; ++m)
            if (waits_for_[m] == 0) sequence.push_back(static_cast<std::int32_t>(m));
        std::size_t open = 0;
        const auto release = [&](std::int32_t m) {
            if (--waits_for_[at(m)] == 0) sequence.push_back(m);
        };
        const auto open_groups = [&] {
            while (open + 1 < left_in_group.size() && left_in_group[open] == 0) {
                ++open;
                for (const std::int32_t m : by_group[open]) release(m);
            }
        };
        open_groups();
        for (std::size_t head = 0; head < sequence.size(); ++head) {
            const std::size_t m = at(sequence[head]);
            for (const std::int32_t later : successors[m]) release(later);
            --left_in_group[at(group_[m])];
            open_groups();
        }
        return sequence;
    }

    /// A message on a cycle, once sort() has come to an end before all messages did.
    [[nodiscard]] std::int32_t on_cycle() const {
        std::size_t lowest = 0;  // some waiting message of the first group that is not done
        while (waits_for_[lowest] == 0) ++lowest;
        for (std::size_t m = 0; m < messages_.size(); ++m)
            if (waits_for_[m] > 0 && group_[m] < group_[lowest]) lowest = m;
        std::vector<bool> is_seen(messages_.size(), false);
        std::size_t m = lowest;
        while (!is_seen[m]) {
            is_seen[m] = true;
            m = waiting_predecessor(m, lowest);
        }
        return static_cast<std::int32_t>(m);
    }

private:
    [[nodiscard]] std::span<const std::int32_t> link_predecessors(std::size_t m) const {
        if (previous_on_link_.empty()) return {};
        return Csr<std::int32_t>{claims_.path.offsets, previous_on_link_}[m];
    }

    template <typename Visit>
    void for_each_edge(Visit visit) const {
        for (std::size_t m = 0; m < messages_.size(); ++m) {
            for (const std::int32_t before : messages_.deps[m]) visit(before, to_int32(m));
            for (const std::int32_t before : link_predecessors(m))
                if (before >= 0) visit(before, to_int32(m));
        }
    }

    [[nodiscard]] std::size_t waiting_predecessor(std::size_t m, std::size_t lowest) const {
        for (const std::int32_t before : messages_.deps[m])
            if (waits_for_[at(before)] > 0) return at(before);
        for (const std::int32_t before : link_predecessors(m))
            if (before >= 0 && waits_for_[at(before)] > 0) return at(before);
        return lowest;  // only a barrier is left to wait for
    }

    const MessageTable& messages_;
    const LinkClaims& claims_;
    const Ids& previous_on_link_;
    Ids group_;  // barriers each message stands behind
    std::vector<std::int64_t> waits_for_;
};

}  // namespace

void LinkClaims::check(std::size_t num_messages) const {
    path.check(num_messages, "path");
    require(exclusive.size() == num_messages && order.size() == num_messages, "message columns must have equal length");
    require(num_links >= 0, "num_links must not be negative");
    require_ids(path.values, num_links, "every link of a path must be a link of the topology");
}

Ordering order_messages(const MessageTable& messages, const LinkClaims& claims) {
    messages.check();
    claims.check(messages.size());
    require_ids(messages.deps.values, to_int32(messages.size()), "every dependency must be a message");
    require(std::is_sorted(messages.barriers.begin(), messages.barriers.end()), "barriers must ascend");
    Ordering result;
    result.previous_on_link = LinkOrders(claims, result.found).previous_on_link();
    Sorter sorter(messages, claims, result.previous_on_link);
    if (sorter.is_sorted()) {
        result.sequence.resize(messages.size());
        std::iota(result.sequence.begin(), result.sequence.end(), 0);
        return result;
    }
    result.sequence = sorter.sort();
    if (result.sequence.size() < messages.size()) {
        result.sequence.clear();
        result.found.add(Rule::acyclic, sorter.on_cycle());
    }
    return result;
}

}  // namespace interlock
