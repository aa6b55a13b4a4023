#include <cstdint>
#include <vector>

#include "check.hpp"
#include "interlock/errors.hpp"
#include "interlock/synthesis/list_schedule.hpp"

using namespace interlock;

namespace {

/// Orbits with a resource each.
struct Orbits {
    std::vector<std::int64_t> offsets{0, 1, 2};
    std::vector<std::int32_t> resources{0, 1};
    std::vector<double> shares{1.0, 1.0}, least_rates{1.0, 1.0};
    std::vector<std::int32_t> sender{0, 1};
    std::int64_t opening = 0;
    std::vector<std::int64_t> overhead{2, 2}, latency{0, 0};
};

OrbitWork work_of(const Orbits& orbits, const std::vector<std::int32_t>& orbit, const std::vector<std::int64_t>& ticks,
                 const std::vector<std::int64_t>& offsets, const std::vector<std::int32_t>& after) {
    return {2,
            {orbits.offsets, orbits.resources},
            {orbits.offsets, orbits.shares},
            orbits.least_rates,
            orbits.overhead,
            orbits.latency,
            orbit,
            ticks,
            {offsets, after},
            orbits.sender,
            orbits.opening};
}

void longest_chain_goes_first() {
    // Task 1 has a successor on the other orbit, task 0 has none.
    const Orbits orbits;
    const std::vector<std::int32_t> orbit{0, 0, 1}, after{2};
    const std::vector<std::int64_t> ticks{5, 5, 5}, offsets{0, 0, 1, 1};
    const OrbitWork work = work_of(orbits, orbit, ticks, offsets, after);
    CHECK(remaining_ticks(work) == (std::vector<std::int64_t>{7, 14, 7}));
    const ListSchedule made = list_schedule(work, remaining_ticks(work), {});
    CHECK(made.start_ticks == (std::vector<std::int64_t>{7, 0, 7}));
    CHECK(made.makespan_ticks == 14);
}

void merged_tasks_share_the_overhead() {
    const Orbits orbits;
    const std::vector<std::int32_t> orbit{0, 0, 0}, after{};
    const std::vector<std::int64_t> ticks{5, 5, 5}, offsets{0, 0, 0, 0};
    const OrbitWork work = work_of(orbits, orbit, ticks, offsets, after);
    const std::vector<std::int64_t> priority(3, 0);
    CHECK(list_schedule(work, priority, {}).makespan_ticks == 21);
    CHECK(list_schedule(work, priority, {2, 0}).makespan_ticks == 19);
    const ListSchedule made = list_schedule(work, priority, {3, 0});
    CHECK(made.makespan_ticks == 17);
    CHECK(made.message == (std::vector<std::int32_t>{0, 0, 0}));
}

void a_full_message_takes_no_more_tasks_but_always_one() {
    const Orbits orbits;
    const std::vector<std::int32_t> orbit{0, 0, 0, 1, 1}, after{};
    const std::vector<std::int64_t> ticks{5, 5, 5, 20, 20}, offsets(6, 0);
    const OrbitWork work = work_of(orbits, orbit, ticks, offsets, after);
    const std::vector<std::int64_t> full{10, 1, 1, 10, 10};
    const ListSchedule made = list_schedule(work, std::vector<std::int64_t>(5, 0), {8, 0, full});
    CHECK(made.message[0] == made.message[1] && made.message[1] != made.message[2]);
    CHECK(made.message[3] != made.message[4]);
    CHECK(made.makespan_ticks == 44);
}

void an_orbit_waits_for_what_is_on_its_way() {
    // Task 2 becomes ready on orbit 1 at tick 7; task 1 is ready there at once.
    const Orbits orbits;
    const std::vector<std::int32_t> orbit{0, 1, 1}, after{2};
    const std::vector<std::int64_t> ticks{5, 5, 5}, offsets{0, 1, 1, 1};
    const OrbitWork work = work_of(orbits, orbit, ticks, offsets, after);
    const std::vector<std::int64_t> priority(3, 0);
    CHECK(list_schedule(work, priority, {8, 0}).start_ticks[1] == 0);
    const ListSchedule patient = list_schedule(work, priority, {8, 7});
    CHECK(patient.start_ticks[1] == 7 && patient.message[1] == patient.message[2]);
}

void orbits_that_share_a_resource_exclude_each_other() {
    Orbits orbits;
    orbits.resources = {0, 0};
    const std::vector<std::int32_t> orbit{0, 1}, after{};
    const std::vector<std::int64_t> ticks{5, 5}, offsets{0, 0, 0};
    const OrbitWork work = work_of(orbits, orbit, ticks, offsets, after);
    const std::vector<std::int64_t> priority{0, 1};
    const ListSchedule made = list_schedule(work, priority, {});
    CHECK(made.start_ticks == (std::vector<std::int64_t>{7, 0}));
}

void latency_delays_successors_but_frees_the_orbit() {
    Orbits orbits;
    orbits.latency = {10, 0};
    const std::vector<std::int32_t> orbit{0, 0, 1}, after{2};
    const std::vector<std::int64_t> ticks{5, 5, 5}, offsets{0, 1, 1, 1};
    const ListSchedule made =
        list_schedule(work_of(orbits, orbit, ticks, offsets, after), std::vector<std::int64_t>{2, 1, 0}, {});
    CHECK(made.start_ticks == (std::vector<std::int64_t>{0, 7, 17}));
    CHECK(made.makespan_ticks == 24);
}

void messages_share_a_link_that_is_faster_than_they_are() {
    // Orbits with a port each, and a trunk that a message fills by half.
    const std::vector<std::int64_t> held{0, 2, 4}, none{0, 0}, ticks{10, 10, 10}, offsets{0, 0, 0, 0};
    const std::vector<std::int32_t> resources{0, 2, 1, 2}, orbit{0, 0, 1}, senders{0, 1}, after;
    const std::vector<double> shares{1.0, 0.5, 1.0, 0.5}, least(4, 0.25);
    const OrbitWork work{3,    {held, resources}, {held, shares}, least, none, none, orbit,
                         ticks, {offsets, after}, senders};
    const ListSchedule made = list_schedule(work, std::vector<std::int64_t>{2, 1, 0}, {});
    CHECK(made.start_ticks == (std::vector<std::int64_t>{0, 10, 0}));
    CHECK(made.sent_ticks == (std::vector<std::int64_t>{10, 20, 10}));
    CHECK(made.makespan_ticks == 20);
    const std::vector<double> none_of_it{1.0, 0.0, 1.0, 0.5};
    const OrbitWork wrong{3,      {held, resources}, {held, none_of_it}, least, none, none, orbit, ticks, {offsets, after},
                          senders};
    CHECK_THROWS(list_schedule(wrong, std::vector<std::int64_t>{2, 1, 0}, {}), InvalidInput);
}

void a_message_goes_as_fast_as_others_leave_it_and_faster_when_they_have_ended() {
    // A trunk of which the first fills three quarters: the second has a third of its rate left, then all of it.
    const std::vector<std::int64_t> held{0, 2, 4}, none{0, 0}, ticks{6, 12}, offsets{0, 0, 0};
    const std::vector<std::int32_t> resources{0, 2, 1, 2}, orbit{0, 1}, senders{0, 1}, after;
    const auto made = [&](double share, double least_rate) {
        const std::vector<double> shares{1.0, share, 1.0, share}, least(4, least_rate);
        const OrbitWork work{3,     {held, resources}, {held, shares}, least, none, none, orbit,
                             ticks, {offsets, after},  senders};
        return refine_schedule(work, std::vector<std::int64_t>{1, 0}, {}, 0);
    };
    const ListSchedule both = made(0.75, 0.25);
    CHECK(both.start_ticks == (std::vector<std::int64_t>{0, 0}));
    CHECK(both.sent_ticks == (std::vector<std::int64_t>{6, 16}));
    CHECK(both.makespan_ticks == 16);
    // With less than a quarter of its rate left it waits.
    for (const ListSchedule& apart : {made(0.9, 0.25), made(0.75, 0.5)}) {
        CHECK(apart.start_ticks == (std::vector<std::int64_t>{0, 6}));
        CHECK(apart.sent_ticks == (std::vector<std::int64_t>{6, 18}));
    }
}

void a_sender_opens_before_its_first_message() {
    Orbits orbits;
    orbits.opening = 100;
    const std::vector<std::int32_t> orbit{0, 0, 1}, after{2}, none;
    const std::vector<std::int64_t> ticks{5, 5, 5}, offsets{0, 1, 1, 1}, apart{0, 0, 0, 0};
    const OrbitWork work = work_of(orbits, orbit, ticks, offsets, after);
    const ListSchedule made = refine_schedule(work, std::vector<std::int64_t>{2, 1, 0}, {}, 2);
    CHECK(made.start_ticks == (std::vector<std::int64_t>{100, 107, 207}));
    CHECK(made.makespan_ticks == 214);
    // A sender's other orbits wait for it too.
    orbits.sender = {0, 0};
    const ListSchedule both =
        list_schedule(work_of(orbits, orbit, ticks, apart, none), std::vector<std::int64_t>{2, 1, 0}, {});
    CHECK(both.start_ticks == (std::vector<std::int64_t>{100, 107, 100}));
}

void refinement_never_makes_it_worse() {
    const Orbits orbits;
    const std::vector<std::int32_t> orbit{0, 0, 1}, after{2};
    const std::vector<std::int64_t> ticks{5, 5, 5}, offsets{0, 0, 1, 1};
    const OrbitWork work = work_of(orbits, orbit, ticks, offsets, after);
    const std::vector<std::int64_t> wrong{1, 0, 0};
    CHECK(list_schedule(work, wrong, {}).makespan_ticks == 21);
    const ListSchedule made = refine_schedule(work, wrong, {}, 2);
    CHECK(made.makespan_ticks == 14);
    CHECK(made.start_ticks == (std::vector<std::int64_t>{7, 0, 7}));
}

void circles_are_refused() {
    const Orbits orbits;
    const std::vector<std::int32_t> orbit{0, 1}, after{1, 0};
    const std::vector<std::int64_t> ticks{5, 5}, offsets{0, 1, 2};
    const OrbitWork work = work_of(orbits, orbit, ticks, offsets, after);
    CHECK_THROWS(list_schedule(work, std::vector<std::int64_t>{0, 0}, {}), InvalidInput);
    CHECK_THROWS(remaining_ticks(work), InvalidInput);
}

}  // namespace

int main() {
    longest_chain_goes_first();
    merged_tasks_share_the_overhead();
    a_full_message_takes_no_more_tasks_but_always_one();
    an_orbit_waits_for_what_is_on_its_way();
    orbits_that_share_a_resource_exclude_each_other();
    latency_delays_successors_but_frees_the_orbit();
    messages_share_a_link_that_is_faster_than_they_are();
    a_message_goes_as_fast_as_others_leave_it_and_faster_when_they_have_ended();
    a_sender_opens_before_its_first_message();
    refinement_never_makes_it_worse();
    circles_are_refused();
    return 0;
}
