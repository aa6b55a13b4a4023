#include "interlock/synthesis/cuts.hpp"

#include <algorithm>
#include <deque>
#include <limits>
#include <numeric>

#include "interlock/arithmetic.hpp"
#include "interlock/errors.hpp"
#include "interlock/limits.hpp"

namespace interlock {
namespace {

void check(const Arcs& arcs) {
    require(arcs.num_nodes >= 1 && arcs.num_nodes <= kMostNodes, "a network has between 1 and 1,000,000 nodes");
    require(arcs.src.size() == arcs.dst.size() && arcs.src.size() == arcs.capacity.size(),
            "src, dst and capacity must have one entry per arc");
    std::int64_t room = std::int64_t{1} << 62;
    require_ends(arcs.src, arcs.dst, arcs.num_nodes, "an arc names a node that does not exist");
    for (const std::int64_t capacity : arcs.capacity) {
        require(capacity >= 0 && capacity <= room, "capacities must add up to at most 2^62");
        room -= capacity;
    }
}

/// Residual network: half-arc h and its reverse `mate[h]`, grouped by tail.
struct Residual {
    std::vector<std::int32_t> first;  // [num_nodes + 1]
    std::vector<std::int32_t> head, mate;
    std::vector<std::int64_t> left;

    explicit Residual(const Arcs& arcs) {
        const auto num_nodes = at(arcs.num_nodes);
        const std::size_t num_arcs = arcs.src.size();
        first.assign(num_nodes + 1, 0);
        for (std::size_t a = 0; a < num_arcs; ++a) {
            ++first[at(arcs.src[a]) + 1];
            ++first[at(arcs.dst[a]) + 1];
        }
        std::partial_sum(first.begin(), first.end(), first.begin());
        std::vector<std::int32_t> next(first.begin(), first.end() - 1);
        head.resize(2 * num_arcs);
        mate.resize(2 * num_arcs);
        left.resize(2 * num_arcs);
        for (std::size_t a = 0; a < num_arcs; ++a) {
            const auto there = next[at(arcs.src[a])]++;
            const auto back = next[at(arcs.dst[a])]++;
            head[at(there)] = arcs.dst[a];
            head[at(back)] = arcs.src[a];
            mate[at(there)] = back;
            mate[at(back)] = there;
            left[at(there)] = arcs.capacity[a];
        }
    }
    [[nodiscard]] std::size_t begin_of(std::int32_t node) const { return at(first[at(node)]); }
    [[nodiscard]] std::size_t end_of(std::int32_t node) const { return at(first[at(node) + 1]); }
    void push(std::size_t half, std::int64_t amount) {
        left[half] -= amount;
        left[at(mate[half])] += amount;
    }
};

class Dinic {
public:
    Dinic(const Arcs& arcs, std::int32_t source, std::int32_t sink)
        : net_(arcs), source_(source), sink_(sink), num_nodes_(at(arcs.num_nodes)) {}

    Cut run() {
        Cut cut;
        while (label()) {
            cursor_.assign(net_.first.begin(), net_.first.end() - 1);
            while (const std::int64_t sent = augment()) cut.value += sent;
        }
        cut.source_side.resize(num_nodes_);
        for (std::size_t v = 0; v < num_nodes_; ++v) cut.source_side[v] = level_[v] >= 0;
        return cut;
    }

private:
    /// Breadth-first levels from the source; false once the sink is cut off.
    bool label() {
        level_.assign(num_nodes_, -1);
        queue_.clear();
        queue_.push_back(source_);
        level_[at(source_)] = 0;
        for (std::size_t i = 0; i < queue_.size(); ++i) {
            const std::int32_t node = queue_[i];
            for (std::size_t h = net_.begin_of(node); h < net_.end_of(node); ++h) {
                const auto next = at(net_.head[h]);
                if (net_.left[h] > 0 && level_[next] < 0) {
                    level_[next] = level_[at(node)] + 1;
                    queue_.push_back(net_.head[h]);
                }
            }
        }
        return level_[at(sink_)] >= 0;
    }

    /// One path along rising levels; dead ends are left behind for the rest of the phase.
    std::int64_t augment() {
        path_.clear();
        std::int32_t node = source_;
        while (node != sink_) {
            auto& h = cursor_[at(node)];
            const auto end = net_.first[at(node) + 1];
            while (h < end && !leads_on(node, at(h))) ++h;
            if (h < end) {
                path_.push_back(at(h));
                node = net_.head[at(h)];
            } else {
                if (path_.empty()) return 0;
                level_[at(node)] = std::numeric_limits<std::int32_t>::max();
                node = net_.head[at(net_.mate[path_.back()])];
                path_.pop_back();
            }
        }
        std::int64_t amount = std::numeric_limits<std::int64_t>::max();
        for (const std::size_t h : path_) amount = std::min(amount, net_.left[h]);
        for (const std::size_t h : path_) net_.push(h, amount);
        return amount;
    }

