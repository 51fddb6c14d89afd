// What shares shared memory's bandwidth on one Hopper multiprocessor: wgmma operand reads beside TMA copies.
//
// Two warp groups issue wgmma without pause while one thread of a third copies 48 KB at a time by TMA, in either direction;
// then the copies alone, from one block and from all multiprocessors. Prints one JSON object a line: {"name",
// "parameters", "cycles": of one wgmma, "bytes": a cycle that the copies reach}. All cycles are SM cycles.
//
//     nvcc -std=c++17 -O3 -gencode=arch=compute_90a,code=sm_90a -Itwill/codegen/runtime benchmarks/calibrate/contention.cu
#include <cuda_runtime.h>
#include <dlfcn.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "twill.cuh"

#define CHECK(call)                                                                                 \
    do {                                                                                            \
        cudaError_t status = (call);                                                                \
        if (status != cudaSuccess) {                                                                \
            std::fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, cudaGetErrorString(status));    \
            std::exit(1);                                                                           \
        }                                                                                           \
    } while (0)

using namespace twill;
TWILL_WGMMA_16(64, f16)
TWILL_WGMMA_16(128, f16)
TWILL_WGMMA_16(256, f16)

enum Copy { NONE, LOAD, STORE, ADD };
const char* const NAMES[] = {"nothing", "load", "store", "add f32"};

constexpr int SHARED_BYTES = 160 * 1024, OPERANDS = 48 * 1024, BOX = 8192, BOX_ROWS = 64, BOXES = 6;
/// Rows of 128 bytes that each block copies from or to.
constexpr int ROWS = BOXES * BOX_ROWS;
constexpr int WGMMAS = 4000, COPIES = 200;

template <int N, bool FromRegisters>
__device__ __forceinline__ void product(float (&d)[N / 2], const uint32_t (&a)[4], uint64_t at, uint64_t b, int accumulate) {
    if constexpr (N == 64 && !FromRegisters) wgmma_f16_f16_n64(d, at, b, accumulate);
    if constexpr (N == 128 && FromRegisters) wgmma_f16_f16_n128(d, a, b, accumulate);
    if constexpr (N == 128 && !FromRegisters) wgmma_f16_f16_n128(d, at, b, accumulate);
    if constexpr (N == 256 && !FromRegisters) wgmma_f16_f16_n256(d, at, b, accumulate);
}

/// One repeat of the copying thread: 48 KB in one group; two groups are in flight.
__device__ void copy(const CUtensorMap* map, Copy kind, uint32_t ring, uint32_t barriers, int repeat, int row) {
    uint32_t slot = repeat % 2, barrier = barriers + 8 * slot;
    if (kind == LOAD) {
        if (repeat >= 2) mbarrier_wait(barrier, (repeat / 2 - 1) & 1);
        mbarrier_arrive_expect(barrier, BOXES * BOX);
    }
#pragma unroll
    for (int i = 0; i < BOXES; ++i) {
        uint32_t at = ring + (slot * BOXES + i) * BOX;
        if (kind == LOAD) tma_load(at, map, barrier, 0, row + i * BOX_ROWS);
        if (kind == STORE) tma_store(map, at, 0, row + i * BOX_ROWS);
        if (kind == ADD) tma_add(map, at, 0, row + i * BOX_ROWS);
    }
    if (kind != LOAD) tma_commit(), tma_wait_read<1>();
}

/// Threads 0-255 multiply (if N), thread 256 copies until they are done, or `COPIES` times where they do nothing.
template <int N, bool FromRegisters>
__global__ void __launch_bounds__(384, 1)
    beside(const __grid_constant__ CUtensorMap map, long long* out, Copy kind, int zero) {
    extern __shared__ __align__(1024) uint8_t memory[];
    __shared__ __align__(8) uint64_t barriers[2];
    __shared__ volatile int done;
    for (int i = threadIdx.x; i < SHARED_BYTES / 4; i += blockDim.x) reinterpret_cast<uint32_t*>(memory)[i] = 0;
    if (threadIdx.x == 0) done = N == 0, mbarrier_init(shared_address(barriers), 1), mbarrier_init(shared_address(barriers + 1), 1);
    mbarrier_init_fence();
    fence_async_shared();
    __syncthreads();
    uint32_t base = shared_address(memory);
    if constexpr (N > 0) {
        if (threadIdx.x < 256) {
            float d[N / 2];
            const uint32_t fragment[4] = {zero + 1u, zero + 2u, zero + 3u, 4u};
            uint64_t a = matrix_descriptor(base + threadIdx.x / 128 * 8192), b = matrix_descriptor(base + 16384);
            long long start = clock64();
            for (int i = 0; i < WGMMAS; ++i) {
                wgmma_fence();
                product<N, FromRegisters>(d, fragment, a, b, i > 0);
                wgmma_commit();
                wgmma_wait<3>();
            }
            wgmma_wait<0>();
            if (threadIdx.x == 0) out[0] = clock64() - start, done = 1;
            if (zero) out[threadIdx.x] = (long long)d[0];
        }
    }
    if (threadIdx.x != 256 || kind == NONE) return;
    int repeat = 0, row = blockIdx.x * ROWS;
    long long start = clock64();
    while (N == 0 ? repeat < COPIES : !done) copy(&map, kind, base + OPERANDS, shared_address(barriers), repeat++, row);
    if (kind == LOAD)
        for (int i = max(0, repeat - 2); i < repeat; ++i) mbarrier_wait(shared_address(barriers + i % 2), (i / 2) & 1);
    tma_wait_read<0>();
    out[2 * blockIdx.x + 1] = BOXES * BOX * (long long)repeat * 1000 / (clock64() - start);
    tma_wait_read<0>();
}

