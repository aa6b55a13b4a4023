// Which channels are tied together by flows, and what departed flows left idle in them.

#include <algorithm>

#include "interlock/simulate/max_min.hpp"

namespace interlock {

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