    [[nodiscard]] bool leads_on(std::int32_t node, std::size_t h) const {
        return net_.left[h] > 0 && level_[at(net_.head[h])] == level_[at(node)] + 1;
    }

    Residual net_;
    std::int32_t source_, sink_;
    std::size_t num_nodes_;
    std::vector<std::int32_t> level_, cursor_, queue_;
    std::vector<std::size_t> path_;
};

/// Hao and Orlin: push and relabel towards one sink after another; a finished sink joins the sources, and nodes that
/// cannot reach the sink sleep in stacked dormant sets, so that labels never start over.
class AllSinks {
public:
    AllSinks(const Arcs& arcs, std::int32_t source)
        : net_(arcs),
          num_nodes_(at(arcs.num_nodes)),
          label_(num_nodes_, 0),
          excess_(num_nodes_, 0),
          cursor_(net_.first.begin(), net_.first.end() - 1),
          state_(num_nodes_, State::awake),
          queued_(num_nodes_, 0),
          num_with_label_(2 * num_nodes_ + 1, 0),
          num_awake_(num_nodes_ - 1) {
        num_with_label_[0] = static_cast<std::int32_t>(num_awake_);
        state_[at(source)] = State::source;
        num_sources_ = 1;
        saturate(source);
    }

    Cut run() {
        Cut best;
        best.value = std::numeric_limits<std::int64_t>::max();
        while (num_sources_ < num_nodes_) {
            const std::int32_t sink = next_sink();
            drain(sink);
            if (excess_[at(sink)] < best.value) {
                best.value = excess_[at(sink)];
                best.source_side.assign(num_nodes_, 1);
                for (std::size_t v = 0; v < num_nodes_; ++v) best.source_side[v] = state_[v] != State::awake;
            }
            leave_awake(sink);
            state_[at(sink)] = State::source;
            ++num_sources_;
            saturate(sink);
        }
        return best;
    }

private:
    enum class State : std::uint8_t { awake, dormant, source };

    /// The awake node of least label; where none is awake, the last dormant set wakes up first.
    std::int32_t next_sink() {
        if (num_awake_ == 0) {
            for (const std::int32_t node : dormant_.back()) {
                state_[at(node)] = State::awake;
                ++num_with_label_[at(label_[at(node)])];
                enqueue(node);
            }
            num_awake_ = dormant_.back().size();
            dormant_.pop_back();
        }
        std::int32_t sink = -1;
        for (std::size_t v = 0; v < num_nodes_; ++v) {
            if (state_[v] == State::awake && (sink < 0 || label_[v] < label_[at(sink)])) {
                sink = static_cast<std::int32_t>(v);
            }
        }
        return sink;
    }

    void drain(std::int32_t sink) {
        while (!active_.empty()) {
            const std::int32_t node = active_.front();
            active_.pop_front();
            queued_[at(node)] = 0;
            if (node != sink && state_[at(node)] == State::awake) discharge(node, sink);
        }
    }

    void discharge(std::int32_t node, std::int32_t sink) {
        const auto v = at(node);
        while (excess_[v] > 0 && state_[v] == State::awake) {
            auto& h = cursor_[v];
            if (at(h) == net_.end_of(node)) {
                relabel(node);
                h = net_.first[v];
                continue;
            }
            const auto half = at(h);
            const auto next = at(net_.head[half]);
            if (net_.left[half] > 0 && state_[next] == State::awake && label_[v] == label_[next] + 1) {
                const std::int64_t amount = std::min(excess_[v], net_.left[half]);
                net_.push(half, amount);
                excess_[v] -= amount;
                excess_[next] += amount;
                if (net_.head[half] != sink) enqueue(net_.head[half]);
            } else {
                ++h;
            }
        }
    }

    void relabel(std::int32_t node) {
        const auto v = at(node);
        if (num_with_label_[at(label_[v])] == 1) {  // nothing below can be reached any more
            std::vector<std::int32_t> asleep;
            for (std::size_t u = 0; u < num_nodes_; ++u) {
                if (state_[u] == State::awake && label_[u] >= label_[v]) asleep.push_back(static_cast<std::int32_t>(u));
            }
            put_to_sleep(std::move(asleep));
            return;
        }
        std::int32_t least = std::numeric_limits<std::int32_t>::max();
        for (std::size_t h = net_.begin_of(node); h < net_.end_of(node); ++h) {
            const auto next = at(net_.head[h]);
            if (net_.left[h] > 0 && state_[next] == State::awake) least = std::min(least, label_[next] + 1);
        }
        if (least == std::numeric_limits<std::int32_t>::max()) {
            put_to_sleep({node});
            return;
        }
        --num_with_label_[at(label_[v])];
        label_[v] = least;
        ++num_with_label_[at(least)];
    }

    void put_to_sleep(std::vector<std::int32_t>&& nodes) {
        for (const std::int32_t node : nodes) {
            leave_awake(node);
            state_[at(node)] = State::dormant;
        }
        dormant_.push_back(std::move(nodes));
    }

