#include "interlock/two_tier/assignment.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "interlock/arithmetic.hpp"
#include "interlock/two_tier/constants.hpp"

namespace interlock {
namespace {

constexpr std::int32_t kNone = -1;

class WaterLevel {
public:
    WaterLevel(std::span<const std::int64_t> demand, const RankLoads& loads, const Ports& ports,
               const AssignmentGoal& goal)
        : demand_(demand),
          loads_(loads),
          ports_(ports),
          goal_(goal),
          ranks_(ports.ranks()),
          width_(ports.width),
          is_coupled_(ports.couples_ends() && !goal.shares_all),
          rate_(ports.rates()),
          load_(rate_.size(), 0.0),
          users_(rate_.size(), kNone),
          is_stuck_(rate_.size(), 0),
          first_flow_(2 * ranks_ + ranks_ * (is_coupled_ ? ranks_ : width_), kNone) {}

    Assignment run() {
        Assignment made;
        for (std::size_t server = 0; server < ports_.servers; ++server) {
            if (!start_server(server)) return made;
        }
        if (is_coupled_ && !start_pairs()) return made;
        count_leaves();
        for (std::size_t rank = 0; rank < goal_.busy_s.size(); ++rank)
            load_[ports_.out(rank)] += goal_.busy_s[rank] * rate_[ports_.out(rank)];
        const double floor = floor_seconds(loads_, ports_) * (1 + kPrecision);
        if (goal_.may_move) {
            // Servers whose ends are chosen apart have no port in common.
            double target = floor;
            if (is_coupled_) {
                lower(0, rate_.size(), target);
            } else {
                for (std::size_t server = 0; server < ports_.servers; ++server) {
                    most_weighed_ = weighed_ + (kMostWeighed - weighed_) / (ports_.servers - server);
                    target = std::max(target, lower_server(server, target));
                }
            }
        }
        write(made);
        return made;
    }

private:
    struct Flow {
        Route route;
        double bytes;
        std::int32_t group, next;  // flow of the same group
    };
    struct User {
        std::int32_t flow, next;
    };

    [[nodiscard]] std::size_t group_of(const Route& route) const {
        if (route.to < 0) return to_size(route.from);
        if (route.from < 0) return ranks_ + to_size(route.to);
        const std::size_t src = to_size(route.from), dst = to_size(route.to);
        return 2 * ranks_ + (is_coupled_ ? src * ranks_ + dst : src * width_ + dst % width_);
    }

    [[nodiscard]] bool is_near(const Route& route) const {
        return route.from >= 0 && route.to >= 0 && to_size(route.from) / width_ == to_size(route.to) / width_;
    }

    void add(const Route& route, double bytes) {
        const std::size_t group = group_of(route);
        const RoutePorts on(ports_, route);
        for (const std::size_t port : on.all()) load_[port] += bytes;
        for (std::int32_t flow = first_flow_[group]; flow != kNone; flow = flows_[to_size(flow)].next) {
            if (flows_[to_size(flow)].route == route) {
                flows_[to_size(flow)].bytes += bytes;
                return;
            }
        }
        const std::int32_t id = to_int32(flows_.size());
        flows_.push_back({route, bytes, to_int32(group), first_flow_[group]});
        first_flow_[group] = id;
        for (const std::size_t port : on.all()) {
            nodes_.push_back({id, users_[port]});
            users_[port] = to_int32(nodes_.size() - 1);
        }
    }

    /// Own NICs; what belongs to a dead one goes to all others of the server by rate. Bytes between neighbours go
    /// straight.
    bool start_server(std::size_t server) {
        const std::size_t first = server * width_;
        double nics = 0;
        for (std::size_t rank = first; rank < first + width_; ++rank) nics += ports_.nic[rank];
        if (goal_.shares_all && !share_out(first, nics)) return false;
        for (std::size_t rank = first; rank < first + width_; ++rank) {
            const auto own = to_int32(rank);
            for (const bool sends : {true, false}) {
                const std::int64_t bytes = (sends ? loads_.out_far : loads_.in_far)[rank];
                if (bytes == 0 || is_coupled_ || goal_.shares_all) continue;
                const auto put = [&](std::size_t nic, double part) {
                    const auto by = to_int32(nic);
                    add(sends ? Route{own, -1, by, -1, -1} : Route{-1, own, -1, by, -1},
                        static_cast<double>(bytes) * part);
                };
                if (ports_.nic[rank] > 0) {
                    put(rank, 1.0);
                    continue;
                }
                if (nics <= 0) return false;
                for (std::size_t nic = first; nic < first + width_; ++nic) {
                    if (ports_.nic[nic] > 0) put(nic, ports_.nic[nic] / nics);
                }
            }
            for (std::size_t peer = first; peer < first + width_; ++peer) {
                const std::int64_t bytes = peer == rank ? 0 : demand_[rank * ranks_ + peer];
                if (bytes > 0) add({own, to_int32(peer), -1, -1, -1}, static_cast<double>(bytes));
            }
        }
        return true;
    }

