// Warpgroup matrix multiply-accumulate: D[64 x N] (+)= A[64 x K] B[K x N] by four consecutive warps,
// asynchronously.
//
// Takes B, and A or not, as shared-memory descriptors; A otherwise in registers; D is `float d[N / 2]`,
// indexed by constants only and untouched between issue and the wait that covers it. A kernel names each
// instruction it uses:
//     TWILL_WGMMA_16(128, f16)           m64n128k16, fp16 (or bf16) operands, either operand K- or MN-major
//     TWILL_WGMMA_8(256, e4m3, e5m2)     m64n256k32, fp8 operands, K-major
//     TWILL_WGMMA_32(64)                 m64n64k8, tf32 operands, K-major
//     TWILL_WGMMA_HALF(64, 32)           m64n64k16, fp16 operands and accumulator: `uint32_t d[N / 4]`, N and N / 2
//     TWILL_WGMMA_INTEGER(64)            m64n64k32, signed 8-bit operands, K-major: `int32_t d[N / 2]`
// each of which defines overloads of twill::wgmma_<a>_<b>_n<N>, one per operand location of A.
// PTX ISA, "Asynchronous Warpgroup Level Matrix Multiply-Accumulate Operation".
#pragma once
#include <cstdint>

#include "arithmetic.cuh"
#include "wgmma_operands.cuh"

namespace twill {

// ---- ordering --------------------------------------------------------------------------------------------------

/// Orders earlier register accesses (D, and A from registers) before the wgmma that follow (wgmma.fence).
__device__ __forceinline__ void wgmma_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }

/// Closes the group of the wgmma issued since the last commit (wgmma.commit_group).
__device__ __forceinline__ void wgmma_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }

/// Waits until at most `Pending` committed groups are in flight (wgmma.wait_group).
template <int Pending>
__device__ __forceinline__ void wgmma_wait() {
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(Pending) : "memory");
}

/// Keeps the front end from moving accesses of `d` across this point: put one after the wait that completes
/// `d`. It becomes no instruction, so the assembler still orders independent arithmetic around a wait as it
/// sees fit.
template <int Count>
__device__ __forceinline__ void registers_fence(float (&d)[Count]) {
#pragma unroll
    for (int i = 0; i < Count; ++i) asm volatile("" : "+f"(d[i])::"memory");
}
template <int Count>
__device__ __forceinline__ void registers_fence(int32_t (&d)[Count]) {
#pragma unroll
    for (int i = 0; i < Count; ++i) asm volatile("" : "+r"(d[i])::"memory");
}
template <int Count>
__device__ __forceinline__ void registers_fence(uint32_t (&d)[Count][4]) {
#pragma unroll
    for (int i = 0; i < 4 * Count; ++i) asm volatile("" : "+r"(d[i / 4][i % 4])::"memory");
}

/// Part number `Part` of `Parts` equal ones of an accumulator: 64 of the rows that a warpgroup has.
template <int Part, int Parts, class Element, int Count>
__device__ __forceinline__ Element (&part(Element (&d)[Count]))[Count / Parts] {
    return *reinterpret_cast<Element(*)[Count / Parts]>(d + Part * (Count / Parts));
}
/// The same of one whose 16-bit elements are packed in pairs.
template <int Part, int Parts, int Count>
__device__ __forceinline__ uint32_t (&part(uint32_t (&d)[Count][4]))[4 * Count / Parts] {
    return *reinterpret_cast<uint32_t(*)[4 * Count / Parts]>(&d[Part * (Count / Parts)][0]);
}

// ---- scheduling fences: arithmetic between waits ----------------------------------------------------------------------------
// ptxas moves arithmetic across waits, issues and empty asm as its own model of latencies suggests. What it
// keeps are dependences: a value that a branch may have changed is not used before the branch.

/// False in every launch, which the compiler can not prove (%nsmid, the number of multiprocessors, is never
/// 0). Read once.
__device__ __forceinline__ bool opaque_false() {
    uint32_t multiprocessors;
    asm volatile("mov.u32 %0, %%nsmid;" : "=r"(multiprocessors));
    return multiprocessors == 0;
}

__device__ __forceinline__ void clobber(float& value) { asm volatile("mov.b32 %0, 0f00000000;" : "=f"(value)); }
__device__ __forceinline__ void clobber(uint32_t& value) { asm volatile("mov.b32 %0, 0;" : "=r"(value)); }

/// Of a type with fewer bits, or more: a truth value, a small integer, an address.
template <class Value>
__device__ __forceinline__ void clobber(Value& value) {
    static_assert(sizeof(Value) <= 8, "one number");
    uint64_t word;
    asm volatile("mov.b64 %0, 0;" : "=l"(word));
    __builtin_memcpy(&value, &word, sizeof(Value));
}

template <class Value, int Count>
__device__ __forceinline__ void clobber(Value (&values)[Count]) {
#pragma unroll
    for (int i = 0; i < Count; ++i) clobber(values[i]);
}

