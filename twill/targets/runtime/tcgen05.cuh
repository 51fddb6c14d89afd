// Fifth-generation tensor core and tensor memory (sm_100a, sm_103a): D[M x N] (+)= A[M x K] B[K x N] by one thread, asynchronously.
//
// D lives in tensor memory: 128 lanes x 512 columns x 32 bits, address = lane << 16 | column. A comes from shared or tensor
// memory, B from shared memory. One elected thread issues MMAs and commits; warp w of a warpgroup loads and stores lanes
// 32 * (w % 4) .. + 31. PTX ISA, "TensorCore 5th Generation Family Instructions".
#pragma once
#include <cstdint>

#include "barrier.cuh"

namespace twill {

// ---- allocation --------------------------------------------------------------------------------------------------

/// One whole warp takes `Columns` columns (a power of two, 32 to 512) and writes their address to shared memory at `to`
/// (tcgen05.alloc); a CTA barrier and tcgen05_fence_after() come before others read it. Blocks until the columns are free.
template <uint32_t Columns, int CtaGroup = 1>
__device__ __forceinline__ void tensor_memory_allocate(uint32_t to) {
    static_assert(Columns >= 32 && Columns <= 512 && (Columns & (Columns - 1)) == 0, "a power of two, 32 to 512");
    if constexpr (CtaGroup == 1)
        asm volatile("tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%0], %1;" ::"r"(to), "n"(Columns) : "memory");
    else
        asm volatile("tcgen05.alloc.cta_group::2.sync.aligned.shared::cta.b32 [%0], %1;" ::"r"(to), "n"(Columns) : "memory");
}

/// The allocating warp gives the columns back before the CTA exits (tcgen05.dealloc).
template <uint32_t Columns, int CtaGroup = 1>
__device__ __forceinline__ void tensor_memory_free(uint32_t address) {
    if constexpr (CtaGroup == 1)
        asm volatile("tcgen05.dealloc.cta_group::1.sync.aligned.b32 %0, %1;" ::"r"(address), "n"(Columns) : "memory");
    else
        asm volatile("tcgen05.dealloc.cta_group::2.sync.aligned.b32 %0, %1;" ::"r"(address), "n"(Columns) : "memory");
}

/// This CTA allocates no more (tcgen05.relinquish_alloc_permit), so that another one on the SM may.
template <int CtaGroup = 1>
__device__ __forceinline__ void tensor_memory_relinquish() {
    if constexpr (CtaGroup == 1)
        asm volatile("tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;");
    else
        asm volatile("tcgen05.relinquish_alloc_permit.cta_group::2.sync.aligned;");
}

// ---- ordering ----------------------------------------------------------------------------------------------------

/// Earlier tcgen05 operations of this thread are ordered before what follows the next barrier (tcgen05.fence::before_thread_sync).
__device__ __forceinline__ void tcgen05_fence_before() { asm volatile("tcgen05.fence::before_thread_sync;" ::: "memory"); }

/// Later tcgen05 operations of this thread are ordered after what precedes the last barrier (tcgen05.fence::after_thread_sync).
__device__ __forceinline__ void tcgen05_fence_after() { asm volatile("tcgen05.fence::after_thread_sync;" ::: "memory"); }

/// One arrival on `barrier` when all earlier MMAs and copies of this thread are complete (tcgen05.commit); implies
/// tcgen05_fence_before(). Several MMAs of one thread complete in order.
__device__ __forceinline__ void tcgen05_commit(uint32_t barrier) {
    asm volatile("tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%0];" ::"r"(barrier) : "memory");
}

/// The same for a CTA pair: the barrier at the same offset in every CTA of `ctas` (a bit mask of cluster ranks).
__device__ __forceinline__ void tcgen05_commit_pair(uint32_t barrier, uint16_t ctas) {
    asm volatile(
        "{\n.reg .b16 ctas;\ncvt.u16.u32 ctas, %1;\n"
        "tcgen05.commit.cta_group::2.mbarrier::arrive::one.shared::cluster.multicast::cluster.b64 [%0], ctas;\n}"
        ::"r"(barrier), "r"(uint32_t(ctas)) : "memory");
}

// ---- descriptors -------------------------------------------------------------------------------------------------

/// Codes of element types in an instruction descriptor, by kind (PTX ISA, "Instruction descriptor").
enum OperandType : uint32_t {
    F16 = 0, BF16 = 1, TF32 = 2,
    E4M3 = 0, E5M2 = 1, E2M3 = 3, E3M2 = 4, E2M1 = 5,
    U8 = 0, S8 = 1,
};

/// Types of D.
enum SumType : uint32_t { F16_SUMS = 0, F32_SUMS = 1, S32_SUMS = 2 };

/// Instruction descriptor of kinds f16, tf32, f8f6f4 and i8: types of A and B, whether each is MN-major ("transposed"), rows M
/// (64 or 128; of the pair: 128 or 256), columns N (a multiple of 8; of i8: of 16), and the type of D.
__host__ __device__ constexpr uint32_t instruction_descriptor(
    uint32_t a, uint32_t b, bool a_mn_major, bool b_mn_major, uint32_t m, uint32_t n, SumType sums = F32_SUMS) {
    return uint32_t(sums) << 4 | a << 7 | b << 10 | uint32_t(a_mn_major) << 15 | uint32_t(b_mn_major) << 16 | n / 8 << 17 | m / 16 << 24;
}

/// The code of 4-bit floats in kinds mxf4 and mxf4nvf4.
constexpr uint32_t MXF4_E2M1 = 1;

/// Types of scale factors.
enum ScaleType : uint32_t { UE4M3 = 0, UE8M0 = 1 };

/// Instruction descriptor of the block-scaled kinds mxf8f6f4, mxf4 and mxf4nvf4: as above, with the type of the scale factors
/// and the byte of each word of tensor memory where those of A and of B begin (PTX ISA, "Instruction descriptor", table of the
/// mxf kinds).
__host__ __device__ constexpr uint32_t scaled_instruction_descriptor(
    uint32_t a, uint32_t b, bool a_mn_major, bool b_mn_major, uint32_t m, uint32_t n, ScaleType type, uint32_t a_byte,
    uint32_t b_byte) {
    return b_byte << 4 | a << 7 | b << 10 | uint32_t(a_mn_major) << 15 | uint32_t(b_mn_major) << 16 | n / 8 << 17 |
           uint32_t(type) << 23 | m / 16 << 24 | a_byte << 29;
}

/// Shared-memory descriptor of an operand in a swizzle of `Width` bytes (128, 64, 32; 0: none) at `address`.
///
/// Rows of Width bytes make atoms of 8 rows. K-major: `stride` bytes from 8 rows to the next 8 (8 * Width where atoms are dense),
/// `leading` unused. MN-major: `leading` bytes from an atom to the next along M or N, `stride` to the next 8 along K.
/// Without a swizzle `leading` and `stride` are those of core matrices of 8 rows x 16 bytes. PTX ISA, "Shared memory descriptor".
template <uint32_t Width = 128>
__host__ __device__ constexpr uint64_t tcgen05_descriptor(uint32_t address, uint32_t leading = 16, uint32_t stride = 8 * Width) {
    static_assert(Width == 128 || Width == 64 || Width == 32 || Width == 0, "a swizzle of 128, 64 or 32 bytes, or 0");
    constexpr uint64_t mode = Width == 128 ? 2 : Width == 64 ? 4 : Width == 32 ? 6 : 0;
    constexpr uint64_t version = 1;
    return mode << 61 | version << 46 | uint64_t(stride >> 4) << 32 | uint64_t(leading >> 4) << 16 | ((address & 0x3ffff) >> 4);
}

// ---- MMA ---------------------------------------------------------------------------------------------------------
// `d` is a tensor-memory address, `a` a shared-memory descriptor (uint64_t) or a tensor-memory address (uint32_t).
// `accumulate` 0 ignores what D held. One thread issues.

#define TWILL_TCGEN05_MMA(KIND)                                                                                        \
    template <int CtaGroup = 1>                                                                                        \
    __device__ __forceinline__ void tcgen05_mma_##KIND(                                                                \
        uint32_t d, uint64_t a, uint64_t b, uint32_t instruction, uint32_t accumulate) {                               \
        if constexpr (CtaGroup == 1)                                                                                   \
            asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %4, 0;\n"                                                   \
                         "tcgen05.mma.cta_group::1.kind::" #KIND " [%0], %1, %2, %3, p;\n}"                            \
                         ::"r"(d), "l"(a), "l"(b), "r"(instruction), "r"(accumulate) : "memory");                      \
        else                                                                                                           \
            asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %4, 0;\n"                                                   \
                         "tcgen05.mma.cta_group::2.kind::" #KIND " [%0], %1, %2, %3, p;\n}"                            \
                         ::"r"(d), "l"(a), "l"(b), "r"(instruction), "r"(accumulate) : "memory");                      \
    }                                                                                                                  \
    template <int CtaGroup = 1>                                                                                        \
    __device__ __forceinline__ void tcgen05_mma_##KIND(                                                                \
        uint32_t d, uint32_t a, uint64_t b, uint32_t instruction, uint32_t accumulate) {                               \
        if constexpr (CtaGroup == 1)                                                                                   \
            asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %4, 0;\n"                                                   \
                         "tcgen05.mma.cta_group::1.kind::" #KIND " [%0], [%1], %2, %3, p;\n}"                          \
                         ::"r"(d), "r"(a), "l"(b), "r"(instruction), "r"(accumulate) : "memory");                      \
        else                                                                                                           \
            asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %4, 0;\n"                                                   \
                         "tcgen05.mma.cta_group::2.kind::" #KIND " [%0], [%1], %2, %3, p;\n}"                          \
                         ::"r"(d), "r"(a), "l"(b), "r"(instruction), "r"(accumulate) : "memory");                      \
    }