    /// Every NIC of a server has a share of all its bytes, by rate: what leaves takes its own NIC as far as that holds
    /// it; what arrives comes mixed.
    bool share_out(std::size_t first, double nics) {
        double bytes = 0;
        for (std::size_t rank = first; rank < first + width_; ++rank)
            bytes += static_cast<double>(loads_.out_far[rank] + loads_.in_far[rank]);
        if (bytes > 0 && nics <= 0) return false;
        std::vector<double> room(width_), left(width_);
        bytes = 0;
        for (std::size_t rank = first; rank < first + width_; ++rank)
            bytes += static_cast<double>(loads_.out_far[rank]);
        for (std::size_t gpu = 0; gpu < width_; ++gpu) {
            const auto own = static_cast<double>(loads_.out_far[first + gpu]),
                       share = nics > 0 ? bytes * ports_.nic[first + gpu] / nics : 0.0;
            const double kept = std::min(own, share);
            room[gpu] = share - kept;
            left[gpu] = own - kept;
            if (kept > 0) add({to_int32(first + gpu), -1, to_int32(first + gpu), -1, -1}, kept);
        }
        for (std::size_t gpu = 0; gpu < width_; ++gpu) {
            const auto own = to_int32(first + gpu);
            for (std::size_t turn = 1; turn < width_ && left[gpu] > 0; ++turn) {
                const std::size_t helper = (gpu + turn) % width_;
                const double moved = std::min(left[gpu], room[helper]);
                if (moved > 0) add({own, -1, to_int32(first + helper), -1, -1}, moved);
                left[gpu] -= moved;
                room[helper] -= moved;
            }
            for (std::size_t nic = 0; nic < width_ && loads_.in_far[first + gpu] > 0; ++nic) {
                if (ports_.nic[first + nic] > 0)
                    add({-1, own, -1, to_int32(first + nic), -1},
                        static_cast<double>(loads_.in_far[first + gpu]) * ports_.nic[first + nic] / nics);
            }
        }
        return true;
    }

    /// Every pair between servers: by its own NICs where these are joined, else in halves by the rails of either end,
    /// else by all.
    bool start_pairs() {
        for (std::size_t src = 0; src < ranks_; ++src) {
            for (std::size_t dst = 0; dst < ranks_; ++dst) {
                const std::int64_t bytes = demand_[src * ranks_ + dst];
                if (bytes == 0 || src / width_ == dst / width_) continue;
                const auto all = static_cast<double>(bytes);
                const auto rail = [&](std::size_t index) {
                    const std::size_t out = src / width_ * width_ + index, in = dst / width_ * width_ + index;
                    return Route{to_int32(src), to_int32(dst), to_int32(out), to_int32(in), -1};
                };
                const auto works = [&](const Route& way) {
                    return ports_.is_joined(to_size(way.out), to_size(way.in));
                };
                if (ports_.is_joined(src, dst)) {
                    add({to_int32(src), to_int32(dst), to_int32(src), to_int32(dst), -1}, all);
                    continue;
                }
                const Route own = rail(src % width_), other = rail(dst % width_);
                if (works(own) || works(other)) {
                    const double part = works(own) && works(other) ? 0.5 : 1.0;
                    if (works(own)) add(own, all * part);
                    if (works(other)) add(other, all * part);
                    continue;
                }
                double rates = 0;
                const auto rate = [&](const Route& way) {
                    return works(way) ? std::min(ports_.nic[to_size(way.out)], ports_.nic[to_size(way.in)]) : 0.0;
                };
                for (std::size_t index = 0; index < width_; ++index) rates += rate(rail(index));
                if (rates > 0) {
                    for (std::size_t index = 0; index < width_; ++index) {
                        if (rate(rail(index)) > 0) add(rail(index), all * rate(rail(index)) / rates);
                    }
                    continue;
                }
                if (!start_across(src, dst, all)) return false;
            }
        }
        return true;
    }

