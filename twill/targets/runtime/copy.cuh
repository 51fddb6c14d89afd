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

/// Until all copies that this thread has started are complete (cp.async.wait_all).
__device__ __forceinline__ void cp_async_wait() { asm volatile("cp.async.wait_all;" ::: "memory"); }

}  // namespace twill
