"""Rows beside the products, one pass over memory each."""

import triton
import triton.language as tl


@triton.jit
def swiglu_back(gate_up, inner_grad, made, inner, BLOCK: tl.constexpr):  # noqa: N803
    """A row of the gradient of [gate | up]."""
    row = tl.program_id(0).to(tl.int64)
    for first in range(0, inner, BLOCK):
        at = first + tl.arange(0, BLOCK)
        is_inside = at < inner
        gate = tl.load(gate_up + row * 2 * inner + at, mask=is_inside, other=0.0).to(tl.float32)
        up = tl.load(gate_up + row * 2 * inner + inner + at, mask=is_inside, other=0.0).to(tl.float32)
        grad = tl.load(inner_grad + row * inner + at, mask=is_inside, other=0.0).to(tl.float32)
        sigmoid = 1.0 / (1.0 + tl.exp(-gate))
        gate_grad = grad * up * sigmoid * (1.0 + gate * (1.0 - sigmoid))
        tl.store(made + row * 2 * inner + at, gate_grad.to(made.dtype.element_ty), mask=is_inside)
        tl.store(made + row * 2 * inner + inner + at, (grad * gate * sigmoid).to(made.dtype.element_ty), mask=is_inside)


@triton.jit
def scale_rows(y_grad, results, row_output, row_weight, made, weight_grad, width, BLOCK: tl.constexpr):  # noqa: N803
    """A row of the results' gradient, and the gradient of its weight."""
    row = tl.program_id(0).to(tl.int64)
    output = tl.load(row_output + row).to(tl.int64)
    weight = tl.load(row_weight + row)
    total = tl.zeros((BLOCK,), dtype=tl.float32)
    for first in range(0, width, BLOCK):
        at = first + tl.arange(0, BLOCK)
        is_inside = at < width
        grad = tl.load(y_grad + output * width + at, mask=is_inside, other=0.0).to(tl.float32)
        total += grad * tl.load(results + row * width + at, mask=is_inside, other=0.0).to(tl.float32)
        tl.store(made + row * width + at, (grad * weight).to(made.dtype.element_ty), mask=is_inside)
    tl.store(weight_grad + row, tl.sum(total))


@triton.jit
def sum_rows(rows, out_first, out_row, weights, made, width, IS_WEIGHTED: tl.constexpr, BLOCK: tl.constexpr):  # noqa: N803
    """An output's rows, summed in their order."""
    output = tl.program_id(0).to(tl.int64)
    at = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    is_inside = at < width
    total = tl.zeros((BLOCK,), dtype=tl.float32)
    for entry in range(tl.load(out_first + output), tl.load(out_first + output + 1)):
        row = tl.load(out_row + entry).to(tl.int64)
        value = tl.load(rows + row * width + at, mask=is_inside & (row >= 0), other=0.0).to(tl.float32)
        if IS_WEIGHTED:
            value = value * tl.load(weights + entry)
        total += value
    tl.store(made + output * width + at, total.to(made.dtype.element_ty), mask=is_inside)
