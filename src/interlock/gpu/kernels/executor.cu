// Runs a work list: copies and sums between the buffers of ranks, ordered by flags in device memory. One launch.
//
// Warps take chunks in the order of the list, whoever is free the next one; a warp waits for the flags its chunk names, moves
// the bytes, then raises its flags. No chunk waits for a later one, and all warps are resident, so some chunk can always go on.
// Flags only grow: in launch `epoch` a flag is up once it has counted `needed` signals for each launch so far, so that a
// list is launched again without resetting anything. Counts wrap around and are compared as differences.
//
// Compiled with ELEMENT (0 f32, 1 bf16, 2 f16, 3 i32), OPERATION (0 sum, 1 largest, 2 least) and SCOPE ("gpu" where all
// ranks are one process, "sys" between processes). No headers: NVRTC alone compiles it.

typedef unsigned char u8;
typedef unsigned int u32;
typedef unsigned long long u64;

struct Chunk {
  long long source, target;  // first byte in their spaces
  int bytes;
  int first_wait, end_wait;  // in `waits`
  int signal;                // flag of this rank to raise; -1: none
  int arrival;               // flag of `arrival_rank` to raise; -1: none
  short rank, arrival_rank;
  short source_space, target_space;
  int kind;  // of Kind
};
enum Kind { kNothing = 0, kCopy = 1, kCombine = 2, kZero = 3 };

struct Wait {
  int flag;
  u32 needed;  // signals per launch
};

struct Stuck {
  u32 chunk;  // 1 + the first that gave up; 0: none
  u32 flag, seen, wanted;
};

__device__ __forceinline__ u32 load_acquire(const u32* flag) {
  u32 value;
  asm volatile("ld.acquire." SCOPE ".global.u32 %0,[%1];" : "=r"(value) : "l"(flag) : "memory");
  return value;
}
__device__ __forceinline__ void add_release(u32* flag) {
  asm volatile("red.release." SCOPE ".global.add.u32 [%0],1;" ::"l"(flag) : "memory");
}
__device__ __forceinline__ u64 now_ns() {
  u64 value;
  asm volatile("mov.u64 %0,%globaltimer;" : "=l"(value));
  return value;
}
__device__ __forceinline__ uint4 load16(const uint4* p) {
  uint4 v;
  asm volatile("ld.global.L1::no_allocate.v4.u32 {%0,%1,%2,%3},[%4];" : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "l"(p));
  return v;
}
__device__ __forceinline__ void store16(uint4* p, uint4 v) {
  asm volatile("st.global.v4.u32 [%0],{%1,%2,%3,%4};" ::"l"(p), "r"(v.x), "r"(v.y), "r"(v.z), "r"(v.w) : "memory");
}

// The 16 bytes that begin `shift` bytes into the 32 of a and b.
__device__ __forceinline__ uint4 shifted(uint4 a, uint4 b, int shift) {
  u32 w0 = a.x, w1 = a.y, w2 = a.z, w3 = a.w, w4 = b.x, w5 = b.y, w6 = b.z, w7 = b.w;
  if (shift & 8) { w0 = w2; w1 = w3; w2 = w4; w3 = w5; w4 = w6; w5 = w7; }
  if (shift & 4) { w0 = w1; w1 = w2; w2 = w3; w3 = w4; w4 = w5; }
  const int bits = (shift & 3) * 8;
  return make_uint4(__funnelshift_r(w0, w1, bits), __funnelshift_r(w1, w2, bits), __funnelshift_r(w2, w3, bits),
                    __funnelshift_r(w3, w4, bits));
}

