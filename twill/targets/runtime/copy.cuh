// Asynchronous copies of single elements or vectors from global to shared memory (cp.async).
//
// Takes shared-window addresses and global pointers, both aligned to the size of a copy. PTX ISA, "Data Movement
// and Conversion Instructions: Non-bulk copy".
#pragma once
#include <cstdint>

namespace twill {

/// Copies `Bytes` (4, 8 or 16) from `from` to `to`, or writes zeros where `inside` is false; `from` is not read
/// then. 16 bytes pass the L1 cache by.
template <int Bytes>
__device__ __forceinline__ void cp_async(uint32_t to, const void* from, bool inside = true) {
    static_assert(Bytes == 4 || Bytes == 8 || Bytes == 16, "cp.async copies 4, 8 or 16 bytes");
    const uint32_t size = inside ? Bytes : 0;
    if constexpr (Bytes == 16) {
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(size) : "memory");
    } else {
        asm volatile("cp.async.ca.shared.global [%0], [%1], %3, %2;" ::"r"(to), "l"(from), "r"(size), "n"(Bytes) : "memory");
    }
}

/// Copies the first `room` bytes of `Bytes` from `from` to `to`, where `inside` is true, and writes zeros behind them;
/// `from` is not read where there is no room.
template <int Bytes>
__device__ __forceinline__ void cp_async_first(uint32_t to, const void* from, bool inside, int64_t room) {
    static_assert(Bytes == 4 || Bytes == 8 || Bytes == 16, "cp.async copies 4, 8 or 16 bytes");
    const uint32_t size = !inside || room < 0 ? 0 : room < Bytes ? static_cast<uint32_t>(room) : Bytes;
    if constexpr (Bytes == 16) {
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(size) : "memory");
    } else {
        asm volatile("cp.async.ca.shared.global [%0], [%1], %3, %2;" ::"r"(to), "l"(from), "r"(size), "n"(Bytes) : "memory");
    }
}

/// Copies `Bytes` from `from` to `to`, or writes `filling`, eight bytes that repeat, where `inside` is false. What
/// the thread has written is visible to those that wait for its copies.
template <int Bytes>
__device__ __forceinline__ void cp_async_or(uint32_t to, const void* from, bool inside, uint64_t filling) {
    if (inside) {
        cp_async<Bytes>(to, from);
        return;
    }
    for (int i = 0; i < Bytes / 4; ++i) shared_at<uint32_t>(to + 4 * i) = static_cast<uint32_t>(filling >> i % 2 * 32);
    __threadfence_block();
}

/// `Bytes` from global memory, in the low bits of a word. Loads of a batch stay in their order, before what uses them.
template <int Bytes>
__device__ __forceinline__ uint32_t load_global(const void* from) {
    static_assert(Bytes == 1 || Bytes == 2 || Bytes == 4, "a part of a word");
    uint32_t word;
    if constexpr (Bytes == 4) {
        asm volatile("ld.global.u32 %0, [%1];" : "=r"(word) : "l"(__cvta_generic_to_global(from)));
    } else if constexpr (Bytes == 2) {
        asm volatile("ld.global.u16 %0, [%1];" : "=r"(word) : "l"(__cvta_generic_to_global(from)));
    } else {
        asm volatile("ld.global.u8 %0, [%1];" : "=r"(word) : "l"(__cvta_generic_to_global(from)));
    }
    return word;
}

#define TWILL_LOAD_IF(TYPE)                                                                                     \
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %2, 0;\n@p ld.global." TYPE " %0, [%1];\n}\n"               \
                 : "+r"(word)                                                                                   \
                 : "l"(__cvta_generic_to_global(from)), "r"(uint32_t(inside)))

/// The same where `inside` is true, else `filling`.
template <int Bytes>
__device__ __forceinline__ uint32_t load_global(const void* from, bool inside, uint32_t filling) {
    static_assert(Bytes == 1 || Bytes == 2 || Bytes == 4, "a part of a word");
    uint32_t word = filling;
    if constexpr (Bytes == 4) {
        TWILL_LOAD_IF("u32");
    } else if constexpr (Bytes == 2) {
        TWILL_LOAD_IF("u16");
    } else {
        TWILL_LOAD_IF("u8");
    }
    return word;
}
#undef TWILL_LOAD_IF

/// A word of element `j`, of `Bytes`, of each word of `from`, the first in its lowest bits.
template <int Bytes>
__device__ __forceinline__ uint32_t gathered(const uint32_t (&from)[4 / Bytes], uint32_t j) {
    if constexpr (Bytes == 4) {
        return from[0];
    } else if constexpr (Bytes == 2) {
        return __byte_perm(from[0], from[1], 0x5410 + 0x2222 * j);
    } else {
        const uint32_t of_two = 0x40 + 0x11 * j;
        return __byte_perm(__byte_perm(from[0], from[1], of_two), __byte_perm(from[2], from[3], of_two), 0x5410);
    }
}

/// Makes a value opaque to the compiler: it is kept as it is, not computed again or together with others.
template <class T>
__device__ __forceinline__ void keep(T& value) {
    static_assert(sizeof(T) == 4 || sizeof(T) == 8, "kept in one or two registers");
    if constexpr (sizeof(T) == 8) {
        asm volatile("" : "+l"(value));
    } else {
        asm volatile("" : "+r"(value));
    }
}

template <class T, int Count>
__device__ __forceinline__ void keep(T (&values)[Count]) {
#pragma unroll
    for (int i = 0; i < Count; ++i) keep(values[i]);
}

/// The product of two numbers, in one instruction: a compiler that does not see that a factor was widened takes four.
__device__ __forceinline__ int64_t wide_product(int32_t a, int32_t b) {
    int64_t product;
    asm("mul.wide.s32 %0, %1, %2;" : "=l"(product) : "r"(a), "r"(b));
    return product;
}

/// `from + elements`, in one instruction and without another register for the sign.
template <class T>
__device__ __forceinline__ T* advanced(T* from, int32_t elements) {
    uint64_t to;
    asm("mad.wide.s32 %0, %1, %2, %3;" : "=l"(to) : "r"(elements), "n"(sizeof(T)), "l"(from));
    return reinterpret_cast<T*>(to);
}

/// One of the arrivals that `barrier` was initialized for, once all copies that this thread has started are
/// complete (cp.async.mbarrier.arrive.noinc).
__device__ __forceinline__ void cp_async_arrive(uint32_t barrier) {
    asm volatile("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];" ::"r"(barrier) : "memory");
}

/// The same of a thread that has written tiles too: what it has written is visible to those that wait. (They have the
/// fence of the asynchronous proxy, as behind copies alone.)
__device__ __forceinline__ void cp_async_arrive_behind_writes(uint32_t barrier) {
    __threadfence_block();
    cp_async_arrive(barrier);
}

/// An arrival on `barrier` beside those that it was initialized for, in this phase, once all copies that this thread has
/// started are complete (cp.async.mbarrier.arrive).
__device__ __forceinline__ void cp_async_arrive_too(uint32_t barrier) {
    asm volatile("cp.async.mbarrier.arrive.shared::cta.b64 [%0];" ::"r"(barrier) : "memory");
}

}  // namespace twill
