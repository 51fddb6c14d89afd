// A sum over the keys of both thread blocks of a pair: result = sum over i of slopes[i].T @ keys, where each block has the
// slopes [128 keys x 128 queries] of its own keys in registers, row by row, as it computed them.
//
// The pair's MMA has 128 rows, 64 queries of each block (PTX ISA, tcgen05 data path layout B), so that a block needs its 64
// queries of all 256 keys. Each box of 64 queries is what a line of the swizzle holds: a block stores box h to shared memory
// of block h, where it is the part of the slot that has the sender's keys. One mbarrier, the first block's, says that the
// slots of both are full; the completion of the MMA, which reads both, says to both that they are free.
#include "tcgen05.cuh"
#include "twill.cuh"

using namespace twill;

constexpr uint32_t KEYS = 128, WIDTH = 128, BOX = KEYS * 128;  // bytes of [KEYS x 64] numbers of 16 bits
constexpr uint32_t WARPS = 4;

__device__ __forceinline__ void store_to_block(uint32_t address, uint4 value) {
    asm volatile("st.shared::cluster.v4.b32 [%0], {%1, %2, %3, %4};" ::"r"(address), "r"(value.x), "r"(value.y), "r"(value.z),
                 "r"(value.w) : "memory");
}

extern "C" __global__ void __cluster_dims__(2, 1, 1) summed(const uint4* slopes, const uint4* keys, float* result, int n) {
    extern __shared__ unsigned char raw[];
    const uint32_t memory = (shared_address(raw) + 1023) / 1024 * 1024;
    const uint32_t slot = memory, columns = memory + 2 * BOX;
    const uint32_t full = memory + 4 * BOX, empty = full + 8, done = full + 16, word = full + 24;
    const uint32_t rank = cluster_rank(), warp = warp_index(), lane = threadIdx.x % 32;
    if (threadIdx.x == 0) {
        mbarrier_init(full, 2 * WARPS);
        mbarrier_init(empty, 1);
        mbarrier_init(done, 1);
        mbarrier_init_fence();
    }
    if (warp == 0) tensor_memory_allocate<64, 2>(word);
    for (uint32_t i = threadIdx.x; i < 2 * KEYS * 8; i += blockDim.x) {  // half of the columns, of all keys
        const uint4 piece = keys[i / 8 * WIDTH / 8 + rank * 8 + i % 8];
        store_to_block(of_block(columns + swizzle<128>(i * 16), rank), piece);
    }
    fence_async();
    tcgen05_fence_before();
    cluster_sync();
    tcgen05_fence_after();
    const uint32_t accumulator = shared_at<uint32_t>(word);
    if (warp == WARPS) {
        for (int i = 0; rank == 0 && i < n; ++i) {
            mbarrier_wait_cluster(full, i % 2);
            tcgen05_fence_after();
            if (elect_one()) {
                for (uint32_t k = 0; k < 2 * KEYS; k += 16) {
                    const uint64_t a = descriptor_advance(tcgen05_descriptor<128>(slot, BOX), k * 128);
                    const uint64_t b = descriptor_advance(tcgen05_descriptor<128>(columns, BOX), k * 128);
                    tcgen05_mma_f16<2>(accumulator, a, b, instruction_descriptor(F16, F16, true, true, 128, WIDTH), i || k);
                }
                tcgen05_commit_pair(empty, 3);
                if (i == n - 1) tcgen05_commit_pair(done, 3);
            }
            __syncwarp();
        }
    } else {
        const uint32_t key = threadIdx.x;
        for (int i = 0; i < n; ++i) {
            const uint4* row = slopes + ((i * 2 + rank) * KEYS + key) * WIDTH / 8;
            mbarrier_wait(empty, (i + 1) % 2);
            for (uint32_t part = 0; part < 16; ++part) {
                const uint32_t at = slot + rank * BOX + swizzle<128>(key * 128 + part % 8 * 16);
                store_to_block(of_block(at, part / 8), row[part]);
            }
            fence_async();
            __syncwarp();
            if (lane == 0) mbarrier_arrive_at(of_first(full));
        }
        mbarrier_wait(done, 0);
        tcgen05_fence_after();
        for (uint32_t first = 0; first < 64; first += 32) {
            float values[32];
            tensor_memory_load(values, accumulator + (32 * warp << 16) + first);
            tensor_memory_wait_load(values);
            float* own = result + (rank * 64 + key % 64) * WIDTH + key / 64 * 64 + first;
            for (int j = 0; j < 32; ++j) own[j] = values[j];
        }
        tcgen05_fence_before();
    }
    cluster_sync();
    if (warp == 0) {
        tcgen05_fence_after();
        tensor_memory_relinquish<2>();
        tensor_memory_free<64, 2>(accumulator);
    }
}
