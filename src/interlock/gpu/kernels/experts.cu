// The experts of a Mixture-of-Experts layer in one persistent launch on Hopper (sm_90a): gate and up with SwiGLU, down,
// and the weighted sum of every token's results, tile by tile in the order of a list.
//
// A tile is up to 320 tokens of an expert by 256 rows of its weights. Two blocks share it, each with half of the
// tokens: each loads half of the weights for both, since under a limit of power what leaves the L2 cache costs time
// (each block for itself is 1 to 22 % slower from 256 tokens per expert on, 8 % faster at 64; four find room on fewer
// multiprocessors and wait longer for each other). In a block one warpgroup loads: weights and the rows of down by the
// tensor copy engine, tokens gathered row by row, which keeps shared memory busier (without them gate and up would take
// 12 % less). Two multiply 128 rows of weights each with all of the block's tokens. Tokens are the columns of the tensor
// cores' products, which come in any multiple of eight, so little is multiplied for nothing; but where a block has 128
// of them they are its rows, 64 of each warpgroup: 20 instead of 24 kB of shared memory are read for a depth of 16.
// Gate and up rows lie sixteen by sixteen in a tile, so that both halves of a SwiGLU meet in one thread.
//
// Kinds of items: 0 gate and up, 1 down, 2 sum, 3 nothing. An item waits only for items before it in the list or for a
// copy that raises `arrived`; every block is resident, so the list always ends. Counters are zero at launch.

typedef unsigned char u8;
typedef unsigned int u32;
typedef unsigned long long u64;

namespace {

constexpr int ROWS = 256;        // of weights in a tile
constexpr int DEPTH = 64;        // of a step: 128 bytes, what the swizzle of shared memory is made for
constexpr int STAGES = 4;
constexpr int TOKENS = 160;      // most of a block's half of a tile
constexpr int GRAIN = 16;        // of tokens that are multiplied
constexpr int WEIGHT_BYTES = ROWS * DEPTH * 2;
constexpr int TOKEN_BYTES = TOKENS * DEPTH * 2;
constexpr int BLOCKS = 2;        // that share a tile: a cluster
constexpr int WARPS = 8 * BLOCKS;  // that multiply, in both
constexpr int SLOTS = 8;         // items handed over; more than STAGES + 1

template <int V>
struct Int {
  static constexpr int value = V;
};

struct Item {
  int kind, column, row, end, tile, chunk, expert, unused;
};

struct Flags {
  int* given_up;
  int *arrived, *finished, *left;  // per chunk: rows are here, down is done, sums are done
  int* done;                       // per tile: gate and up are done
  u64 limit_ns;
};

__device__ __forceinline__ u32 shared_address(const void* p) { return (u32)__cvta_generic_to_shared(p); }

__device__ __forceinline__ void wait_barrier(u32 barrier, int parity) {
  asm volatile(
      "{\n.reg .pred p;\nAGAIN: mbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1;\n@p bra DONE;\nbra AGAIN;\nDONE:\n}" ::"r"(barrier),
      "r"(parity)
      : "memory");
}
__device__ __forceinline__ bool is_over(u32 barrier, int parity) {
  int is;
  asm volatile("{\n.reg .pred p;\nmbarrier.test_wait.parity.shared::cta.b64 p, [%1], %2;\nselp.s32 %0, 1, 0, p;\n}" : "=r"(is) : "r"(barrier), "r"(parity) : "memory");
  return is;
}
__device__ __forceinline__ void arrive(u32 barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}
// At the barrier of the same place in one of the blocks.
__device__ __forceinline__ void arrive_at(u32 barrier, int block) {
  asm volatile("{\n.reg .b32 a;\nmapa.shared::cluster.u32 a, %0, %1;\nmbarrier.arrive.shared::cluster.b64 _, [a];\n}" ::"r"(barrier), "r"(block)
               : "memory");
}
__device__ __forceinline__ void blocks_meet() {
  asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;" ::: "memory");
}

__device__ __forceinline__ u64 now_ns() {
  u64 t;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(t));
  return t;
}
__device__ __forceinline__ int acquire(const int* p) {
  int v;
  asm volatile("ld.acquire.gpu.global.s32 %0, [%1];" : "=r"(v) : "l"(p) : "memory");
  return v;
}
__device__ __forceinline__ int acquire_outside(const int* p) {
  int v;
  asm volatile("ld.acquire.sys.global.s32 %0, [%1];" : "=r"(v) : "l"(p) : "memory");
  return v;
}
__device__ __forceinline__ void release_add(int* p) {
  asm volatile("red.release.gpu.global.add.s32 [%0], 1;" ::"l"(p) : "memory");
}
__device__ __forceinline__ void release_add_outside(int* p) {
  asm volatile("red.release.sys.global.add.s32 [%0], 1;" ::"l"(p) : "memory");
}