    void leave_awake(std::int32_t node) {
        --num_with_label_[at(label_[at(node)])];
        --num_awake_;
    }

    void saturate(std::int32_t node) {
        for (std::size_t h = net_.begin_of(node); h < net_.end_of(node); ++h) {
            const auto next = at(net_.head[h]);
            if (net_.left[h] == 0 || state_[next] == State::source) continue;
            excess_[next] += net_.left[h];
            net_.push(h, net_.left[h]);
            enqueue(net_.head[h]);
        }
    }

    void enqueue(std::int32_t node) {
        const auto v = at(node);
        if (queued_[v] || excess_[v] == 0 || state_[v] != State::awake) return;
        queued_[v] = 1;
        active_.push_back(node);
    }

    Residual net_;
    std::size_t num_nodes_;
    std::vector<std::int32_t> label_;
    std::vector<std::int64_t> excess_;
    std::vector<std::int32_t> cursor_;
    std::vector<State> state_;
    std::vector<std::uint8_t> queued_;
    std::vector<std::int32_t> num_with_label_;
    std::size_t num_awake_, num_sources_ = 0;
    std::vector<std::vector<std::int32_t>> dormant_;
    std::deque<std::int32_t> active_;
};

/// The set X of nodes up to `last`, `last` among them, that minimises twice the cut around it less weight(X).
Cut best_set_ending_at(const Arcs& arcs, std::int32_t last, std::span<const std::int64_t> weight) {
    const std::int32_t outside = last + 1;  // all later nodes in one
    std::vector<std::int32_t> src, dst;
    std::vector<std::int64_t> capacity;
    auto add = [&](std::int32_t from, std::int32_t to, std::int64_t room) {
        src.push_back(from);
        dst.push_back(to);
        capacity.push_back(room);
    };
    for (std::size_t a = 0; a < arcs.src.size(); ++a) {
        const std::int32_t from = std::min(arcs.src[a], outside), to = std::min(arcs.dst[a], outside);
        if (from == to) continue;
        add(from, to, arcs.capacity[a]);
        add(to, from, arcs.capacity[a]);
    }
    std::int64_t gained = 0;
    for (std::int32_t v = 0; v < last; ++v) {
        const std::int64_t w = weight[at(v)];
        if (w > 0) {
            add(last, v, w);
            gained += w;
        }
        if (w < 0) add(v, outside, -w);
    }
    Cut cut = narrowest_cut_between({outside + 1, src, dst, capacity}, last, outside);
    cut.value -= gained;
    return cut;
}

}  // namespace

Cut narrowest_cut_between(const Arcs& arcs, std::int32_t source, std::int32_t sink) {
    check(arcs);
    require(source >= 0 && source < arcs.num_nodes && sink >= 0 && sink < arcs.num_nodes && source != sink,
            "source and sink must be two nodes of the network");
    return Dinic(arcs, source, sink).run();
}

Cut narrowest_cut_from(const Arcs& arcs, std::int32_t source) {
    check(arcs);
    require(arcs.num_nodes >= 2 && source >= 0 && source < arcs.num_nodes,
            "source must be one of at least two nodes of the network");
    require(arcs.num_nodes <= kMostCompared, "cuts to every node are for at most 16,384 nodes");
    return AllSinks(arcs, source).run();
}

std::vector<std::int32_t> cheapest_partition(const Arcs& arcs, std::int64_t price) {
    check(arcs);
    require(price >= 0 && price <= std::int64_t{1} << 61, "price must be between 0 and 2^61");
    require(arcs.num_nodes <= kMostCompared, "partitions are for at most 16,384 nodes");
    const auto num_nodes = at(arcs.num_nodes);
    // Twice (half the arcs around a set - price), so that all stays in whole numbers.
    std::vector<std::int64_t> weight(num_nodes, 0);
    std::vector<std::int32_t> block(num_nodes);
    for (std::int32_t v = 0; v < arcs.num_nodes; ++v) {
        const Cut best = best_set_ending_at(arcs, v, weight);
        weight[at(v)] = best.value - 2 * price;
        // Every block that the set touches becomes part of v's block.
        std::vector<std::uint8_t> joins(num_nodes, 0);
        for (std::int32_t u = 0; u < v; ++u) {
            const auto of = at(block[at(u)]);
            if (best.source_side[at(u)]) joins[of] = 1;
        }
        block[at(v)] = v;
        for (std::int32_t u = 0; u < v; ++u) {
            auto& of = block[at(u)];
            if (joins[at(of)]) of = v;
        }
    }
    std::vector<std::int32_t> number(num_nodes, -1);
    std::int32_t next = 0;
    for (auto& of : block) {
        auto& given = number[at(of)];
        if (given < 0) given = next++;
        of = given;
    }
    return block;
}

}  // namespace interlock
