#include "interlock/schedule/schedule_rows.hpp"

#include "check.hpp"

using namespace interlock;

int main() {
    const ScheduleRows none = RowWriter().take();
    CHECK(none.src.empty() && none.item.empty() && none.dep_offsets.size() == 1 && none.piece_offsets[0] == 0);

    for (const bool knows_sizes : {false, true}) {
        RowWriter writer;
        if (knows_sizes) writer.reserve(10, 30, 50);  // more than there will be
        for (std::int32_t message = 0; message < 7; ++message) {
            for (std::int32_t n = 0; n <= message; ++n) writer.add_piece(n, 10 * n, n + 1);
            if (message == 1) {
                for (const std::int32_t dep : {0, 0}) writer.add_dep(dep);
            } else if (message > 1) {
                for (const std::int32_t dep : {message - 1, 0, message - 2, message - 2, 0}) writer.add_dep(dep);
            }
            writer.end(message, message + 1, MessagePhase::kScaleOut, 2 - message % 2, 3, 4);
        }
        writer.order_by_stage(2);
        const ScheduleRows rows = writer.take();
        CHECK(rows.src.size() == 7 && rows.phase.size() == 7 && rows.slice[6] == 3 && rows.order[1] == 4);
        CHECK(rows.item.size() == 28 && rows.piece_offsets[7] == 28 && rows.piece_offsets[3] == 6);
        CHECK(rows.size_bytes[6] == 28 && rows.length[5] == 3 && rows.offset[5] == 20);
        // Ascending, each once: message 1 waits for 0, message 2 for 0 and 1, message 6 for 0, 4 and 5.
        CHECK(rows.dep_offsets[2] == 1 && rows.dep_offsets[3] == 3 && rows.dep_offsets[7] == 15 &&
              rows.deps.size() == 15);
        CHECK(rows.deps[1] == 0 && rows.deps[2] == 1 && rows.deps[12] == 0 && rows.deps[13] == 4 && rows.deps[14] == 5);
        CHECK(rows.stage[3] == 1 && rows.order[3] == 1 * 5 + 1 && rows.order[2] == 2 * 5 + 0 &&
              rows.order[6] == 2 * 5 + 4);
    }
    return 0;
}