// Until a counter has come to `least`; gives up for the whole launch after the time limit.
template <int (*READ)(const int*)>
__device__ __forceinline__ void await(const int* counter, int least, const Flags& flags) {
  if (READ(counter) >= least) return;
  const u64 start = now_ns();
  for (int spins = 0; READ(counter) < least; spins++) {
    __nanosleep(100);
    if (spins % 256 == 255 && (acquire(flags.given_up) || now_ns() - start > flags.limit_ns)) {
      atomicExch(flags.given_up, 1);
      return;
    }
  }
}

// Shared-memory operand of wgmma: rows of 128 bytes, 128-byte swizzle, eight rows to a pattern; every `step`-th pattern.
__device__ __forceinline__ u64 operand(u32 address, u64 step) {
  return (u64)((address & 0x3FFFF) >> 4) | (1ull << 16) | (step * 64 << 32) | (1ull << 62);
}
__device__ __forceinline__ u32 pack(float low, float high) {
  u32 v;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(v) : "f"(high), "f"(low));
  return v;
}
__device__ __forceinline__ float low_of(u32 v) { return __uint_as_float(v << 16); }
__device__ __forceinline__ float high_of(u32 v) { return __uint_as_float(v & 0xFFFF0000u); }
__device__ __forceinline__ float swiglu(float gate, float up) { return __fdividef(gate, 1.f + __expf(-gate)) * up; }

__device__ __forceinline__ void store_transposed(u32 address, u32 a, u32 b, u32 c, u32 d) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(address), "r"(a), "r"(b), "r"(c), "r"(d)
               : "memory");
}
__device__ __forceinline__ void store_matrices(u32 address, u32 a, u32 b, u32 c, u32 d) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(address), "r"(a), "r"(b), "r"(c), "r"(d) : "memory");
}
__device__ __forceinline__ uint4 load_shared(u32 address) {
  uint4 v;
  asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];" : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "r"(address) : "memory");
  return v;
}

}  // namespace