TWILL_TCGEN05_MMA(f16)
TWILL_TCGEN05_MMA(tf32)
TWILL_TCGEN05_MMA(f8f6f4)
TWILL_TCGEN05_MMA(i8)

/// Block-scaled: `a_scales` and `b_scales` are the tensor-memory addresses of the scale factors, with row r in lane r % 32 (and
/// 32, 64 and 96 lanes on), column r / 32, one for each of as many elements along K as the kind has (SIZE).
#define TWILL_TCGEN05_SCALED_MMA(KIND, SIZE)                                                                           \
    template <int CtaGroup = 1>                                                                                        \
    __device__ __forceinline__ void tcgen05_mma_##KIND(                                                                \
        uint32_t d, uint64_t a, uint64_t b, uint32_t instruction, uint32_t a_scales, uint32_t b_scales,                \
        uint32_t accumulate) {                                                                                         \
        if constexpr (CtaGroup == 1)                                                                                   \
            asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %6, 0;\n"                                                   \
                         "tcgen05.mma.cta_group::1.kind::" #KIND ".block_scale." #SIZE                                 \
                         " [%0], %1, %2, %3, [%4], [%5], p;\n}"                                                        \
                         ::"r"(d), "l"(a), "l"(b), "r"(instruction), "r"(a_scales), "r"(b_scales), "r"(accumulate)     \
                         : "memory");                                                                                  \
        else                                                                                                           \
            asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %6, 0;\n"                                                   \
                         "tcgen05.mma.cta_group::2.kind::" #KIND ".block_scale." #SIZE                                 \
                         " [%0], %1, %2, %3, [%4], [%5], p;\n}"                                                        \
                         ::"r"(d), "l"(a), "l"(b), "r"(instruction), "r"(a_scales), "r"(b_scales), "r"(accumulate)     \
                         : "memory");                                                                                  \
    }                                                                                                                  \
    template <int CtaGroup = 1>                                                                                        \
    __device__ __forceinline__ void tcgen05_mma_##KIND(                                                                \
        uint32_t d, uint32_t a, uint64_t b, uint32_t instruction, uint32_t a_scales, uint32_t b_scales,                \
        uint32_t accumulate) {                                                                                         \
        if constexpr (CtaGroup == 1)                                                                                   \
            asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %6, 0;\n"                                                   \
                         "tcgen05.mma.cta_group::1.kind::" #KIND ".block_scale." #SIZE                                 \
                         " [%0], [%1], %2, %3, [%4], [%5], p;\n}"                                                      \
                         ::"r"(d), "r"(a), "l"(b), "r"(instruction), "r"(a_scales), "r"(b_scales), "r"(accumulate)     \
                         : "memory");                                                                                  \
        else                                                                                                           \
            asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %6, 0;\n"                                                   \
                         "tcgen05.mma.cta_group::2.kind::" #KIND ".block_scale." #SIZE                                 \
                         " [%0], [%1], %2, %3, [%4], [%5], p;\n}"                                                      \
                         ::"r"(d), "r"(a), "l"(b), "r"(instruction), "r"(a_scales), "r"(b_scales), "r"(accumulate)     \
                         : "memory");                                                                                  \
    }