    /// No rail works: any NIC of either server, by rate.
    bool start_across(std::size_t src, std::size_t dst, double bytes) {
        const auto fastest = [&](std::size_t rank) {
            const auto nics = ports_.nic.subspan(rank / width_ * width_, width_);
            return rank / width_ * width_ + static_cast<std::size_t>(std::ranges::max_element(nics) - nics.begin());
        };
        const std::size_t out = ports_.nic[src] > 0 ? src : fastest(src), in = ports_.nic[dst] > 0 ? dst : fastest(dst);
        if (!ports_.is_joined(out, in)) return false;
        add({to_int32(src), to_int32(dst), to_int32(out), to_int32(in), -1}, bytes);
        return true;
    }

    /// Uplinks that all NICs of a server share carry the same whatever moves, where the ends are chosen apart.
    void count_leaves() {
        if (is_coupled_ || ports_.servers == 1) return;
        const std::size_t leaves = ports_.num_leaves(), up = ports_.first_uplink(),
                          down = up + leaves + ports_.num_hashed();
        for (std::size_t leaf = 0; leaf < leaves; ++leaf) {
            for (std::size_t rank = leaf * width_; rank < (leaf + 1) * width_; ++rank) {
                load_[up + leaf] += static_cast<double>(loads_.out_far[rank]);
                load_[down + leaf] += static_cast<double>(loads_.in_far[rank]);
            }
        }
    }

    [[nodiscard]] double level(std::size_t port) const { return load_[port] > 0 ? load_[port] / rate_[port] : 0.0; }

    /// The ports of one server are apart in the numbering: gathered, lowered together.
    double lower_server(std::size_t server, double target) {
        scope_.clear();
        const std::size_t first = server * width_, hops = 2 * ranks_;
        for (std::size_t rank = first; rank < first + width_; ++rank) {
            scope_.push_back(ports_.out(rank));
            scope_.push_back(ports_.in(rank));
            if (!ports_.is_mesh) {
                scope_.push_back(hops + rank);
                scope_.push_back(hops + ranks_ + rank);
                continue;
            }
            for (std::size_t peer = 0; peer < width_; ++peer) scope_.push_back(hops + rank * width_ + peer);
        }
        return lower_scope(target);
    }

    void lower(std::size_t first, std::size_t last, double target) {
        scope_.clear();
        for (std::size_t port = first; port < last; ++port) scope_.push_back(port);
        lower_scope(target);
    }

    /// @returns the level that is left
    double lower_scope(double target) {
        relieve_fullest(target, kPrecision);
        double top = 0;
        for (const std::size_t port : scope_) top = std::max(top, level(port));
        if (goal_.evens_out) {
            evens_out_ = true;
            relieve_fullest(0.0, 1.0);
            evens_out_ = false;
        }
        return top;
    }

    /// One port after the other, until none is above the target, or nothing relieves those that are: of ports at most
    /// this part of the fullest below it.
    void relieve_fullest(double target, double near_top) {
        for (const std::size_t port : scope_) is_stuck_[port] = 0;
        while (weighed_ < most_weighed_) {
            std::size_t fullest = load_.size();
            double top = 0, most = target;
            for (const std::size_t port : scope_) {
                const double here = level(port);
                top = std::max(top, here);
                if (here > most && is_stuck_[port] == 0) {
                    most = here;
                    fullest = port;
                }
            }
            if (fullest == load_.size() || most < top * (1 - near_top)) return;
            if (!relieve(fullest, target)) {
                is_stuck_[fullest] = 1;
            } else if (!evens_out_) {
                for (const std::size_t port : scope_) is_stuck_[port] = 0;
            }
        }
    }

    bool relieve(std::size_t port, double target) {
        largest_.clear();
        for (std::int32_t user = users_[port]; user != kNone; user = nodes_[to_size(user)].next) {
            if (flows_[to_size(nodes_[to_size(user)].flow)].bytes > 0) largest_.push_back(nodes_[to_size(user)].flow);
        }
        if (largest_.size() > kMostUsers) {
            const auto more = [&](std::int32_t a, std::int32_t b) {
                return flows_[to_size(a)].bytes != flows_[to_size(b)].bytes
                           ? flows_[to_size(a)].bytes > flows_[to_size(b)].bytes
                           : a < b;
            };
            std::ranges::nth_element(largest_, largest_.begin() + kMostUsers, more);
            largest_.resize(kMostUsers);
        }
        const double excess = load_[port] - target * rate_[port];
        double best = 0, moved = 0;
        std::int32_t from = kNone;
        Route to;
        for (const std::int32_t id : largest_) {
            const Flow& flow = flows_[to_size(id)];
            // Neighbours' bytes go straight and wait for nobody, unless that lowers the level.
            if (evens_out_ && is_near(flow.route)) continue;
            const RoutePorts before(ports_, flow.route);
            for_each_route(flow.route, [&](const Route& route) {
                const RoutePorts after(ports_, route);
                ++weighed_;
                if (after.has(port)) return;
                double bytes = std::min(flow.bytes, excess);
                for (const std::size_t other : after.all()) {
                    if (before.has(other)) continue;
                    // So many that both are equally full.
                    const double even =
                        (load_[port] * rate_[other] - load_[other] * rate_[port]) / (rate_[port] + rate_[other]);
                    bytes = std::min(bytes, even);
                    if (bytes <= 0) return;
                }
                const double gain = bytes / std::sqrt(static_cast<double>(after.all().size()));
                if (gain <= best) return;
                best = gain;
                moved = bytes;
                from = id;
                to = route;
            });
        }
        if (from == kNone || moved <= std::max(kPrecision * load_[port], goal_.worth_s * rate_[port])) return false;
        const RoutePorts before(ports_, flows_[to_size(from)].route);
        for (const std::size_t other : before.all()) load_[other] -= moved;
        flows_[to_size(from)].bytes -= moved;
        add(to, moved);
        return true;
    }

