// Barriers, fences and warp roles: how a generated kernel orders its warp groups.
//
// Takes shared-memory addresses in the 32-bit shared window (`shared_address`), gives inline PTX for sm_90a.
// Section names are those of the PTX ISA, "Parallel Synchronization and Communication Instructions".
#pragma once
#include <cstdint>

namespace twill {

/// The 32-bit shared-window address of a pointer into shared memory.
__device__ __forceinline__ uint32_t shared_address(const void* pointer) {
    return static_cast<uint32_t>(__cvta_generic_to_shared(pointer));
}

// ---- mbarrier ------------------------------------------------------------------------------------------------

/// A phase of `barrier` completes after `arrivals` arrivals and all expected bytes (mbarrier.init). One
/// thread.
__device__ __forceinline__ void mbarrier_init(uint32_t barrier, uint32_t arrivals) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals) : "memory");
}

/// Makes initialized barriers visible to the async proxy and the cluster (fence.mbarrier_init); a CTA or
/// cluster sync follows before their first use.
__device__ __forceinline__ void mbarrier_init_fence() {
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

/// One arrival on a barrier of this CTA (mbarrier.arrive, release).
__device__ __forceinline__ void mbarrier_arrive(uint32_t barrier) {
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}

/// Makes the phase wait for `more` bytes of TMA traffic too. By a thread that arrives later in the same phase.
__device__ __forceinline__ void mbarrier_expect(uint32_t barrier, uint32_t more) {
    asm volatile("mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(more) : "memory");
}

/// One arrival that also makes the phase wait for `bytes` of TMA traffic (mbarrier.arrive.expect_tx).
__device__ __forceinline__ void mbarrier_arrive_expect(uint32_t barrier, uint32_t bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes) : "memory");
}

/// Whether the phase of parity `parity` has completed (mbarrier.try_wait; suspends for a short, bounded
/// time).
__device__ __forceinline__ bool mbarrier_try_wait(uint32_t barrier, uint32_t parity) {
    uint32_t done;
    asm volatile(
        "{\n.reg .pred done;\n"
        "mbarrier.try_wait.parity.shared::cta.b64 done, [%1], %2;\n"
        "selp.u32 %0, 1, 0, done;\n}"
        : "=r"(done) : "r"(barrier), "r"(parity) : "memory");
    return done != 0;
}

/// Waits until the phase of parity `parity` has completed. A fresh barrier's phase is 0, so waiting for
/// parity 1 on it returns at once: an empty slot needs no first arrival.
__device__ __forceinline__ void mbarrier_wait(uint32_t barrier, uint32_t parity) {
    while (!mbarrier_try_wait(barrier, parity)) {
    }
}

// ---- clusters -------------------------------------------------------------------------------------------------

/// The rank of this CTA in its cluster (%cluster_ctarank).
__device__ __forceinline__ uint32_t cluster_rank() {
    uint32_t rank;
    asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    return rank;
}

/// All threads of the cluster wait for each other (barrier.cluster).
__device__ __forceinline__ void cluster_sync() {
    asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;" ::: "memory");
}

/// The address of the same place in shared memory of the cluster's CTA of rank `rank` (mapa).
__device__ __forceinline__ uint32_t of_block(uint32_t address, uint32_t rank) {
    uint32_t found;
    asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(found) : "r"(address), "r"(rank));
    return found;
}

/// The address of the same place in shared memory of the cluster's first CTA (mapa).
__device__ __forceinline__ uint32_t of_first(uint32_t address) {
    uint32_t found;
    asm("mapa.shared::cluster.u32 %0, %1, 0;" : "=r"(found) : "r"(address));
    return found;
}

/// One arrival on a barrier of any CTA of the cluster (mbarrier.arrive, release).
__device__ __forceinline__ void mbarrier_arrive_at(uint32_t barrier) {
    asm volatile("mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%0];" ::"r"(barrier) : "memory");
}

/// The same behind reads alone: the other CTA sees nothing that this thread has written. (A release at cluster scope
/// waits for the thread's accesses to global memory too: MEMBAR.ALL.GPU, ptxas 13.0 for sm_90a.)
__device__ __forceinline__ void mbarrier_arrive_behind_reads(uint32_t barrier) {
    asm volatile("mbarrier.arrive.shared::cluster.b64 _, [%0];" ::"r"(barrier) : "memory");
}