TWILL_TCGEN05_SCALED_MMA(mxf8f6f4, block32)
TWILL_TCGEN05_SCALED_MMA(mxf4, block32)
TWILL_TCGEN05_SCALED_MMA(mxf4nvf4, block16)

/// Copies 32 rows x 16 bytes of shared memory at `from`, dense, to four columns of each quarter of the lanes from column `to` on
/// (tcgen05.cp). Asynchronous; MMAs that the same thread issues later come behind it without a wait.
template <int CtaGroup = 1>
__device__ __forceinline__ void tcgen05_copy(uint32_t to, uint32_t from) {
    const uint64_t descriptor = tcgen05_descriptor<0>(from, 16, 128);
    if constexpr (CtaGroup == 1)
        asm volatile("tcgen05.cp.cta_group::1.32x128b.warpx4 [%0], %1;" ::"r"(to), "l"(descriptor) : "memory");
    else
        asm volatile("tcgen05.cp.cta_group::2.32x128b.warpx4 [%0], %1;" ::"r"(to), "l"(descriptor) : "memory");
}

// ---- loads and stores --------------------------------------------------------------------------------------------
// Shape 32x32b: register r of lane l is lane l, column r of the warp's quarter, so a row lies in one thread and a row
// reduction needs no shuffle. `address` is that of the first column, lane 32 * (warp % 4); 8, 16, 32 or 64 columns.
// With `Half`, shape 16x32bx2: register r of lanes l and 16 + l is lane l (below 16), columns r and Half + r.
// "Packed": a register has the lower halves of two columns, which is where an MMA leaves sums of 16 bits.