template <int Count>
__device__ __forceinline__ void clobber(Mask<Count>& mask) {
    clobber(mask.words);
}

/// Whatever uses one of `values` after this point is scheduled after it, and what it is computed from before
/// it. Costs one branch. `opaque` comes from opaque_false(); the nanosleep keeps the branch from becoming
/// predicated moves.
template <class... Values>
__device__ __forceinline__ void scheduling_fence(bool opaque, Values&... values) {
    if (__builtin_expect(opaque, false)) {
        asm volatile("nanosleep.u32 0;");
        (..., clobber(values));
    }
}

// ---- shared-memory operands --------------------------------------------------------------------------------------

/// Whether the contraction (K) or the row / column dimension (M of A, N of B) is contiguous in shared memory.
enum Major : int { K_MAJOR = 0, MN_MAJOR = 1 };

/// Descriptor of an operand in a swizzle of `Width` bytes (128, 64, 32), at `address` (PTX ISA, "Matrix
/// Descriptor Format").
///
/// Rows of Width bytes make atoms of 8 rows, aligned to their 8 * Width bytes and stacked along the rows.
/// K-major: rows run along M or N, `leading` is unused, and a k-step inside the atom advances `address` by
/// its bytes (32). MN-major: rows run along K, `leading` bytes lie between columns of atoms, and a k-step of
/// 16 advances `address` by 16 * Width.
template <uint32_t Width = 128>
__device__ __forceinline__ uint64_t matrix_descriptor(uint32_t address, uint32_t leading = 16) {
    constexpr uint64_t mode = Width == 128 ? 1 : Width == 64 ? 2 : 3;
    return mode << 62 | uint64_t(8 * Width >> 4) << 32 | uint64_t(leading >> 4) << 16 | ((address & 0x3ffff) >> 4);
}

/// 0, but neither the front end nor ptxas knows that it is the same in every iteration.
__device__ __forceinline__ uint32_t zero_in(int32_t iteration) {
    uint32_t zero;
    asm volatile("shr.u32 %0, %1, 31;" : "=r"(zero) : "r"(iteration));
    return zero;
}

/// The descriptor of the same operand `bytes` further on (a k-step, a channel's slot); `bytes` is a multiple
/// of 16. Added where it stands: the front end would keep one register pair for each step of an operand that
/// does not change in a loop.
__device__ __forceinline__ uint64_t descriptor_advance(uint64_t descriptor, uint32_t bytes) {
    uint64_t next;
    asm volatile("add.u64 %0, %1, %2;" : "=l"(next) : "l"(descriptor), "l"(uint64_t(bytes >> 4)));
    return next;
}

// ---- the instructions --------------------------------------------------------------------------------------------
// `accumulate` 0 ignores what D held. Operand numbers n0.. follow D's registers (TWILL_AFTER_N).

#define TWILL_WGMMA_16(N, TYPE) TWILL_EXPAND(TWILL_DEFINE_16, N, TYPE, TWILL_NAMES_##N, TWILL_AFTER_##N)
#define TWILL_WGMMA_8(N, A, B) TWILL_EXPAND(TWILL_DEFINE_K, N, 32, A, B, TWILL_NAMES_##N, TWILL_AFTER_##N)
#define TWILL_WGMMA_32(N) TWILL_EXPAND(TWILL_DEFINE_K, N, 8, tf32, tf32, TWILL_NAMES_##N, TWILL_AFTER_##N)
#define TWILL_WGMMA_HALF(N, M) TWILL_EXPAND(TWILL_DEFINE_HALF, N, M, TWILL_NAMES_##M, TWILL_AFTER_##M)
#define TWILL_WGMMA_INTEGER(N) TWILL_EXPAND(TWILL_DEFINE_INTEGER, N, TWILL_NAMES_##N, TWILL_AFTER_##N)
#define TWILL_EXPAND(MACRO, ...) MACRO(__VA_ARGS__)

#define TWILL_DEFINE_16(N, TYPE, NAMES, n0, n1, n2, n3, n4, n5, n6)                                                    \
    namespace twill {                                                                                                  \
    template <Major MajorA = K_MAJOR, Major MajorB = K_MAJOR>                                                          \
    __device__ __forceinline__ void wgmma_##TYPE##_##TYPE##_n##N(                                                      \
        float (&d)[N / 2], uint64_t a, uint64_t b, int accumulate) {                                                   \
        asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %" #n2 ", 0;\n"                                                 \
                     "wgmma.mma_async.sync.aligned.m64n" #N "k16.f32." #TYPE "." #TYPE                                 \
                     " {" NAMES "}, %" #n0 ", %" #n1 ", p, 1, 1, %" #n3 ", %" #n4 ";\n}"                               \
                     : TWILL_BINDINGS_##N("+f")                                                                        \
                     : "l"(a), "l"(b), "r"(accumulate), "n"(int(MajorA)), "n"(int(MajorB)));                           \
    }                                                                                                                  \
    template <Major MajorB = K_MAJOR>                                                                                  \
    __device__ __forceinline__ void wgmma_##TYPE##_##TYPE##_n##N(                                                      \
        float (&d)[N / 2], const uint32_t (&a)[4], uint64_t b, int accumulate) {                                       \
        asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %" #n5 ", 0;\n"                                                 \
                     "wgmma.mma_async.sync.aligned.m64n" #N "k16.f32." #TYPE "." #TYPE                                 \
                     " {" NAMES "}, {%" #n0 ", %" #n1 ", %" #n2 ", %" #n3 "}, %" #n4 ", p, 1, 1, %" #n6 ";\n}"         \
                     : TWILL_BINDINGS_##N("+f")                                                                        \
                     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(accumulate), "n"(int(MajorB)));         \
    }                                                                                                                  \
    }

