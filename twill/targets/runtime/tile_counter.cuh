// Tiles that thread blocks claim from a counter in global memory, on machines without cluster launch control.
//
// One thread takes the next tile's number while its tile is under way; all warps read it and go on with that tile. Every
// thread block begins with the tile of its own number, and stops at the first number beyond the last tile.
#pragma once
#include <cstdint>

#include "barrier.cuh"
#include "math.cuh"

namespace twill {

/// `Depth` numbers of 4 bytes at `memory`, a multiple of 16 in shared memory, then a full and an empty mbarrier for each.
/// `counter`, in global memory, is how many tiles have been claimed.
template <uint32_t Depth>
struct CountedTiles {
    uint32_t memory;
    uint32_t* counter;

    __device__ __forceinline__ uint32_t number(uint32_t n) const { return memory + n % Depth * 4; }
    __device__ __forceinline__ uint32_t full(uint32_t n) const { return memory + Depth * 8 + n % Depth * 8; }
    __device__ __forceinline__ uint32_t empty(uint32_t n) const { return memory + Depth * 16 + n % Depth * 8; }

    /// One thread, once: `warps` read the numbers.
    __device__ __forceinline__ void init(uint32_t warps) const {
        for (uint32_t i = 0; i < Depth; ++i) {
            mbarrier_init(full(i), 1);
            mbarrier_init(empty(i), warps);
        }
    }

    /// One thread: the next tile that no thread block has claimed. Nothing waits for it before it is published.
    __device__ __forceinline__ uint32_t take() const {
        uint32_t before;
        asm volatile("atom.relaxed.gpu.global.add.u32 %0, [%1], 1;" : "=r"(before) : "l"(counter) : "memory");
        return gridDim.x + before;
    }

    /// The same thread: claim number n of this thread block is this tile.
    __device__ __forceinline__ void publish(uint32_t n, uint32_t tile) const {
        mbarrier_wait(empty(n), (n / Depth & 1) ^ 1);
        shared_at<uint32_t>(number(n)) = tile;
        mbarrier_arrive(full(n));
    }

    /// All threads of a warp: the tile of claim number n.
    __device__ __forceinline__ int32_t next(uint32_t n) const {
        mbarrier_wait(full(n), n / Depth & 1);
        const uint32_t tile = shared_at<uint32_t>(number(n));
        __syncwarp();
        if (threadIdx.x % 32 == 0) mbarrier_arrive(empty(n));
        return int32_t(tile);
    }
};

}  // namespace twill