#define TWILL_TM_REGISTERS_4 "%0, %1, %2, %3"
#define TWILL_TM_REGISTERS_8 "%0, %1, %2, %3, %4, %5, %6, %7"
#define TWILL_TM_REGISTERS_16 TWILL_TM_REGISTERS_8 ", %8, %9, %10, %11, %12, %13, %14, %15"
#define TWILL_TM_REGISTERS_32 \
    TWILL_TM_REGISTERS_16 ", %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
#define TWILL_TM_BIND_4(C, v, b) C(v[b + 0]), C(v[b + 1]), C(v[b + 2]), C(v[b + 3])
#define TWILL_TM_BIND_8(C, v, b) C(v[b + 0]), C(v[b + 1]), C(v[b + 2]), C(v[b + 3]), C(v[b + 4]), C(v[b + 5]), C(v[b + 6]), C(v[b + 7])
#define TWILL_TM_BIND_16(C, v, b) TWILL_TM_BIND_8(C, v, b), TWILL_TM_BIND_8(C, v, b + 8)
#define TWILL_TM_BIND_32(C, v, b) TWILL_TM_BIND_16(C, v, b), TWILL_TM_BIND_16(C, v, b + 16)

#define TWILL_TENSOR_MEMORY_OF(LOAD, STORE, FROM, TO, COUNT, NEXT, TYPE, C)                                            \
    template <int Half = 0>                                                                                            \
    __device__ __forceinline__ void LOAD(TYPE (&value)[COUNT], uint32_t address) {                                     \
        if constexpr (Half == 0)                                                                                       \
            asm volatile("tcgen05.ld.sync.aligned.32x32b.x" #COUNT FROM ".b32 {" TWILL_TM_REGISTERS_##COUNT "}, [%" #COUNT "];" \
                         : TWILL_TM_BIND_##COUNT("=" C, value, 0) : "r"(address));                                     \
        else                                                                                                           \
            asm volatile("tcgen05.ld.sync.aligned.16x32bx2.x" #COUNT FROM ".b32 {" TWILL_TM_REGISTERS_##COUNT "}, [%" #COUNT "], %" #NEXT ";" \
                         : TWILL_TM_BIND_##COUNT("=" C, value, 0) : "r"(address), "n"(Half));                          \
    }                                                                                                                  \
    template <int Half = 0>                                                                                            \
    __device__ __forceinline__ void STORE(uint32_t address, const TYPE (&value)[COUNT]) {                              \
        if constexpr (Half == 0)                                                                                       \
            asm volatile("tcgen05.st.sync.aligned.32x32b.x" #COUNT TO ".b32 [%" #COUNT "], {" TWILL_TM_REGISTERS_##COUNT "};" \
                         ::TWILL_TM_BIND_##COUNT(C, value, 0), "r"(address) : "memory");                               \
        else                                                                                                           \
            asm volatile("tcgen05.st.sync.aligned.16x32bx2.x" #COUNT TO ".b32 [%" #COUNT "], %" #NEXT ", {" TWILL_TM_REGISTERS_##COUNT "};" \
                         ::TWILL_TM_BIND_##COUNT(C, value, 0), "r"(address), "n"(Half) : "memory");                    \
    }

#define TWILL_TENSOR_MEMORY_WORDS(COUNT, NEXT, TYPE, C) \
    TWILL_TENSOR_MEMORY_OF(tensor_memory_load, tensor_memory_store, "", "", COUNT, NEXT, TYPE, C)
#define TWILL_TENSOR_MEMORY(COUNT, NEXT)                  \
    TWILL_TENSOR_MEMORY_WORDS(COUNT, NEXT, uint32_t, "r") \
    TWILL_TENSOR_MEMORY_WORDS(COUNT, NEXT, int32_t, "r")  \
    TWILL_TENSOR_MEMORY_WORDS(COUNT, NEXT, float, "f")    \
    TWILL_TENSOR_MEMORY_OF(                               \
        tensor_memory_load_packed, tensor_memory_store_packed, ".pack::16b", ".unpack::16b", COUNT, NEXT, uint32_t, "r")
TWILL_TENSOR_MEMORY(4, 5)
TWILL_TENSOR_MEMORY(8, 9)
TWILL_TENSOR_MEMORY(16, 17)
TWILL_TENSOR_MEMORY(32, 33)

/// Waits for this thread's tensor-memory loads (tcgen05.wait::ld). What they loaded must be named: its readers are
/// ordered behind the wait by it.
template <class Value, int Count>
__device__ __forceinline__ void tensor_memory_wait_load(Value (&value)[Count]) {
    asm volatile("tcgen05.wait::ld.sync.aligned;" ::: "memory");
#pragma unroll
    for (int i = 0; i < Count; ++i) {
        if constexpr (sizeof(Value) == 4 && Value(0.5f) != Value(0))
            asm volatile("" : "+f"(value[i])::"memory");
        else
            asm volatile("" : "+r"(value[i])::"memory");
    }
}

/// `Count` elements of a tile from `First` on.
template <int First, int Count, class Value, int Size>
__device__ __forceinline__ Value (&tile_elements(Value (&tile)[Size]))[Count] {
    static_assert(First + Count <= Size, "a part of the tile");
    return reinterpret_cast<Value (&)[Count]>(tile[First]);
}

/// Loads columns from `address` on, 4 or more, a power of two, and waits for them; 128 at a time, so that what
/// is made of some may take fewer registers before others come.
template <int Half = 0, class Value, int Size>
__device__ __forceinline__ void tensor_memory_load_tile(Value (&value)[Size], uint32_t address) {
    static_assert(Size <= 256 && Size >= 4 && (Size & (Size - 1)) == 0, "4 to 256 columns");
    constexpr int chunk = Size < 32 ? Size : 32;
    if constexpr (Size > 128) {
        tensor_memory_load_tile<Half>(tile_elements<0, 128>(value), address);
        tensor_memory_load_tile<Half>(tile_elements<128, 128>(value), address + 128);
    } else {
        tensor_memory_load<Half>(tile_elements<0, chunk>(value), address);
        if constexpr (Size > 32) tensor_memory_load<Half>(tile_elements<32, chunk>(value), address + 32);
        if constexpr (Size > 64) {
            tensor_memory_load<Half>(tile_elements<64, chunk>(value), address + 64);
            tensor_memory_load<Half>(tile_elements<96, chunk>(value), address + 96);
        }
        tensor_memory_wait_load(value);
    }
}

/// The same of sums of 16 bits: `Size` words of two columns each.
template <int Half = 0, int Size>
__device__ __forceinline__ void tensor_memory_load_packed_tile(uint32_t (&value)[Size], uint32_t address) {
    static_assert(Size <= 128 && Size >= 4 && (Size & (Size - 1)) == 0, "8 to 256 columns");
    constexpr int chunk = Size < 32 ? Size : 32;
    if constexpr (Size > 64) {
        tensor_memory_load_packed_tile<Half>(tile_elements<0, 64>(value), address);
        tensor_memory_load_packed_tile<Half>(tile_elements<64, 64>(value), address + 128);
    } else {
        tensor_memory_load_packed<Half>(tile_elements<0, chunk>(value), address);
        if constexpr (Size > 32) tensor_memory_load_packed<Half>(tile_elements<32, chunk>(value), address + 64);
        tensor_memory_wait_load(value);
    }
}

/// Waits for this thread's tensor-memory stores (tcgen05.wait::st).
__device__ __forceinline__ void tensor_memory_wait_store() { asm volatile("tcgen05.wait::st.sync.aligned;" ::: "memory"); }

// ---- dependences ---------------------------------------------------------------------------------------------------

/// `Depth` mbarriers that order accesses to tensor memory, one phase per iteration: number n arrives on barrier
/// n % Depth with phase n / Depth % 2.
template <uint32_t Depth>
struct DependenceBarrier {
    uint32_t barriers;

    __device__ __forceinline__ uint32_t at(uint32_t n) const { return barriers + n % Depth * 8; }

    /// One thread, once: a phase is complete after so many arrivals (of warps; 1 for MMAs).
    __device__ __forceinline__ void init(uint32_t arrivals) const {
        for (uint32_t i = 0; i < Depth; ++i) mbarrier_init(at(i), arrivals);
    }

    /// By all threads of a warp: its loads and stores, which are complete, come before what waits for number n.
    __device__ __forceinline__ void arrive(uint32_t n) const {
        tcgen05_fence_before();
        __syncwarp();
        if (threadIdx.x % 32 == 0) mbarrier_arrive(at(n));
    }

    /// By the thread that issues MMAs: those issued so far arrive when they are complete.
    __device__ __forceinline__ void completed(uint32_t n) const { tcgen05_commit(at(n)); }

    __device__ __forceinline__ void wait(uint32_t n) const {
        mbarrier_wait(at(n), n / Depth % 2);
        tcgen05_fence_after();
    }

    /// Of a pair of CTAs, by all threads of a warp of either: `arrive` on the barrier of the first CTA.
    __device__ __forceinline__ void arrive_at_first(uint32_t n) const {
        tcgen05_fence_before();
        __syncwarp();
        if (threadIdx.x % 32 == 0) mbarrier_arrive_relaxed(of_first(at(n)));
    }

    /// `wait` in the first CTA of a pair, for the threads of both.
    __device__ __forceinline__ void wait_of_pair(uint32_t n) const {
        mbarrier_wait_relaxed(at(n), n / Depth % 2);
        tcgen05_fence_after();
    }

    /// `completed` on the barriers of both CTAs of a pair.
    __device__ __forceinline__ void completed_pair(uint32_t n) const { tcgen05_commit_pair(at(n), 3); }
};

}  // namespace twill
