// Cluster launch control (sm_100a): a running cluster takes over the work of one that has not started.
//
// One thread asks for the next cluster's work, in time; all warps read the response and go on with the tile that it names.
// After a response without work nobody asks again. PTX ISA, "clusterlaunchcontrol".
#pragma once
#include <cstdint>

#include "barrier.cuh"

namespace twill {

/// `Depth` responses of 16 bytes at `memory`, a multiple of 16 in shared memory, then a full and an empty mbarrier for each.
/// Of a pair of CTAs the first one asks, and both receive the response.
template <uint32_t Depth, bool Pair = false>
struct Claims {
    uint32_t memory;

    __device__ __forceinline__ uint32_t response(uint32_t n) const { return memory + n % Depth * 16; }
    __device__ __forceinline__ uint32_t full(uint32_t n) const { return memory + Depth * 16 + n % Depth * 8; }
    __device__ __forceinline__ uint32_t empty(uint32_t n) const { return memory + Depth * 24 + n % Depth * 8; }

    /// One thread, once: `warps` of each CTA read the responses.
    __device__ __forceinline__ void init(uint32_t warps) const {
        for (uint32_t i = 0; i < Depth; ++i) {
            mbarrier_init(full(i), 1);
            mbarrier_init(empty(i), Pair ? 2 * warps : warps);
        }
    }

    /// One thread of each CTA, of rank `rank`: asks for response number n.
    __device__ __forceinline__ void request(uint32_t n, uint32_t rank) const {
        if (rank == 0) mbarrier_wait(empty(n), (n / Depth & 1) ^ 1);
        mbarrier_arrive_expect(full(n), 16);
        if (rank != 0) return;
        if constexpr (Pair)
            asm volatile(
                "clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes.multicast::cluster::all.b128"
                " [%0], [%1];" ::"r"(response(n)), "r"(full(n)) : "memory");
        else
            asm volatile("clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes.b128 [%0], [%1];" ::"r"(
                             response(n)), "r"(full(n)) : "memory");
    }

    /// All threads of a warp: the first CTA along x of the cluster whose work response number n gives, plus `rank`; -1 where
    /// there is none.
    __device__ __forceinline__ int32_t next(uint32_t n, uint32_t rank) const {
        mbarrier_wait(full(n), n / Depth & 1);
        int32_t first;
        asm volatile(
            "{\n.reg .b128 response;\n.reg .pred taken;\n"
            "ld.shared.b128 response, [%1];\n"
            "clusterlaunchcontrol.query_cancel.is_canceled.pred.b128 taken, response;\n"
            "mov.b32 %0, -1;\n"
            "@taken clusterlaunchcontrol.query_cancel.get_first_ctaid::x.b32.b128 %0, response;\n}"
            : "=r"(first) : "r"(response(n)) : "memory");
        fence_async_shared();
        __syncwarp();
        if (threadIdx.x % 32 == 0) {
            if constexpr (Pair)
                mbarrier_arrive_behind_reads(of_first(empty(n)));
            else
                mbarrier_arrive(empty(n));
        }
        return first < 0 ? first : first + int32_t(rank);
    }
};

}  // namespace twill
