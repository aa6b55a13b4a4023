#include "interlock/max_min.hpp"

#include <algorithm>
#include <functional>

#include "interlock/errors.hpp"

namespace interlock {
namespace {

constexpr std::int32_t kManyOthers = -1;
// A residual this small next to the capacity is rounding, and so is a crossing of levels this slight.
constexpr double kResidualRounding = 1e-15;
constexpr double kLevelRounding = 1e-13;
// Departures this close, next to the time itself, are one departure.
constexpr double kTimeRounding = 4e-15;

}  // namespace

MaxMinShare::MaxMinShare(std::span<const double> capacity_bytes_per_s, Csr<std::int32_t> paths)
    : paths_(paths),
      residual_(capacity_bytes_per_s.begin(), capacity_bytes_per_s.end()),
      level_(capacity_bytes_per_s.size(), kNever),
      channels_(capacity_bytes_per_s.size()),
      flows_(paths.num_rows()),
      departures_(std::max<std::size_t>(capacity_bytes_per_s.size(), 1)) {
    residual_.push_back(0.0);  // where the "other channel" of a flow with a single channel points
    for (std::size_t c = 0; c < channels_.size(); ++c) channels_[c].capacity = capacity_bytes_per_s[c];
}

void MaxMinShare::add(std::int32_t flow, std::size_t num_hops, double work_bytes, double now_s) {
    Flow& state = flows_[index(flow)];
    state.num_hops = static_cast<std::int32_t>(num_hops);
    state.work_bytes = work_bytes;
    const auto path = hops(flow);
    const std::int32_t id = component_for(path);
    std::int32_t first = path.front();
    for (const std::int32_t hop : path) {
        Channel& channel = channels_[index(hop)];
        if (channel.num_flows++ == 0) --components_[index(id)].num_idle_channels;
        if (channel.position < channels_[index(first)].position) first = hop;
    }
    ++components_[index(id)].num_flows;
    if (channels_[index(first)].held.empty()) level_[index(first)] = 0.0;
    for (const std::int32_t hop : path) residual_[index(hop)] -= level_[index(first)];
    hold(flow, first, work_bytes, now_s);
    mark_dirty(id, channels_[index(first)].position, -kNever);
}

void MaxMinShare::change_capacity(std::int32_t channel, double capacity_bytes_per_s) {
    Channel& state = channels_[index(channel)];
    if (capacity_bytes_per_s == state.capacity) return;
    residual_[index(channel)] += capacity_bytes_per_s - state.capacity;
    state.capacity = capacity_bytes_per_s;
    if (state.num_flows == 0) residual_[index(channel)] = capacity_bytes_per_s;
    if (state.component < 0) return;
    // Capacity that a departure brought back may wait as long as the departed flow's own.
    const double deadline_s = components_[index(state.component)].deadline_s;
    mark_dirty(state.component, state.position, deadline_s == kNever ? -kNever : deadline_s);
}

MaxMinShare::Departure MaxMinShare::depart(double tolerance) {
    const std::int32_t channel = departures_.winner();
    const double now_s = departures_.least();
    const std::int32_t flow = channels_[index(channel)].marks.front().second;
    const double rate = level_[index(channel)];
    const double slack_s = flows_[index(flow)].work_bytes / rate;
    const std::int32_t id = channels_[index(channel)].component;
    release(flow);
    list_change(channel);
    Component& component = components_[index(id)];
    for (const std::int32_t hop : hops(flow)) {
        Channel& state = channels_[index(hop)];
        residual_[index(hop)] += rate;
        if (--state.num_flows > 0) continue;
        residual_[index(hop)] = state.capacity;  // forget what rounding was left
        ++component.num_idle_channels;
    }
    if (--component.num_flows == 0) {
        dissolve(id);
    } else {
        if (component.deadline_s == kNever) {
            component.waits_since_s = now_s;
            component.waits_slack_s = slack_s;
        }
        component.waits_slack_s = std::min(component.waits_slack_s, slack_s);
        const double wait_s = std::max(tolerance * slack_s, kTimeRounding * now_s);
        mark_dirty(id, channels_[index(channel)].position, now_s + wait_s);
    }
    publish_changes();
    return {now_s, flow};
}

void MaxMinShare::refill_before(double next_s, double now_s) {
    refilled_channels_.clear();
    std::size_t num_waiting = 0;
    earliest_deadline_s_ = kNever;
    for (const std::int32_t id : dirty_components_) {
        Component& component = components_[index(id)];
        if (component.deadline_s == kNever) continue;  // dissolved or merged since
        if (component.deadline_s < next_s) {
            refill(id, now_s);
        } else {
            earliest_deadline_s_ = std::min(earliest_deadline_s_, component.deadline_s);
            dirty_components_[num_waiting++] = id;
        }
    }
    dirty_components_.resize(num_waiting);
    publish_changes();
}

double MaxMinShare::rate(std::int32_t flow) const {
    const std::int32_t channel = flows_[index(flow)].bottleneck;
    return channel < 0 ? 0.0 : level_[index(channel)];
}

double MaxMinShare::used_bytes_per_s(std::int32_t channel) const {
    return channels_[index(channel)].capacity - residual_[index(channel)];
}

// ---- Components ----

std::int32_t MaxMinShare::component_for(std::span<const std::int32_t> channels) {
    std::int32_t into = -1;
    for (const std::int32_t c : channels) {
        const std::int32_t id = channels_[index(c)].component;
        if (id < 0 || id == into) continue;
        if (into < 0 || components_[index(id)].order.size() > components_[index(into)].order.size()) into = id;
    }
    if (into < 0) into = new_component();
    for (const std::int32_t c : channels) {
        const std::int32_t id = channels_[index(c)].component;
        if (id < 0) {
            append(into, c);
        } else if (id != into) {
            merge(into, id);
        }
    }
    return into;
}

std::int32_t MaxMinShare::new_component() {
    if (free_components_.empty()) {
        components_.emplace_back();
        return static_cast<std::int32_t>(components_.size() - 1);
    }
    const std::int32_t id = free_components_.back();
    free_components_.pop_back();
    return id;
}

void MaxMinShare::append(std::int32_t component, std::int32_t channel) {
    Component& home = components_[index(component)];
    channels_[index(channel)].component = component;
    channels_[index(channel)].position = static_cast<std::int32_t>(home.order.size());
    home.order.push_back(channel);
    ++home.num_idle_channels;
}

void MaxMinShare::merge(std::int32_t into, std::int32_t from) {
    Component& home = components_[index(into)];
    Component& guest = components_[index(from)];
    merged_.resize(home.order.size() + guest.order.size());
    // Each side's own order must survive: it says which channel holds each flow.
    std::merge(home.order.begin(), home.order.end(), guest.order.begin(), guest.order.end(), merged_.begin(),
               [this](std::int32_t a, std::int32_t b) { return level_[index(a)] < level_[index(b)]; });
    home.order.swap(merged_);
    for (std::size_t p = 0; p < home.order.size(); ++p) {
        channels_[index(home.order[p])].position = static_cast<std::int32_t>(p);
    }
    for (const std::int32_t c : guest.order) channels_[index(c)].component = into;
    home.num_flows += guest.num_flows;
    home.num_idle_channels += guest.num_idle_channels;
    guest.order.clear();
    guest.num_flows = 0;
    dissolve(from);
    mark_dirty(into, 0, -kNever);
}

void MaxMinShare::dissolve(std::int32_t component) {
    Component& gone = components_[index(component)];
    for (const std::int32_t c : gone.order) reset(c);
    gone.order.clear();
    gone.num_flows = 0;
    gone.num_idle_channels = 0;
    gone.deadline_s = kNever;
    free_components_.push_back(component);
}

void MaxMinShare::drop_idle_channels(std::int32_t component) {
    Component& home = components_[index(component)];
    std::size_t kept = 0;
    for (const std::int32_t c : home.order) {
        if (channels_[index(c)].num_flows == 0) {
            reset(c);
        } else {
            channels_[index(c)].position = static_cast<std::int32_t>(kept);
            home.order[kept++] = c;
        }
    }
    home.order.resize(kept);
    home.num_idle_channels = 0;
    home.dirty_from = 0;
}

void MaxMinShare::mark_dirty(std::int32_t component, std::int32_t position, double deadline_s) {
    Component& home = components_[index(component)];
    const auto from = static_cast<std::size_t>(position);
    if (home.deadline_s == kNever) {
        dirty_components_.push_back(component);
        home.dirty_from = from;
    }
    home.dirty_from = std::min(home.dirty_from, from);
    home.deadline_s = std::min(home.deadline_s, deadline_s);
    earliest_deadline_s_ = std::min(earliest_deadline_s_, home.deadline_s);
}

// ---- Water filling ----

void MaxMinShare::refill(std::int32_t id, double now_s) {
    Component& component = components_[index(id)];
    if (component.waits_slack_s > 0) {
        const double share = (now_s - component.waits_since_s) / component.waits_slack_s;
        largest_idle_share_ = std::max(largest_idle_share_, share);
        component.waits_slack_s = 0;
    }
    if (2 * static_cast<std::size_t>(component.num_idle_channels) > component.order.size()) drop_idle_channels(id);
    std::size_t position = component.dirty_from;
    while (position < component.order.size()) {
        const std::int32_t channel = component.order[position];
        const double level = fair_level(channel);
        if (position > 0 && level < level_[index(component.order[position - 1])] * (1 - kLevelRounding)) {
            swap_with_predecessor(component, position, now_s);
            --position;
            continue;
        }
        if (!channels_[index(channel)].held.empty() && level != level_[index(channel)]) raise(channel, level, now_s);
        ++position;
    }
    component.deadline_s = kNever;
    if (keeps_refilled_channels_) {
        refilled_channels_.insert(refilled_channels_.end(), component.order.begin(), component.order.end());
    }
}

double MaxMinShare::fair_level(std::int32_t channel) const {
    const Channel& state = channels_[index(channel)];
    const double residual = residual_[index(channel)];
    const double rounding = kResidualRounding * state.capacity;
    if (state.held.empty()) return residual < -rounding ? -kNever : kNever;
    if (residual <= rounding && residual >= -rounding) return level_[index(channel)];
    return level_[index(channel)] + residual / static_cast<double>(state.held.size());
}

void MaxMinShare::raise(std::int32_t channel, double level, double now_s) {
    Channel& state = channels_[index(channel)];
    settle(state, level_[index(channel)], now_s);
    const double step = level - level_[index(channel)];
    level_[index(channel)] = level;
    residual_[index(channel)] -= step * static_cast<double>(state.held.size());
    list_change(channel);
    double* const residual = residual_.data();
    if (state.num_many == 0) {
        for (const Held& held : state.held) residual[held.other] -= step;
        return;
    }
    for (const Held& held : state.held) {
        for (const std::int32_t hop : hops(held.flow)) {
            if (hop != channel) residual[hop] -= step;
        }
    }
}

void MaxMinShare::swap_with_predecessor(Component& component, std::size_t position, double now_s) {
    const std::int32_t later = component.order[position];
    const std::int32_t earlier = component.order[position - 1];
    // From now on `later` comes first on the paths the two share, so it holds their flows.
    const std::vector<Held>& held = channels_[index(earlier)].held;
    for (std::size_t slot = held.size(); slot-- > 0;) {
        const Held entry = held[slot];
        bool is_shared = entry.other == later;
        if (entry.other == kManyOthers) {
            const auto path = hops(entry.flow);
            is_shared = std::find(path.begin(), path.end(), later) != path.end();
        }
        if (is_shared) hand_over(entry.flow, earlier, later, now_s);
    }
    std::swap(component.order[position - 1], component.order[position]);
    channels_[index(later)].position = static_cast<std::int32_t>(position - 1);
    channels_[index(earlier)].position = static_cast<std::int32_t>(position);
}

void MaxMinShare::hand_over(std::int32_t flow, std::int32_t from, std::int32_t to, double now_s) {
    settle(channels_[index(from)], level_[index(from)], now_s);
    const double remaining_bytes = flows_[index(flow)].mark_bytes - channels_[index(from)].served_bytes;
    const double old_rate = level_[index(from)];
    if (channels_[index(to)].held.empty()) level_[index(to)] = old_rate;
    const double gain = old_rate - level_[index(to)];
    if (gain != 0) {
        for (const std::int32_t hop : hops(flow)) residual_[index(hop)] += gain;
    }
    release(flow);
    hold(flow, to, remaining_bytes, now_s);
}

// ---- Flows held ----

void MaxMinShare::hold(std::int32_t flow, std::int32_t channel, double remaining_bytes, double now_s) {
    Channel& state = channels_[index(channel)];
    if (state.held.empty()) {
        state.served_bytes = 0;
        state.served_at_s = now_s;
        state.marks.clear();
    } else {
        settle(state, level_[index(channel)], now_s);
    }
    Flow& held = flows_[index(flow)];
    held.bottleneck = channel;
    held.slot = static_cast<std::int32_t>(state.held.size());
    held.mark_bytes = state.served_bytes + remaining_bytes;
    const auto path = hops(flow);
    std::int32_t other = kManyOthers;
    if (path.size() == 1) other = static_cast<std::int32_t>(channels_.size());
    if (path.size() == 2) other = path[0] == channel ? path[1] : path[0];
    state.num_many += other == kManyOthers ? 1 : 0;
    state.held.push_back({flow, other});
    state.marks.emplace_back(held.mark_bytes, flow);
    std::push_heap(state.marks.begin(), state.marks.end(), std::greater<>());
    list_change(channel);
}

void MaxMinShare::release(std::int32_t flow) {
    Flow& state = flows_[index(flow)];
    const std::int32_t channel = state.bottleneck;
    Channel& holder = channels_[index(channel)];
    const auto slot = static_cast<std::size_t>(state.slot);
    holder.num_many -= holder.held[slot].other == kManyOthers ? 1 : 0;
    holder.held[slot] = holder.held.back();
    flows_[index(holder.held[slot].flow)].slot = state.slot;
    holder.held.pop_back();
    state.bottleneck = -1;
    if (holder.held.empty()) level_[index(channel)] = kNever;
    list_change(channel);
}

void MaxMinShare::settle(Channel& channel, double level, double now_s) {
    if (!channel.held.empty()) channel.served_bytes += level * (now_s - channel.served_at_s);
    channel.served_at_s = now_s;
}

void MaxMinShare::reset(std::int32_t channel) {
    Channel& state = channels_[index(channel)];
    state.component = -1;
    state.marks.clear();
    level_[index(channel)] = kNever;
    residual_[index(channel)] = state.capacity;
    if (departures_.key(channel) != kNever) list_change(channel);
}

void MaxMinShare::list_change(std::int32_t channel) {
    if (channels_[index(channel)].is_listed) return;
    channels_[index(channel)].is_listed = true;
    changed_.push_back(channel);
}

void MaxMinShare::publish_changes() {
    for (const std::int32_t c : changed_) {
        channels_[index(c)].is_listed = false;
        departures_.set(c, next_departure_of(c));
    }
    if (departures_.prefers_rebuild(changed_.size())) {
        departures_.rebuild();
    } else {
        for (const std::int32_t c : changed_) departures_.replay(c);
    }
    changed_.clear();
}

double MaxMinShare::next_departure_of(std::int32_t channel) {
    Channel& state = channels_[index(channel)];
    const double level = level_[index(channel)];
    if (state.held.empty() || level <= 0) return kNever;
    while (true) {
        const auto& [mark_bytes, flow] = state.marks.front();
        const Flow& owner = flows_[index(flow)];
        if (owner.bottleneck == channel && owner.mark_bytes == mark_bytes) break;
        std::pop_heap(state.marks.begin(), state.marks.end(), std::greater<>());
        state.marks.pop_back();
    }
    const double remaining_bytes = std::max(state.marks.front().first - state.served_bytes, 0.0);
    return state.served_at_s + remaining_bytes / level;
}

}  // namespace interlock