/// The same behind accesses to tensor memory alone, which tcgen05.fence orders: no fence of other memory (PTX ISA,
/// "tcgen05 memory consistency model", patterns of different threads).
__device__ __forceinline__ void mbarrier_arrive_relaxed(uint32_t barrier) {
    asm volatile("mbarrier.arrive.relaxed.cluster.shared::cluster.b64 _, [%0];" ::"r"(barrier) : "memory");
}

/// `mbarrier_wait` for `mbarrier_arrive_relaxed`, by threads of any CTA of the cluster.
__device__ __forceinline__ void mbarrier_wait_relaxed(uint32_t barrier, uint32_t parity) {
    uint32_t done;
    do {
        asm volatile(
            "{\n.reg .pred done;\n"
            "mbarrier.try_wait.parity.relaxed.cluster.shared::cta.b64 done, [%1], %2;\n"
            "selp.u32 %0, 1, 0, done;\n}"
            : "=r"(done) : "r"(barrier), "r"(parity) : "memory");
    } while (!done);
}

/// `mbarrier_wait` for arrivals of other CTAs of the cluster too.
__device__ __forceinline__ void mbarrier_wait_cluster(uint32_t barrier, uint32_t parity) {
    uint32_t done;
    do {
        asm volatile(
            "{\n.reg .pred done;\n"
            "mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 done, [%1], %2;\n"
            "selp.u32 %0, 1, 0, done;\n}"
            : "=r"(done) : "r"(barrier), "r"(parity) : "memory");
    } while (!done);
}

// ---- named barriers (barrier.cta) ------------------------------------------------------------------------------

/// Waits until `threads` threads (a multiple of 32) have arrived on or synced at named barrier `id` (1 to 15;
/// 0 is __syncthreads).
__device__ __forceinline__ void named_barrier_sync(uint32_t id, uint32_t threads) {
    asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

/// Counts this warp in at named barrier `id` without waiting.
__device__ __forceinline__ void named_barrier_arrive(uint32_t id, uint32_t threads) {
    asm volatile("bar.arrive %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

// ---- fences ------------------------------------------------------------------------------------------------------

/// Orders this thread's ordinary shared-memory accesses before later ones of the async proxy (wgmma, TMA).
__device__ __forceinline__ void fence_async_shared() {
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

/// The same for all memory: what TMA reads then is what was written before.
__device__ __forceinline__ void fence_async() { asm volatile("fence.proxy.async;" ::: "memory"); }

// ---- warp roles --------------------------------------------------------------------------------------------------

/// The warp's index in its CTA, uniform across the warp so that role branches stay uniform.
__device__ __forceinline__ uint32_t warp_index() { return __shfl_sync(~0u, threadIdx.x / 32, 0); }

/// The same, read again: the compiler keeps no thread number in a register, or spills it, from one role to the next.
__device__ __forceinline__ uint32_t read_warp_index() {
    uint32_t thread;
    asm volatile("mov.u32 %0, %%tid.x;" : "=r"(thread));
    return __shfl_sync(~0u, thread / 32, 0);
}

/// True in exactly one lane of the converged warp (elect.sync).
__device__ __forceinline__ bool elect_one() {
    uint32_t elected;
    asm volatile(
        "{\n.reg .pred elected;\n"
        "elect.sync _|elected, 0xffffffff;\n"
        "selp.u32 %0, 1, 0, elected;\n}"
        : "=r"(elected));
    return elected != 0;
}

/// Raises the registers per thread of this warpgroup to `Count`, a multiple of 8 in 24..256 (setmaxnreg.inc).
/// Waits until the CTA's pool has them. Ignored by ptxas (C7508) without __launch_bounds__(threads, 1).
template <int Count>
__device__ __forceinline__ void registers_increase() {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(Count));
}

/// Returns registers above `Count` to the CTA's pool (setmaxnreg.dec).
template <int Count>
__device__ __forceinline__ void registers_decrease() {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(Count));
}

}  // namespace twill