    /// Other routes of the same bytes.
    template <typename Try>
    void for_each_route(const Route& own, Try consider) const {
        const std::size_t src_first = (own.from >= 0 ? to_size(own.from) : to_size(own.to)) / width_ * width_;
        if (own.to < 0 || own.from < 0) {
            for (std::size_t nic = src_first; nic < src_first + width_; ++nic) {
                if (ports_.nic[nic] <= 0) continue;
                const auto by = to_int32(nic);
                if (by != std::max(own.out, own.in))
                    consider(own.to < 0 ? Route{own.from, -1, by, -1, -1} : Route{-1, own.to, -1, by, -1});
            }
            return;
        }
        const std::size_t dst_first = to_size(own.to) / width_ * width_;
        const auto by_nics = [&](std::size_t out, std::size_t in) {
            const Route route{own.from, own.to, to_int32(out), to_int32(in), -1};
            if (route != own && ports_.is_joined(out, in)) consider(route);
        };
        if (src_first == dst_first) {
            const Route straight{own.from, own.to, -1, -1, -1};
            if (own != straight) consider(straight);
            for (std::size_t peer = src_first; peer < src_first + width_; ++peer) {
                const auto relay = to_int32(peer);
                if (relay == own.from || relay == own.to) continue;
                const Route around{own.from, own.to, -1, -1, relay};
                if (ports_.is_mesh && ports_.present[peer] != 0 && around != own) consider(around);
            }
            if (!goal_.may_loop || !ports_.joins_own()) return;
            for (std::size_t peer = src_first; peer < src_first + width_; ++peer) {
                if (peer != to_size(own.to)) by_nics(peer, to_size(own.to));
                if (peer != to_size(own.from) && peer != to_size(own.to)) by_nics(to_size(own.from), peer);
            }
            return;
        }
        for (std::size_t gpu = 0; gpu < width_; ++gpu) by_nics(src_first + gpu, dst_first + gpu);
        if (ports_.scale_out == ScaleOut::kRail) return;
        for (std::size_t gpu = 0; gpu < width_; ++gpu) {
            if (gpu != to_size(own.to) % width_) by_nics(src_first + gpu, to_size(own.to));
            if (gpu != to_size(own.from) % width_) by_nics(to_size(own.from), dst_first + gpu);
        }
    }

    void write(Assignment& made) {
        made.load = load_;
        made.is_whole = true;
        for (std::size_t port = 0; port < load_.size(); ++port) {
            double& most = port >= 2 * ranks_ && port < ports_.first_uplink() ? made.up_s : made.nic_s;
            most = std::max(most, level(port));
        }
        made.level_s = std::max(made.nic_s, made.up_s);
        if (!is_coupled_) {
            made.out_bytes.assign(ranks_ * width_, 0);
            made.in_bytes.assign(ranks_ * width_, 0);
        }
        for (const Flow& flow : flows_) {
            const auto bytes = static_cast<std::int64_t>(flow.bytes);
            const Route& route = flow.route;
            if (flow.bytes <= 0) continue;
            if (!is_near(route))
                made.has_hops = made.has_hops || (route.from >= 0 && route.out != route.from) ||
                                (route.to >= 0 && route.in != route.to);
            if (route.to < 0) {
                made.out_bytes[to_size(route.from) * width_ + to_size(route.out) % width_] += bytes;
            } else if (route.from < 0) {
                made.in_bytes[to_size(route.to) * width_ + to_size(route.in) % width_] += bytes;
            } else if (is_near(route)) {
                if (route.out >= 0 || route.relay >= 0) made.near.push_back({route, bytes});
            } else {
                made.far.push_back({route, bytes});
            }
        }
        for (std::size_t rank = 0; rank < ranks_ && !is_coupled_; ++rank) {
            // Who has nothing now may have something when the plan is kept for later traffic.
            for (auto* shares : {&made.out_bytes, &made.in_bytes}) {
                const auto own = std::span(*shares).subspan(rank * width_, width_);
                if (std::ranges::any_of(own, [](std::int64_t bytes) { return bytes > 0; })) continue;
                for (std::size_t gpu = 0; gpu < width_; ++gpu) {
                    const bool takes =
                        ports_.nic[rank] > 0 ? gpu == rank % width_ : ports_.nic[rank / width_ * width_ + gpu] > 0;
                    own[gpu] = takes ? 1 : 0;
                }
            }
        }
        const auto key = [&](const RouteBytes& part) {
            const std::size_t src = to_size(part.route.from), dst = to_size(part.route.to);
            return std::array{src / width_,
                              dst / width_,
                              src,
                              dst,
                              to_size(part.route.out + 1),
                              to_size(part.route.in + 1),
                              to_size(part.route.relay + 1)};
        };
        const auto is_before = [&](const RouteBytes& a, const RouteBytes& b) { return key(a) < key(b); };
        std::ranges::sort(made.near, is_before);
        std::ranges::sort(made.far, is_before);
        give_rest(made);
    }