// Arithmetic of two elements, 16-bit ones through float and rounded to nearest even, as torch does it.
__device__ __forceinline__ float picked(float a, float b) {
#if OPERATION == 0
  return a + b;
#elif OPERATION == 1
  return a != a ? a : (b > a || b != b ? b : a);
#else
  return a != a ? a : (b < a || b != b ? b : a);
#endif
}
#if ELEMENT == 0
typedef u32 Element;
__device__ __forceinline__ u32 combined(u32 a, u32 b) { return __float_as_uint(picked(__uint_as_float(a), __uint_as_float(b))); }
#elif ELEMENT == 3
typedef u32 Element;
__device__ __forceinline__ u32 combined(u32 a, u32 b) {
#if OPERATION == 0
  return a + b;
#elif OPERATION == 1
  return (int)a > (int)b ? a : b;
#else
  return (int)a < (int)b ? a : b;
#endif
}
#else
typedef unsigned short Element;
__device__ __forceinline__ float widened(Element bits) {
#if ELEMENT == 1
  return __uint_as_float((u32)bits << 16);
#else
  float value;
  asm("cvt.f32.f16 %0,%1;" : "=f"(value) : "h"(bits));
  return value;
#endif
}
__device__ __forceinline__ Element narrowed(float value) {
#if ELEMENT == 1
  const u32 bits = __float_as_uint(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return (Element)((bits >> 16) | 0x40u);  // stays not-a-number
  return (Element)((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
#else
  Element bits;
  asm("cvt.rn.f16.f32 %0,%1;" : "=h"(bits) : "f"(value));
  return bits;
#endif
}
__device__ __forceinline__ Element combined(Element a, Element b) { return narrowed(picked(widened(a), widened(b))); }
__device__ __forceinline__ u32 combined(u32 a, u32 b) {
  return (u32)combined((Element)a, (Element)b) | (u32)combined((Element)(a >> 16), (Element)(b >> 16)) << 16;
}
#endif

struct Copying {
  static __device__ __forceinline__ void put(uint4* target, uint4 v) { store16(target, v); }
  static __device__ __forceinline__ void edge(u8* target, const u8* source, int bytes, int lane) {
    if (lane < bytes) target[lane] = source[lane];
  }
};
struct Combining {
  static __device__ __forceinline__ void put(uint4* target, uint4 v) {
    const uint4 t = *target;
    store16(target, make_uint4(combined(t.x, v.x), combined(t.y, v.y), combined(t.z, v.z), combined(t.w, v.w)));
  }
  static __device__ __forceinline__ void edge(u8* target, const u8* source, int bytes, int lane) {
    if (lane * (int)sizeof(Element) < bytes) {
      Element* t = (Element*)target + lane;
      *t = combined(*t, ((const Element*)source)[lane]);
    }
  }
};

// Up to 15 bytes at either end one by one, the rest 16 at a time with `ROWS` loads of a lane in flight.
template <typename Doing, int ROWS>
__device__ __forceinline__ void transfer(u8* target, const u8* source, int bytes, int lane) {
  int head = (int)(-(u64)target & 15);
  if (head > bytes) head = bytes;
  Doing::edge(target, source, head, lane);
  target += head; source += head; bytes -= head;
  const int vectors = bytes >> 4, shift = (int)((u64)source & 15);
  uint4* t = (uint4*)target;
  const uint4* s = (const uint4*)(source - shift);
  int i = lane;
  if (shift == 0) {
    for (; i + 32 * (ROWS - 1) < vectors; i += 32 * ROWS) {
      uint4 v[ROWS];
#pragma unroll
      for (int r = 0; r < ROWS; r++) v[r] = load16(s + i + 32 * r);
#pragma unroll
      for (int r = 0; r < ROWS; r++) Doing::put(t + i + 32 * r, v[r]);
    }
    for (; i < vectors; i += 32) Doing::put(t + i, load16(s + i));
  } else {
    // A lane's next 16 bytes are what the lane after it has loaded; the last lane loads its own.
    for (; i - lane + 32 * ROWS <= vectors; i += 32 * ROWS) {
      uint4 v[ROWS], beyond[ROWS];
#pragma unroll
      for (int r = 0; r < ROWS; r++) {
        v[r] = load16(s + i + 32 * r);
        if (lane == 31) beyond[r] = load16(s + i + 32 * r + 1);
      }
#pragma unroll
      for (int r = 0; r < ROWS; r++) {
        uint4 next = make_uint4(__shfl_down_sync(~0u, v[r].x, 1), __shfl_down_sync(~0u, v[r].y, 1),
                                __shfl_down_sync(~0u, v[r].z, 1), __shfl_down_sync(~0u, v[r].w, 1));
        if (lane == 31) next = beyond[r];
        Doing::put(t + i + 32 * r, shifted(v[r], next, shift));
      }
    }
    for (; i < vectors; i += 32) Doing::put(t + i, shifted(__ldcg(s + i), __ldcg(s + i + 1), shift));
  }
  const int done = vectors << 4;
  Doing::edge(target + done, source + done, bytes - done, lane);
}

// False once anybody gave up, and for whoever waits longer than the limit, who leaves word about it for the host.
__device__ bool wait_for(const u32* flag, u32 wanted, u32 chunk, u32 name, u64 limit_ns, u32* has_given_up, Stuck* told) {
  if ((int)(load_acquire(flag) - wanted) >= 0) return true;
  const u64 start_ns = now_ns();
  for (u32 spins = 0;; spins++) {
    const u32 seen = load_acquire(flag);
    if ((int)(seen - wanted) >= 0) return true;
    if ((spins & 255) == 255) {
      if (*(volatile u32*)has_given_up) return false;
      if (now_ns() - start_ns > limit_ns) {
        if (atomicExch(has_given_up, 1u) == 0) *told = Stuck{chunk + 1, name, seen, wanted};
        return false;
      }
    }
  }
}

// Takes the next chunk. Each warp goes on until it gets one beyond the end, so that a launch takes a known number of times
// and the count need not be reset.
__device__ __forceinline__ u32 take_next(u32* taken, u32 taken_before, int lane) {
  u32 mine = 0;
  if (lane == 0) mine = atomicAdd(taken, 1u) - taken_before;
  return __shfl_sync(~0u, mine, 0);
}

extern "C" __global__ void __launch_bounds__(512, 1)
    run_work(const Chunk* __restrict__ chunks, u32 num_chunks, const Wait* __restrict__ waits, u8* const* __restrict__ spaces,
             u32* const* __restrict__ flags, u32 epoch, u32* taken, u64 limit_ns, u32* has_given_up, Stuck* told) {
  const int lane = threadIdx.x & 31;
  const u32 taken_before = (epoch - 1) * (num_chunks + gridDim.x * (blockDim.x >> 5));
  u32 c = take_next(taken, taken_before, lane);
  Chunk next;
  if (c < num_chunks) next = chunks[c];
  while (c < num_chunks) {
    const Chunk chunk = next;
    const u32 current = c;
    c = take_next(taken, taken_before, lane);  // its words arrive while this chunk is moved
    if (c < num_chunks) next = chunks[c];
    bool may_go = true;
    for (int w = chunk.first_wait + lane; w < chunk.end_wait && may_go; w += 32) {
      const Wait wait = waits[w];
      may_go = wait_for(flags[chunk.rank] + wait.flag, wait.needed * epoch, current, wait.flag, limit_ns, has_given_up, told);
    }
    if (!__all_sync(0xffffffffu, may_go)) return;
    if (chunk.kind != kNothing) {
      u8* target = spaces[chunk.target_space] + chunk.target;
      const u8* source = spaces[chunk.source_space] + chunk.source;
      if (chunk.kind == kCopy) transfer<Copying, 8>(target, source, chunk.bytes, lane);
      else if (chunk.kind == kCombine) transfer<Combining, 8>(target, source, chunk.bytes, lane);
      else for (int i = lane; i < chunk.bytes; i += 32) target[i] = 0;
    }
    __syncwarp();
    if (lane == 0) {
      if (chunk.signal >= 0) add_release(flags[chunk.rank] + chunk.signal);
      if (chunk.arrival >= 0) add_release(flags[chunk.arrival_rank] + chunk.arrival);
    }
  }
}