#define TWILL_DEFINE_K(N, K, A, B, NAMES, n0, n1, n2, n3, n4, n5, n6)                                                  \
    namespace twill {                                                                                                  \
    __device__ __forceinline__ void wgmma_##A##_##B##_n##N(                                                            \
        float (&d)[N / 2], uint64_t a, uint64_t b, int accumulate) {                                                   \
        asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %" #n2 ", 0;\n"                                                 \
                     "wgmma.mma_async.sync.aligned.m64n" #N "k" #K ".f32." #A "." #B                                   \
                     " {" NAMES "}, %" #n0 ", %" #n1 ", p, 1, 1;\n}"                                                   \
                     : TWILL_BINDINGS_##N("+f")                                                                        \
                     : "l"(a), "l"(b), "r"(accumulate));                                                               \
    }                                                                                                                  \
    __device__ __forceinline__ void wgmma_##A##_##B##_n##N(                                                            \
        float (&d)[N / 2], const uint32_t (&a)[4], uint64_t b, int accumulate) {                                       \
        asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %" #n5 ", 0;\n"                                                 \
                     "wgmma.mma_async.sync.aligned.m64n" #N "k" #K ".f32." #A "." #B                                   \
                     " {" NAMES "}, {%" #n0 ", %" #n1 ", %" #n2 ", %" #n3 "}, %" #n4 ", p, 1, 1;\n}"                   \
                     : TWILL_BINDINGS_##N("+f")                                                                        \
                     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(accumulate));                           \
    }                                                                                                                  \
    }

#define TWILL_DEFINE_HALF(N, M, NAMES, n0, n1, n2, n3, n4, n5, n6)                                                     \
    namespace twill {                                                                                                  \
    template <Major MajorA = K_MAJOR, Major MajorB = K_MAJOR>                                                          \
    __device__ __forceinline__ void wgmma_half_n##N(                                                                   \
        uint32_t (&d)[N / 4], uint64_t a, uint64_t b, int accumulate) {                                                \
        asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %" #n2 ", 0;\n"                                                 \
                     "wgmma.mma_async.sync.aligned.m64n" #N "k16.f16.f16.f16"                                          \
                     " {" NAMES "}, %" #n0 ", %" #n1 ", p, 1, 1, %" #n3 ", %" #n4 ";\n}"                               \
                     : TWILL_BINDINGS_##M("+r")                                                                        \
                     : "l"(a), "l"(b), "r"(accumulate), "n"(int(MajorA)), "n"(int(MajorB)));                           \
    }                                                                                                                  \
    template <Major MajorB = K_MAJOR>                                                                                  \
    __device__ __forceinline__ void wgmma_half_n##N(                                                                   \
        uint32_t (&d)[N / 4], const uint32_t (&a)[4], uint64_t b, int accumulate) {                                    \
        asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %" #n5 ", 0;\n"                                                 \
                     "wgmma.mma_async.sync.aligned.m64n" #N "k16.f16.f16.f16"                                          \
                     " {" NAMES "}, {%" #n0 ", %" #n1 ", %" #n2 ", %" #n3 "}, %" #n4 ", p, 1, 1, %" #n6 ";\n}"         \
                     : TWILL_BINDINGS_##M("+r")                                                                        \
                     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(accumulate), "n"(int(MajorB)));         \
    }                                                                                                                  \
    }

#define TWILL_DEFINE_INTEGER(N, NAMES, n0, n1, n2, n3, n4, n5, n6)                                                     \
    namespace twill {                                                                                                  \
    __device__ __forceinline__ void wgmma_s8_n##N(int32_t (&d)[N / 2], uint64_t a, uint64_t b, int accumulate) {       \
        asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %" #n2 ", 0;\n"                                                 \
                     "wgmma.mma_async.sync.aligned.m64n" #N "k32.s32.s8.s8"                                            \
                     " {" NAMES "}, %" #n0 ", %" #n1 ", p;\n}"                                                         \
                     : TWILL_BINDINGS_##N("+r")                                                                        \
                     : "l"(a), "l"(b), "r"(accumulate));                                                               \
    }                                                                                                                  \
    }

}  // namespace twill
