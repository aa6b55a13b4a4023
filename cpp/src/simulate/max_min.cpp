#include "interlock/simulate/max_min.hpp"

#include <algorithm>

#include "interlock/errors.hpp"

namespace interlock {
namespace {

constexpr std::int32_t kManyOthers = -1;
// A residual this small next to the capacity is rounding, and so is a crossing of levels this slight.
constexpr double kResidualRounding = 1e-15;
constexpr double kLevelRounding = 1e-13;
// Departures this close, next to the time since the last arrival or to the time itself, are one departure.
constexpr double kIdleRounding = 1e-12;
constexpr double kTimeRounding = 4e-15;
// A level this many times a channel's capacity takes digits with it when it is subtracted from it and added again.
constexpr double kDrowning = 1e4;
constexpr double kUnknown = -1;
constexpr double kLatest = 1e300;  // a deadline that never comes, but is one

}  // namespace

MaxMinShare::MaxMinShare(std::span<const double> capacity_bytes_per_s, Csr<std::int32_t> paths, double tolerance)
    : paths_(paths),
      residual_(capacity_bytes_per_s.begin(), capacity_bytes_per_s.end()),
      channels_(capacity_bytes_per_s.size()),
      held_(capacity_bytes_per_s.size()),
      idle_(capacity_bytes_per_s.size()),
      flows_(paths.num_rows()),
      departures_(std::max<std::size_t>(capacity_bytes_per_s.size(), 1)),
      allowed_idle_share_(std::max(0.75 * tolerance, kIdleRounding)),
      level_slack_(std::max(0.25 * tolerance, kLevelRounding)) {
    is_listed_.assign(channels_.size(), 0);
    residual_.push_back(0.0);  // where the "other channel" of a flow with a single channel points
    for (std::size_t c = 0; c < channels_.size(); ++c) channels_[c].capacity = capacity_bytes_per_s[c];
}

void MaxMinShare::add(std::int32_t flow, std::size_t num_hops, double work_bytes, double now_s) {
    Flow& state = flows_[index(flow)];
    state.num_hops = static_cast<std::int32_t>(num_hops);
    const auto path = hops(flow);
    const std::int32_t id = component_for(path);
    std::int32_t first = path.front();
    for (const std::int32_t hop : path) {
        Channel& channel = channels_[index(hop)];
        if (channel.num_flows++ == 0) --components_[index(id)].num_idle_channels;
        if (channel.position < channels_[index(first)].position) first = hop;
    }
    ++components_[index(id)].num_flows;
    components_[index(id)].joined_s = now_s;
    Channel& holder = channels_[index(first)];
    if (holder.num_held == 0) holder.level = 0.0;
    for (const std::int32_t hop : path) residual_[index(hop)] -= holder.level;
    hold(flow, first, work_bytes, now_s);
    mark_dirty(id, holder.position, -kNever);
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

MaxMinShare::Departure MaxMinShare::depart() {
    const std::int32_t channel = departures_.where();
    const double now_s = departures_.least();
    const Held& held = held_[index(channel)];
    const auto first = std::find(held.marks.begin(), held.marks.end(), channels_[index(channel)].next_mark_bytes);
    const std::int32_t flow = held.flows[static_cast<std::size_t>(first - held.marks.begin())];
    const double rate = channels_[index(channel)].level;
    const std::int32_t id = channels_[index(channel)].component;
    release(flow);
    list_change(channel);
    Component& component = components_[index(id)];
    double deadline_s = kNever;
    for (const std::int32_t hop : hops(flow)) {
        Channel& state = channels_[index(hop)];
        residual_[index(hop)] += rate;
        if (--state.num_flows > 0) {
            deadline_s = std::min(deadline_s, leave_idle(hop, rate, now_s));
        } else {
            residual_[index(hop)] = state.capacity;  // forget what rounding was left
            ++component.num_idle_channels;
        }
    }
    if (--component.num_flows == 0) {
        dissolve(id);
    } else {
        // Even where nothing would be lost the component is listed as changed, for whoever refills it next.
        const double least_s = now_s * (1 + kTimeRounding);
        mark_dirty(id, channels_[index(channel)].position, std::min(std::max(deadline_s, least_s), kLatest));
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
    return channel < 0 ? 0.0 : channels_[index(channel)].level;
}

double MaxMinShare::used_bytes_per_s(std::int32_t channel) const {
    return channels_[index(channel)].capacity - residual_[index(channel)];
}

// ---- Water filling ----

void MaxMinShare::refill(std::int32_t id, double now_s) {
    Component& component = components_[index(id)];
    give_away_idle(component, now_s);
    if (2 * static_cast<std::size_t>(component.num_idle_channels) > component.order.size()) drop_idle_channels(id);
    std::size_t position = component.dirty_from;
    const auto level_at = [&](std::size_t place) { return channels_[index(component.order[place])].level; };
    double highest = position == 0 ? -kNever : level_at(position - 1);
    while (position < component.order.size()) {
        const std::int32_t channel = component.order[position];
        const Channel& state = channels_[index(channel)];
        const double level = fair_level(state, residual_[index(channel)]);
        if (level < highest * (1 - level_slack_) && position > 0) {
            // A predecessor that holds nothing has no level to drown in.
            const bool holds = channels_[index(component.order[position - 1])].num_held > 0;
            const bool drowns = holds && highest > kDrowning * state.capacity;
            swap_with_predecessor(component, position, now_s);
            if (drowns) set_anew(component, channel, now_s);
            --position;
            highest = position == 0 ? -kNever : level_at(position - 1);
            continue;
        }
        if (state.num_held > 0 && level != state.level) raise(channel, level, now_s);
        highest = std::max(highest, state.level);
        ++position;
    }
    component.deadline_s = kNever;
    if (keeps_refilled_channels_) {
        refilled_channels_.insert(refilled_channels_.end(), component.order.begin(), component.order.end());
    }
}

double MaxMinShare::fair_level(const Channel& channel, double residual) const {
    const double rounding = kResidualRounding * channel.capacity;
    if (channel.num_held == 0) return residual < -rounding ? -kNever : kNever;
    if (residual <= rounding && residual >= -rounding) return channel.level;
    return channel.level + residual * channel.per_held;
}

void MaxMinShare::raise(std::int32_t channel, double level, double now_s) {
    Channel& state = channels_[index(channel)];
    settle(state, now_s);
    const double step = level - state.level;
    state.level = level;
    residual_[index(channel)] -= step * state.num_held;
    list_change(channel);
    double* const residual = residual_.data();
    const Held& held = held_[index(channel)];
    if (held.num_many == 0) {
        for (const std::int32_t other : held.others) residual[other] -= step;
        return;
    }
    for (const std::int32_t flow : held.flows) {
        for (const std::int32_t hop : hops(flow)) {
            if (hop != channel) residual[hop] -= step;
        }
    }
}

void MaxMinShare::set_anew(const Component& component, std::int32_t channel, double now_s) {
    Channel& state = channels_[index(channel)];
    if (state.num_held == 0) return;
    double left = state.capacity;
    for (const std::int32_t other : component.order) {
        if (other == channel) continue;
        for (const std::int32_t flow : held_[index(other)].flows) {
            const auto path = hops(flow);
            if (std::find(path.begin(), path.end(), channel) != path.end()) left -= channels_[index(other)].level;
        }
    }
    raise(channel, std::max(left, 0.0) * state.per_held, now_s);
    for (const std::int32_t other : component.order) residual_[index(other)] = channels_[index(other)].capacity;
    for (const std::int32_t other : component.order) {
        for (const std::int32_t flow : held_[index(other)].flows) {
            for (const std::int32_t hop : hops(flow)) residual_[index(hop)] -= channels_[index(other)].level;
        }
    }
}

void MaxMinShare::swap_with_predecessor(Component& component, std::size_t position, double now_s) {
    const std::int32_t later = component.order[position];
    const std::int32_t earlier = component.order[position - 1];
    // From now on `later` comes first on the paths the two share, so it holds their flows.
    const Held& held = held_[index(earlier)];
    auto place = held.others.begin();
    for (auto left = std::count(place, held.others.end(), later); left > 0; --left) {
        place = std::find(place, held.others.end(), later);
        hand_over(held.flows[static_cast<std::size_t>(place - held.others.begin())], earlier, later, now_s);
    }
    for (std::size_t slot = held.num_many > 0 ? held.flows.size() : 0; slot-- > 0;) {
        if (held.others[slot] != kManyOthers) continue;
        const auto path = hops(held.flows[slot]);
        const bool is_shared = std::find(path.begin(), path.end(), later) != path.end();
        if (is_shared) hand_over(held.flows[slot], earlier, later, now_s);
    }
    std::swap(component.order[position - 1], component.order[position]);
    channels_[index(later)].position = static_cast<std::int32_t>(position - 1);
    channels_[index(earlier)].position = static_cast<std::int32_t>(position);
}

void MaxMinShare::hand_over(std::int32_t flow, std::int32_t from, std::int32_t to, double now_s) {
    Channel& giver = channels_[index(from)];
    Channel& taker = channels_[index(to)];
    settle(giver, now_s);
    const auto slot = static_cast<std::size_t>(flows_[index(flow)].slot);
    const double remaining_bytes = held_[index(from)].marks[slot] - giver.served_bytes;
    if (taker.num_held == 0) taker.level = giver.level;
    const double gain = giver.level - taker.level;
    if (gain != 0) {
        for (const std::int32_t hop : hops(flow)) residual_[index(hop)] += gain;
    }
    release(flow);
    hold(flow, to, remaining_bytes, now_s);
}

// ---- Flows held ----

void MaxMinShare::hold(std::int32_t flow, std::int32_t channel, double remaining_bytes, double now_s) {
    Channel& state = channels_[index(channel)];
    Held& held = held_[index(channel)];
    if (state.num_held == 0) {
        state.served_bytes = 0;
        state.served_at_s = now_s;
        state.next_mark_bytes = kNever;
    } else {
        settle(state, now_s);
    }
    Flow& owner = flows_[index(flow)];
    owner.bottleneck = channel;
    owner.slot = state.num_held++;
    state.per_held = 1.0 / state.num_held;
    const double mark_bytes = state.served_bytes + remaining_bytes;
    const auto path = hops(flow);
    std::int32_t other = kManyOthers;
    if (path.size() == 1) other = static_cast<std::int32_t>(channels_.size());
    if (path.size() == 2) other = path[0] == channel ? path[1] : path[0];
    held.num_many += other == kManyOthers ? 1 : 0;
    held.flows.push_back(flow);
    held.others.push_back(other);
    held.marks.push_back(mark_bytes);
    state.next_mark_bytes = std::min(state.next_mark_bytes, mark_bytes);  // kUnknown stays
    list_change(channel);
}

void MaxMinShare::release(std::int32_t flow) {
    Flow& owner = flows_[index(flow)];
    const std::int32_t channel = owner.bottleneck;
    Channel& state = channels_[index(channel)];
    Held& held = held_[index(channel)];
    const auto slot = static_cast<std::size_t>(owner.slot);
    held.num_many -= held.others[slot] == kManyOthers ? 1 : 0;
    if (held.marks[slot] == state.next_mark_bytes) state.next_mark_bytes = kUnknown;
    held.flows[slot] = held.flows.back();
    held.others[slot] = held.others.back();
    held.marks[slot] = held.marks.back();
    flows_[index(held.flows[slot])].slot = owner.slot;
    held.flows.pop_back();
    held.others.pop_back();
    held.marks.pop_back();
    owner.bottleneck = -1;
    --state.num_held;
    state.per_held = 1.0 / state.num_held;
    if (state.num_held == 0) state.level = kNever;
    list_change(channel);
}

void MaxMinShare::settle(Channel& channel, double now_s) {
    if (channel.num_held > 0) channel.served_bytes += channel.level * (now_s - channel.served_at_s);
    channel.served_at_s = now_s;
}

void MaxMinShare::reset(std::int32_t channel) {
    Channel& state = channels_[index(channel)];
    state.component = -1;
    state.level = kNever;
    residual_[index(channel)] = state.capacity;
    if (departures_.key(channel) != kNever) list_change(channel);
}

void MaxMinShare::list_change(std::int32_t channel) {
    if (is_listed_[index(channel)] != 0) return;
    is_listed_[index(channel)] = 1;
    changed_.push_back(channel);
}

void MaxMinShare::publish_changes() {
    for (const std::int32_t c : changed_) {
        is_listed_[index(c)] = 0;
        departures_.set(c, next_departure_of(c));
    }
    if (departures_.prefers_rebuild(changed_.size())) {
        departures_.rebuild();
    } else {
        for (const std::int32_t c : changed_) departures_.climb(c);
    }
    changed_.clear();
}

void MaxMinShare::find_next_mark(std::int32_t channel) {
    double least = kNever;
    for (const double mark_bytes : held_[index(channel)].marks) least = mark_bytes < least ? mark_bytes : least;
    channels_[index(channel)].next_mark_bytes = least;
}

double MaxMinShare::next_departure_of(std::int32_t channel) {
    Channel& state = channels_[index(channel)];
    if (state.num_held == 0 || state.level <= 0) return kNever;
    if (state.next_mark_bytes == kUnknown) find_next_mark(channel);
    const double remaining_bytes = std::max(state.next_mark_bytes - state.served_bytes, 0.0);
    return state.served_at_s + remaining_bytes / state.level;
}

// Which channels are tied together by flows, and what departed flows left idle in them.

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
    const auto is_lower = [this](std::int32_t a, std::int32_t b) {
        return channels_[index(a)].level < channels_[index(b)].level;
    };
    std::merge(home.order.begin(), home.order.end(), guest.order.begin(), guest.order.end(), merged_.begin(), is_lower);
    home.order.swap(merged_);
    for (std::size_t p = 0; p < home.order.size(); ++p) {
        channels_[index(home.order[p])].position = static_cast<std::int32_t>(p);
    }
    for (const std::int32_t c : guest.order) channels_[index(c)].component = into;
    home.num_flows += guest.num_flows;
    home.num_idle_channels += guest.num_idle_channels;
    home.idle_channels.insert(home.idle_channels.end(), guest.idle_channels.begin(), guest.idle_channels.end());
    guest.idle_channels.clear();
    guest.order.clear();
    guest.num_flows = 0;
    dissolve(from);
    mark_dirty(into, 0, -kNever);
}

void MaxMinShare::dissolve(std::int32_t component) {
    Component& gone = components_[index(component)];
    for (const std::int32_t c : gone.order) reset(c);
    for (const std::int32_t c : gone.idle_channels) idle_[index(c)].rate = 0;
    gone.order.clear();
    gone.idle_channels.clear();
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

double MaxMinShare::leave_idle(std::int32_t channel, double rate, double now_s) {
    Idle& idle = idle_[index(channel)];
    Component& component = components_[index(channels_[index(channel)].component)];
    if (idle.rate == 0) component.idle_channels.push_back(channel);
    if (idle.joined_s != component.joined_s) idle.bytes = 0;
    idle.joined_s = component.joined_s;
    idle.bytes += idle.rate * (now_s - idle.at_s);
    idle.at_s = now_s;
    idle.rate += rate;
    // bytes + rate * (t - now) stays below allowed * (t - joined) until:
    const double allowed = allowed_idle_share_ * channels_[index(channel)].capacity;
    if (idle.rate <= allowed) return kNever;
    return now_s + std::max(allowed * (now_s - component.joined_s) - idle.bytes, 0.0) / (idle.rate - allowed);
}

void MaxMinShare::give_away_idle(Component& component, double now_s) {
    for (const std::int32_t c : component.idle_channels) {
        Idle& idle = idle_[index(c)];
        idle.bytes += idle.rate * (now_s - idle.at_s);
        idle.rate = 0;
        const double could_carry = channels_[index(c)].capacity * (now_s - idle.joined_s);
        if (could_carry > 0) largest_idle_share_ = std::max(largest_idle_share_, idle.bytes / could_carry);
    }
    component.idle_channels.clear();
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

}  // namespace interlock