    /// What rounding to whole bytes left goes to the last route of each pair.
    void give_rest(Assignment& made) const {
        for (std::size_t first = 0; first < made.far.size();) {
            const auto [from, to, out, in, relay] = made.far[first].route;
            std::int64_t left = demand_[to_size(from) * ranks_ + to_size(to)];
            std::size_t last = first;
            for (; last < made.far.size() && made.far[last].route.from == from && made.far[last].route.to == to;
                 ++last) {
                left -= made.far[last].bytes;
            }
            made.far[last - 1].bytes += left;
            first = last;
        }
        for (auto* routes : {&made.far, &made.near})
            std::erase_if(*routes, [](const RouteBytes& part) { return part.bytes == 0; });
    }

    std::span<const std::int64_t> demand_;
    const RankLoads& loads_;
    const Ports& ports_;
    const AssignmentGoal& goal_;
    std::size_t ranks_, width_;
    bool is_coupled_;
    bool evens_out_ = false;  // the level is as low as can be: other ports are relieved
    std::vector<double> rate_, load_;
    std::vector<std::int32_t> users_;  // per port, the first of its users
    std::vector<std::uint8_t> is_stuck_;
    std::vector<std::int32_t> first_flow_;  // per group
    std::vector<Flow> flows_;
    std::vector<User> nodes_;
    std::vector<std::size_t> scope_;
    std::vector<std::int32_t> largest_;
    std::size_t weighed_ = 0, most_weighed_ = kMostWeighed;
};

}  // namespace

Assignment assign_bytes(std::span<const std::int64_t> demand_bytes, const RankLoads& loads, const Ports& ports,
                        const AssignmentGoal& goal) {
    return WaterLevel(demand_bytes, loads, ports, goal).run();
}

double floor_seconds(const RankLoads& loads, const Ports& ports) {
    const std::size_t width = ports.width;
    const double share = static_cast<double>(ports.servers == 1 && !ports.joins_own() ? 0 : 1);
    double most = 0;
    const auto raise = [&](double bytes, double rate) {
        if (bytes > 0 && rate > 0) most = std::max(most, bytes / rate);
    };
    for (std::size_t server = 0; server < ports.servers; ++server) {
        double out = 0, in = 0, nics = 0;
        for (std::size_t rank = server * width; rank < (server + 1) * width; ++rank) {
            const auto out_far = static_cast<double>(loads.out_far[rank]),
                       in_far = static_cast<double>(loads.in_far[rank]);
            out += out_far;
            in += in_far;
            nics += ports.nic[rank];
            const double up = width > 1 ? ports.scale_up : 0.0;
            raise(out_far + static_cast<double>(loads.out_near[rank]), share * ports.nic[rank] + up);
            raise(in_far + static_cast<double>(loads.in_near[rank]), share * ports.nic[rank] * ports.efficiency + up);
        }
        raise(out, nics);
        raise(in, nics * ports.efficiency);
        if (ports.scale_out == ScaleOut::kFlat && ports.has_leaf_uplinks()) {
            double nominal = 0;
            for (std::size_t rank = server * width; rank < (server + 1) * width; ++rank)
                nominal += ports.nominal_nic[rank];
            raise(std::max(out, in), nominal / ports.oversubscription);
        }
    }
    return most;
}

}  // namespace interlock
