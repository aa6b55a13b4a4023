#include <cmath>
#include <cstdint>
#include <vector>

#include "check.hpp"
#include "interlock/synthesis/column_program.hpp"

using namespace interlock;

namespace {

double amount(const ColumnProgram& program, std::int32_t name) {
    for (std::size_t row = 0; row < program.names().size(); ++row) {
        if (program.names()[row] == name) return program.amounts()[row];
    }
    return 0.0;
}

bool near(double a, double b) { return std::abs(a - b) < 1e-9; }

// Maximise x + y where x + 2y <= 4 and 3x + y <= 6: x = 1.6, y = 1.2.
void columns_settle_at_the_best_corner() {
    ColumnProgram program({4.0, 6.0});
    const std::vector<std::int32_t> rows{0, 1};
    program.enter(rows, std::vector<double>{1.0, 3.0}, 1.0, 0);
    CHECK(near(amount(program, 0), 2.0));
    CHECK(near(program.prices()[1], 1.0 / 3.0));
    program.enter(rows, std::vector<double>{2.0, 1.0}, 1.0, 1);
    CHECK(near(amount(program, 0), 1.6) && near(amount(program, 1), 1.2));
    CHECK(near(program.prices()[0], 0.4) && near(program.prices()[1], 0.2));
    CHECK(!program.relax(-1e-9));
    CHECK(program.exchanges() == 2);
}

// A column that needs only the second row makes the first one plenty.
void rows_get_room_again() {
    ColumnProgram program({1.0, 1.0});
    program.enter(std::vector<std::int32_t>{0, 1}, std::vector<double>{1.0, 0.5}, 1.0, 0);
    program.enter(std::vector<std::int32_t>{1}, std::vector<double>{0.1}, 1.0, 1);
    CHECK(program.prices()[0] < 0.0);
    CHECK(program.relax(-1e-9) && !program.relax(-1e-9));
    CHECK(near(amount(program, 0), 0.0) && near(amount(program, 1), 10.0));
}

}  // namespace

int main() {
    columns_settle_at_the_best_corner();
    rows_get_room_again();
    return 0;
}