CUtensorMap encode(void* data, uint64_t rows, bool single) {
    using Encode = decltype(&cuTensorMapEncodeTiled);
    auto encoder = reinterpret_cast<Encode>(dlsym(dlopen("libcuda.so.1", RTLD_NOW), "cuTensorMapEncodeTiled"));
    CUtensorMap map;
    cuuint32_t width = single ? 32 : 64;
    cuuint64_t sizes[2] = {width, rows}, strides[1] = {128};
    cuuint32_t box[2] = {width, BOX_ROWS}, steps[2] = {1, 1};
    auto type = single ? CU_TENSOR_MAP_DATA_TYPE_FLOAT32 : CU_TENSOR_MAP_DATA_TYPE_FLOAT16;
    if (!encoder || encoder(&map, type, 2, data, sizes, strides, box, steps, CU_TENSOR_MAP_INTERLEAVE_NONE,
                            CU_TENSOR_MAP_SWIZZLE_128B, CU_TENSOR_MAP_L2_PROMOTION_NONE,
                            CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE) != CUDA_SUCCESS)
        std::exit(1);
    return map;
}

/// The median over blocks of the better of five launches.
template <int N, bool FromRegisters>
void report(const CUtensorMap& half, const CUtensorMap& single, long long* out, Copy kind, int blocks) {
    CHECK(cudaFuncSetAttribute(beside<N, FromRegisters>, cudaFuncAttributeMaxDynamicSharedMemorySize, SHARED_BYTES));
    double cycles = 1e30, bytes = 0;
    std::vector<long long> found(2 * blocks);
    for (int sample = 0; sample < 5; ++sample) {
        CHECK(cudaMemset(out, 0, 16 * blocks));
        beside<N, FromRegisters><<<blocks, 384, SHARED_BYTES>>>(kind == ADD ? single : half, out, kind, 0);
        CHECK(cudaGetLastError());
        CHECK(cudaDeviceSynchronize());
        CHECK(cudaMemcpy(found.data(), out, 16 * blocks, cudaMemcpyDeviceToHost));
        cycles = std::min(cycles, double(found[0]) / WGMMAS / 2);
        std::vector<long long> rates;
        for (int i = 0; i < blocks; ++i) rates.push_back(found[2 * i + 1]);
        std::nth_element(rates.begin(), rates.begin() + blocks / 2, rates.end());
        bytes = std::max(bytes, rates[blocks / 2] / 1000.0);
    }
    std::printf("{\"name\": \"wgmma_beside_tma\", \"parameters\": {\"n\": %d, \"a\": \"%s\", \"copy\": \"%s\", \"blocks\": %d}, ", N,
                FromRegisters ? "registers" : "shared", NAMES[kind], blocks);
    std::printf("\"cycles\": %.2f, \"bytes\": %.1f}\n", N ? cycles : 0.0, bytes);
}

int main() {
    cudaDeviceProp device;
    CHECK(cudaGetDeviceProperties(&device, 0));
    int all = device.multiProcessorCount;
    uint8_t* data;
    long long* out;
    CHECK(cudaMalloc(&data, size_t(all) * ROWS * 128));
    CHECK(cudaMemset(data, 0, size_t(all) * ROWS * 128));
    CHECK(cudaMalloc(&out, 16 * std::max(all, 256)));
    CUtensorMap half = encode(data, size_t(all) * ROWS, false), single = encode(data, size_t(all) * ROWS, true);
    std::printf("{\"device\": \"%s\", \"multiprocessors\": %d}\n", device.name, all);
    for (Copy kind : {NONE, LOAD, STORE, ADD}) {
        report<64, false>(half, single, out, kind, 1);
        report<128, false>(half, single, out, kind, 1);
        report<128, true>(half, single, out, kind, 1);
        report<256, false>(half, single, out, kind, 1);
        if (kind == NONE) continue;
        report<0, false>(half, single, out, kind, 1);
        report<0, false>(half, single, out, kind, all);
    }
}
