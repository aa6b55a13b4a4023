#include "interlock/papers/rail_shares.hpp"

#include <algorithm>
#include <cmath>

#include "interlock/errors.hpp"

namespace interlock {
namespace {

constexpr int kRounds = 12;  // rescaling gains less than 0.1 % of balance after this many

/// Adds what rounding down left over, a byte per live rail, starting at another rail for each pair of servers.
void add_remainder(std::span<std::int64_t> row, std::span<const double> weight, std::int64_t owed, std::size_t start) {
    std::int64_t rest = owed;
    for (const std::int64_t share : row) rest -= share;
    for (std::size_t step = 0; rest > 0; ++step) {
        const std::size_t rail = (start + step) % row.size();
        if (weight[rail] <= 0.0) continue;
        ++row[rail];
        --rest;
    }
}

/// Whether all NICs of a server have one rate.
bool is_even(std::span<const double> rate) {
    return std::all_of(rate.begin(), rate.end(), [&](double r) { return r == rate[0]; });
}

/// Scales a row by its factors, then to its sum with nothing above the most, which allow that sum. A row whose factors
/// leave nothing stays as it is.
void scale_row(std::span<double> row, std::span<const double> factors, std::span<const double> most, double sum) {
    double scaled = 0.0;
    for (std::size_t r = 0; r < row.size(); ++r) scaled += row[r] * factors[r];
    if (scaled <= 0.0) return;
    for (std::size_t r = 0; r < row.size(); ++r) row[r] *= factors[r] * sum / scaled;
    // What is cut off goes to rails with room, which may then be full.
    for (std::size_t turn = 0; turn < row.size(); ++turn) {
        double free = 0.0, left = sum;
        for (std::size_t r = 0; r < row.size(); ++r)
            (row[r] < most[r] ? free : left) += row[r] < most[r] ? row[r] : -most[r];
        if (free <= 0.0) return;
        for (std::size_t r = 0; r < row.size(); ++r) row[r] = row[r] < most[r] ? row[r] * left / free : most[r];
    }
}

/// Rescales what goes to servers with even rails, so that columns come close to the server's own rates and rows keep
/// their sums. What goes to a server with a slow or dead rail stays as that server can take it. Others are taken to
/// send as much: a rail of a receiver gets no more than an equal share of all rails, or than as many senders can give
/// it in the time that this server's NICs take.
void rescale(std::vector<double>& share, std::span<const std::int64_t> owed, std::span<const double> rates,
             std::size_t own) {
    const std::size_t servers = owed.size(), rails = rates.size() / servers;
    const auto rate = rates.subspan(own * rails, rails);
    double total = 0.0, rate_sum = 0.0;
    for (std::size_t d = 0; d < servers; ++d) total += d == own ? 0.0 : static_cast<double>(owed[d]);
    for (const double r : rate) rate_sum += r;
    std::vector<double> fixed(rails, 0.0), column(rails);
    std::vector<char> can_move(servers);
    for (std::size_t d = 0; d < servers; ++d) {
        can_move[d] = d != own && is_even(rates.subspan(d * rails, rails));
        for (std::size_t r = 0; !can_move[d] && r < rails; ++r) fixed[r] += share[d * rails + r];
    }
    std::vector<double> most = share;
    for (std::size_t at = 0; at < share.size(); ++at)
        most[at] = std::max(most[at], total / rate_sum * rates[at] / static_cast<double>(servers - 1));
    for (int round = 0; round < kRounds; ++round) {
        std::fill(column.begin(), column.end(), 0.0);
        for (std::size_t d = 0; d < servers; ++d) {
            for (std::size_t r = 0; can_move[d] && r < rails; ++r) column[r] += share[d * rails + r];
        }
        for (std::size_t r = 0; r < rails; ++r) {
            const double wanted = std::max(0.0, total * rate[r] / rate_sum - fixed[r]);
            column[r] = column[r] > 0.0 ? wanted / column[r] : 0.0;
        }
        for (std::size_t d = 0; d < servers; ++d) {
            if (!can_move[d]) continue;
            scale_row(std::span(share).subspan(d * rails, rails), column, std::span(most).subspan(d * rails, rails),
                      static_cast<double>(owed[d]));
        }
    }
}

}  // namespace

bool rail_shares(std::span<const std::int64_t> owed_bytes, std::span<const double> rates, std::int32_t own,
                 std::int32_t rails, std::span<std::int64_t> shares) {
    const std::size_t servers = owed_bytes.size(), width = static_cast<std::size_t>(rails);
    const auto self = static_cast<std::size_t>(own);
    require(rails > 0 && rates.size() == servers * width && shares.size() == rates.size(),
            "rates must be [servers, rails]");
    require(own >= 0 && self < servers, "own must be one of the servers");
    for (const double rate : rates) require(rate >= 0.0 && rate < 1e300, "rates must be finite and not negative");
    for (const std::int64_t bytes : owed_bytes)
        require(bytes >= 0 && bytes <= std::int64_t{1} << 62, "bytes must be between 0 and 2^62");
    std::fill(shares.begin(), shares.end(), 0);
    const bool equal = std::all_of(rates.begin(), rates.end(), [&](double r) { return r == rates[0] && r > 0.0; });
    std::vector<double> weight(servers * width, 1.0), share;
    if (!equal) {
        share.assign(servers * width, 0.0);
        for (std::size_t d = 0; d < servers; ++d) {
            double sum = 0.0;
            for (std::size_t r = 0; r < width; ++r) {
                weight[d * width + r] = std::min(rates[self * width + r], rates[d * width + r]);
                sum += weight[d * width + r];
            }
            if (d == self || owed_bytes[d] <= 0) continue;
            if (sum <= 0.0) return false;
            for (std::size_t r = 0; r < width; ++r) {
                share[d * width + r] = static_cast<double>(owed_bytes[d]) * weight[d * width + r] / sum;
            }
        }
        rescale(share, owed_bytes, rates, self);
    }
    for (std::size_t d = 0; d < servers; ++d) {
        if (d == self || owed_bytes[d] <= 0) continue;
        const auto row = shares.subspan(d * width, width);
        std::int64_t left = owed_bytes[d];
        for (std::size_t r = 0; r < width; ++r) {
            const auto floor = equal ? owed_bytes[d] / rails : static_cast<std::int64_t>(share[d * width + r]);
            row[r] = std::min(floor, left);
            left -= row[r];
        }
        add_remainder(row, std::span(weight).subspan(d * width, width), owed_bytes[d], self + d);
    }
    return true;
}

}  // namespace interlock