extern "C" __global__ void __launch_bounds__(384, 1) experts(
    const u8* __restrict__ maps,        // tensor maps of both weights and, by 16 and by 128, of inner_rows
    const u8* tokens,                   // [*, hidden]
    const int* token_of,                // [rows] row of tokens, rows sorted by expert
    u8* inner_rows,                     // [rows, inner] after SwiGLU
    u8* gate_up,                        // [rows, 2 inner] before it, or null
    u8* results,                        // [rows, hidden] after down; null where sums are atomic
    u8* outputs,                        // [outputs, hidden]
    const int* out_first, const int* out_row, const float* out_weight,  // rows of each output, in order
    const int* row_output, const float* row_weight,                     // output and weight of each row, for atomic sums
    const int4* items, int num_items,   // [num_items, 2]
    const int* finished_of, int num_chunks,  // items of down in each chunk
    int hidden, int inner, int* counters, u64 limit_ns) {
  extern __shared__ u8 raw[];
  __shared__ __align__(8) u64 barriers[2 * STAGES];
  __shared__ __align__(16) Item slots[SLOTS];
  const u32 base = (shared_address(raw) + 1023) & ~1023u;
  const u32 weights_at = base, tokens_at = base + STAGES * WEIGHT_BYTES;
  const u32 full = shared_address(barriers), empty = shared_address(barriers + STAGES);
  const int group = threadIdx.x >> 7, t = threadIdx.x & 127;
  const int tiles_up = inner / (ROWS / 2);
  const int block = blockIdx.x % BLOCKS;  // of those that share tiles
  Flags flags{counters, counters + 1, counters + 1 + num_chunks, counters + 1 + 2 * num_chunks, counters + 1 + 3 * num_chunks, limit_ns};
  if (threadIdx.x == 0) {
    for (int i = 0; i < STAGES; i++) {
      asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(full + 8 * i), "r"(129));
      asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(empty + 8 * i), "r"(WARPS));
    }
    asm volatile("fence.mbarrier_init.release.cluster;");
    asm volatile("fence.proxy.async.shared::cta;");
  }
  blocks_meet();
  int stage = 0, phase = 0;
  auto advance = [&]() {
    if (++stage == STAGES) stage = 0, phase ^= 1;
  };

  if (group == 0) {  // loads
    asm volatile("setmaxnreg.dec.sync.aligned.u32 72;");
    if (t == 0)
      for (int i = 0; i < 4; i++) asm volatile("fence.proxy.tensormap::generic.acquire.gpu [%0], 128;" ::"l"(maps + 128 * i) : "memory");
    const int chunk = t & 7, r0 = t >> 3;
    const u32 to = tokens_at + r0 * 128 + ((chunk ^ (r0 & 7)) << 4);
    int slot = 0;
    auto hand_over = [&](const Item& item) {  // before the arrival at the item's first stage
      if (t == 0) slots[slot] = item;
      slot = (slot + 1) % SLOTS;
    };
    auto one_empty_stage = [&](const Item& item) {
      wait_barrier(empty + 8 * stage, phase ^ 1);
      hand_over(item);
      if (t == 0) arrive(full + 8 * stage);
      arrive(full + 8 * stage);
      advance();
    };
    // A pair takes one item of each round, another place in each: tiles of unlike length come by turns.
    const int pairs = gridDim.x / BLOCKS;
    auto item_of = [&](int round) { return round * pairs + (blockIdx.x / BLOCKS + round) % pairs; };
    auto fetch = [&](int index) {
      const int4 none{3, 0, 0, 0}, low = index < num_items ? items[2 * index] : none, high = index < num_items ? items[2 * index + 1] : none;
      return Item{low.x, low.y, low.z, low.w, high.x, high.y, high.z, 0};
    };
    Item next = fetch(item_of(0));
    for (int round = 0; round * pairs < num_items; round++) {
      Item item = next;
      next = fetch(item_of(round + 1));  // ahead of time
      if (item.kind >= 2) {
        const int first = item.row, count = item.end - first;
        item.row = first + count * block / BLOCKS;
        item.end = first + count * (block + 1) / BLOCKS;
        if (item.kind == 2) {
          if ((t & 31) == 0)
            for (int i = 0; i <= item.chunk; i++) await<acquire>(flags.finished + i, finished_of[i] * WARPS, flags);
          __syncwarp();
          one_empty_stage(item);
        }
        continue;
      }
      const int part = (item.end - item.row + BLOCKS * GRAIN - 1) / (BLOCKS * GRAIN) * GRAIN;
      item.row += block * part;
      item.end = min(item.row + part, item.end);
      const int depth = item.kind ? inner : hidden;
      const int boxes = max(0, (item.end - item.row + GRAIN - 1) / GRAIN);  // of rows that lie side by side
      u32 at[TOKENS / 16];
      if ((t & 31) == 0) {
        if (item.kind == 1) {
          await<acquire>(flags.done + item.tile, tiles_up * WARPS, flags);
          asm volatile("fence.proxy.async.global;" ::: "memory");  // others stored what the copy engine reads
        } else if (item.chunk >= 0) await<acquire_outside>(flags.arrived + item.chunk, 1, flags);
      }
      __syncwarp();
#pragma unroll
      for (int p = 0; p < TOKENS / 16; p++) {
        const int row = item.row + r0 + 16 * p;
        at[p] = item.kind == 0 && row < item.end ? (u32)token_of[row] * (u32)(depth / 8) + chunk : ~0u;
      }
      for (int k = 0; k < depth / DEPTH; k++) {
        wait_barrier(empty + 8 * stage, phase ^ 1);
        if (k == 0) hand_over(item);
        if (t == 0) {
          asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(full + 8 * stage),
                       "r"(WEIGHT_BYTES + (item.kind ? boxes * GRAIN * DEPTH * 2 : 0))
                       : "memory");
          const u32 half_at = weights_at + stage * WEIGHT_BYTES + block * (WEIGHT_BYTES / 2), both = 3;
          if (item.kind) {
            const int each = boxes == 8 ? 8 : 1;  // 128 rows in one go
            for (int p = 0; p < boxes; p += each)
              asm volatile(
                  "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];" ::"r"(
                      tokens_at + stage * TOKEN_BYTES + p * GRAIN * DEPTH * 2),
                  "l"(maps + (each == 8 ? 384 : 256)), "r"(k * DEPTH), "r"(item.row + p * GRAIN), "r"(full + 8 * stage)
                  : "memory");
            asm volatile(
                "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1, {%2, %3}], [%4], "
                "%5;" ::"r"(half_at),
                "l"(maps + 128), "r"(k * DEPTH), "r"(item.expert * hidden + item.column * ROWS + block * (ROWS / 2)), "r"(full + 8 * stage),
                "h"((unsigned short)both)
                : "memory");
          } else
            asm volatile(
                "cp.async.bulk.tensor.5d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1, {%2, %3, %3, %4, "
                "%5}], [%6], %7;" ::"r"(half_at),
                "l"(maps), "r"(k * DEPTH), "r"(0), "r"(item.column * 8 + block * 4), "r"(item.expert), "r"(full + 8 * stage),
                "h"((unsigned short)both)
                : "memory");
        }
#pragma unroll
        for (int p = 0; p < TOKENS / 16; p++)
          if (at[p] != ~0u)
            asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16;" ::"r"(to + stage * TOKEN_BYTES + p * 2048),
                         "l"(tokens + (size_t)(at[p] + k * 8) * 16)
                         : "memory");
        asm volatile("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];" ::"r"(full + 8 * stage) : "memory");
        advance();
      }
    }
    one_empty_stage(Item{-1, 0, 0, 0, 0, 0, 0, 0});
    asm volatile("cp.async.wait_all;");
  } else {  // multiplies and sums
    asm volatile("setmaxnreg.inc.sync.aligned.u32 216;");
    const int half = group - 1, warp = t >> 5, lane = t & 31;
    const u32 staging = tokens_at + STAGES * TOKEN_BYTES + (half * 4 + warp) * 1280;  // 16 tokens, 64 bytes and room
    auto free_stage = [&](int which) {  // for the loads of both blocks
      if (lane < BLOCKS) arrive_at(empty + 8 * which, lane);
    };

    int* pending = nullptr;  // counter of what this warp has written, told once the stores are through
    auto tell = [&]() {
      if (pending && lane == 0) release_add(pending);
      pending = nullptr;
    };

    auto nothing = [&](const Item& item) {  // no tokens for this block
      for (int k = 0; k < (item.kind ? inner : hidden) / DEPTH; k++) {
        if (k) wait_barrier(full + 8 * stage, phase);
        free_stage(stage);
        advance();
      }
      tell();
    };

    auto add_weighted = [&](int row, int channel, uint4 v) {  // eight channels of a row's result to its output
      const float w = row_weight[row];
      asm volatile("red.relaxed.gpu.global.add.noftz.v4.bf16x2 [%0], {%1, %2, %3, %4};" ::"l"(
                       outputs + ((size_t)row_output[row] * hidden + channel) * 2),
                   "r"(pack(low_of(v.x) * w, high_of(v.x) * w)), "r"(pack(low_of(v.y) * w, high_of(v.y) * w)),
                   "r"(pack(low_of(v.z) * w, high_of(v.z) * w)), "r"(pack(low_of(v.w) * w, high_of(v.w) * w))
                   : "memory");
    };

    // Multiplies stage by stage; a stage is free when the products of the next are under way.
    auto every_step = [&](const Item& item, auto multiply) {
      const int steps = (item.kind ? inner : hidden) / DEPTH;
      int last = 0;
#pragma unroll 1
      for (int k = 0; k < steps; k++) {
        if (k) wait_barrier(full + 8 * stage, phase);
        asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
        asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
        multiply();
        asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
        if (k) {
          asm volatile("wgmma.wait_group.sync.aligned 1;" ::: "memory");
          free_stage(last);
        }
        if (k == 2) tell();
        last = stage;
        advance();
      }
      asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
      free_stage(last);
      if (steps < 3) tell();
    };

    auto product = [&](auto width, const Item& item) {
      constexpr int N = decltype(width)::value;  // tokens, with some for nothing
      const int count = item.end - item.row;
      float d[2][N / 2] = {};  // of each 16 rows of weights eight and eight, by N tokens
      every_step(item, [&] {
        const u64 a = operand(weights_at + stage * WEIGHT_BYTES + half * (WEIGHT_BYTES / 2), 2), b = operand(tokens_at + stage * TOKEN_BYTES, 1);
#pragma unroll
        for (int i = 0; i < DEPTH / 16; i++) {
          wgmma(d[0], a + 2 * i, b + 2 * i);
          wgmma(d[1], a + 64 + 2 * i, b + 2 * i);
        }
      });
#pragma unroll
      for (int i = 0; i < N; i++) asm volatile("" : "+f"(d[i / (N / 2)][i % (N / 2)])::"memory");

      // Sixteen tokens leave at a time. value(m, j, h) packs tokens 2 and 2 of column j of eight, for a row of weights.
      const int lane_row = lane & 7, lane_matrix = lane >> 3;
      auto leave_16 = [&](auto value, u8* out, size_t stride) {  // 16 channels of a warp
#pragma unroll
        for (int j = 0; j < N / 8; j += 2) {
          __syncwarp();
          store_transposed(staging + ((lane_matrix >> 1) * 8 + lane_row) * 48 + (lane_matrix & 1) * 16, value(0, j), value(1, j), value(0, j + 1),
                           value(1, j + 1));
          __syncwarp();
          const int token = 8 * j + (lane >> 1);
          if (token < count) *(uint4*)(out + (item.row + token) * stride + (lane & 1) * 16) = load_shared(staging + (lane >> 1) * 48 + (lane & 1) * 16);
        }
      };
      if (item.kind == 0) {
        const int channel = item.column * (ROWS / 2) + half * 64 + warp * 16;
        leave_16([&](int m, int j) { return pack(swiglu(d[m][4 * j], d[m][4 * j + 2]), swiglu(d[m][4 * j + 1], d[m][4 * j + 3])); },
                 inner_rows + channel * 2, (size_t)inner * 2);
        if (gate_up) {
          leave_16([&](int m, int j) { return pack(d[m][4 * j], d[m][4 * j + 1]); }, gate_up + channel * 2, (size_t)inner * 4);
          leave_16([&](int m, int j) { return pack(d[m][4 * j + 2], d[m][4 * j + 3]); }, gate_up + (inner + channel) * 2, (size_t)inner * 4);
        }
      } else {
        const int channel = item.column * ROWS + half * 128 + warp * 32 + (lane & 3) * 8;
        auto put = [&](int j) {
          store_transposed(staging + (j & 1) * 640 + lane_row * 80 + lane_matrix * 16, pack(d[0][4 * j], d[0][4 * j + 1]),
                           pack(d[1][4 * j], d[1][4 * j + 1]), pack(d[0][4 * j + 2], d[0][4 * j + 3]), pack(d[1][4 * j + 2], d[1][4 * j + 3]));
        };
        __syncwarp();
        put(0);
#pragma unroll
        for (int j = 0; j < N / 8; j++) {
          __syncwarp();
          const uint4 v = load_shared(staging + (j & 1) * 640 + (lane >> 2) * 80 + (lane & 3) * 16);
          if (j + 1 < N / 8) put(j + 1);
          const int token = 8 * j + (lane >> 2), row = item.row + token;
          if (token >= count) continue;
          if (results) {
            *(uint4*)(results + ((size_t)row * hidden + channel) * 2) = v;
          } else {
            add_weighted(row, channel, v);
          }
        }
      }
    };

    auto product_of_rows = [&](const Item& item) {
      const int first = half * 64 + warp * 16, count = item.end - item.row - first;
      float d[ROWS / 2] = {};
      every_step(item, [&] {
        const u64 a = operand(tokens_at + stage * TOKEN_BYTES + half * 64 * 128, 1), b = operand(weights_at + stage * WEIGHT_BYTES, 1);
#pragma unroll
        for (int i = 0; i < DEPTH / 16; i++) wgmma(d, a + 2 * i, b + 2 * i);
      });
#pragma unroll
      for (int i = 0; i < ROWS / 2; i++) asm volatile("" : "+f"(d[i])::"memory");

      // value(q, e, h) packs two channels of eight e of sixteen q, of the first or last eight tokens.
      auto leave = [&](auto sixteens, auto value, auto put) {
#pragma unroll
        for (int q = 0; q < decltype(sixteens)::value; q += 2) {
          __syncwarp();
#pragma unroll
          for (int i = 0; i < 2; i++)
            store_matrices(staging + (lane & 15) * 80 + i * 32 + (lane >> 4) * 16, value(q + i, 0, 0), value(q + i, 0, 1), value(q + i, 1, 0),
                           value(q + i, 1, 1));
          __syncwarp();
#pragma unroll
          for (int i = 0; i < 2; i++) {
            const int token = i * 8 + (lane >> 2);
            const uint4 v = load_shared(staging + token * 80 + (lane & 3) * 16);
            if (token < count) put(item.row + first + token, q * 16 + (lane & 3) * 8, v);
          }
        }
      };
      auto to = [](u8* out, size_t stride) {
        return [=](int row, int channel, uint4 v) { *(uint4*)(out + row * stride + channel * 2) = v; };
      };
      if (item.kind == 0) {
        const int channel = item.column * (ROWS / 2);
        auto made = [&](int q, int e, int h) {
          const int gate = 4 * (4 * q + e) + 2 * h, up = gate + 8;
          return pack(swiglu(d[gate], d[up]), swiglu(d[gate + 1], d[up + 1]));
        };
        leave(Int<ROWS / 32>{}, made, to(inner_rows + channel * 2, (size_t)inner * 2));
        if (gate_up) {
          auto raw = [&](int offset) {
            return [&d, offset](int q, int e, int h) {
              const int i = 4 * (4 * q + e) + 2 * h + offset;
              return pack(d[i], d[i + 1]);
            };
          };
          leave(Int<ROWS / 32>{}, raw(0), to(gate_up + channel * 2, (size_t)inner * 4));
          leave(Int<ROWS / 32>{}, raw(8), to(gate_up + (inner + channel) * 2, (size_t)inner * 4));
        }
      } else {
        const int channel = item.column * ROWS;
        auto plain = [&](int q, int e, int h) {
          const int i = 4 * (2 * q + e) + 2 * h;
          return pack(d[i], d[i + 1]);
        };
        if (results) {
          leave(Int<ROWS / 16>{}, plain, to(results + channel * 2, (size_t)hidden * 2));
        } else {
          leave(Int<ROWS / 16>{}, plain, [&](int row, int at, uint4 v) { add_weighted(row, channel + at, v); });
        }
      }
    };

    auto sum = [&](const Item& item) {  // a warp to a token
      for (int output = item.row + half * 4 + warp; output < item.end; output += 8) {
        const int first = out_first[output], last = out_first[output + 1];
        for (int column = lane * 8; column < hidden; column += 512) {  // and 256 to the right: hidden is a multiple of 256
          const bool is_both = column + 256 < hidden;
          float s[2][8] = {};
          for (int i = first; i < last; i += 8) {  // sixteen loads under way
            uint4 v[2][8];
            float w[8];
#pragma unroll
            for (int u = 0; u < 8; u++) {
              const int row = i + u < last ? out_row[i + u] : -1;
              const uint4* at = (const uint4*)(results + ((size_t)row * hidden + column) * 2);
              w[u] = row < 0 ? 0.f : out_weight[i + u];
              v[0][u] = row < 0 ? uint4{} : __ldcg(at);
              v[1][u] = row < 0 || !is_both ? uint4{} : __ldcg(at + 32);
            }
#pragma unroll
            for (int b = 0; b < 2; b++)
#pragma unroll
              for (int u = 0; u < 8; u++) {
                s[b][0] += w[u] * low_of(v[b][u].x), s[b][1] += w[u] * high_of(v[b][u].x);
                s[b][2] += w[u] * low_of(v[b][u].y), s[b][3] += w[u] * high_of(v[b][u].y);
                s[b][4] += w[u] * low_of(v[b][u].z), s[b][5] += w[u] * high_of(v[b][u].z);
                s[b][6] += w[u] * low_of(v[b][u].w), s[b][7] += w[u] * high_of(v[b][u].w);
              }
          }
#pragma unroll
          for (int b = 0; b < 2; b++)
            if (b == 0 || is_both)
              *(uint4*)(outputs + ((size_t)output * hidden + column + 256 * b) * 2) =
                  make_uint4(pack(s[b][0], s[b][1]), pack(s[b][2], s[b][3]), pack(s[b][4], s[b][5]), pack(s[b][6], s[b][7]));
        }
      }
      __syncwarp();
      if (lane == 0) release_add_outside(flags.left + item.chunk);
    };

    for (int slot = 0;; slot = (slot + 1) % SLOTS) {
      __syncwarp();
      if (!is_over(full + 8 * stage, phase)) tell();  // before any wait: what is loaded next may depend on it
      wait_barrier(full + 8 * stage, phase);
      const Item item = slots[slot];
      if (item.kind < 0) {
        tell();
        break;
      }
      if (item.kind == 2) {
        __syncwarp();
        free_stage(stage);
        advance();
        tell();
        sum(item);
        continue;
      }
      switch ((item.end - item.row + GRAIN - 1) / GRAIN) {
        case 1: product(Int<GRAIN>{}, item); break;
        case 2: product(Int<2 * GRAIN>{}, item); break;
        case 3: product(Int<3 * GRAIN>{}, item); break;
        case 4: product(Int<4 * GRAIN>{}, item); break;
        case 5: product(Int<5 * GRAIN>{}, item); break;
        case 6: product(Int<6 * GRAIN>{}, item); break;
        case 7: product(Int<7 * GRAIN>{}, item); break;
        case 8: product_of_rows(item); break;
        case 9: product(Int<9 * GRAIN>{}, item); break;
        case 10: product(Int<10 * GRAIN>{}, item); break;
        default: nothing(item);
      }
      pending = item.kind ? flags.finished + item.chunk : flags.done + item.tile;
    }
  }
  blocks_meet();  // none leaves while another may still load into it
}
