// What the microbenchmarks of all architectures share: the harness, elementwise operations, shared memory, TMA,
// synchronization, and the host's part.
//
// Every measurement runs a body `repeats` times in one CTA between two reads of clock64, from the first warp's start
// to the last warp's end, and reports two numbers: `once`, the cycles of a single repeat less those of an empty body
// (its latency, waits included; null beside a neighbour, where it has no meaning), and `each`, the slope between two
// large repeat counts (its occupancy of the unit that limits it). Prints one JSON object a line: {"name", "parameters",
// "once", "each"}.
#pragma once
#include <cuda_runtime.h>
#include <dlfcn.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "twill.cuh"

#define CHECK(call)                                                                           \
    do {                                                                                      \
        cudaError_t status = (call);                                                          \
        if (status != cudaSuccess) {                                                          \
            std::fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, cudaGetErrorString(status)); \
            std::exit(1);                                                                     \
        }                                                                                     \
    } while (0)

using namespace twill;

/// The maximum over the four threads of a quad, in each of them.
__device__ __forceinline__ float quad_max(float x) {
    x = fmaxf(x, __shfl_xor_sync(~0u, x, 1));
    return fmaxf(x, __shfl_xor_sync(~0u, x, 2));
}

/// The sum over the four threads of a quad, in each of them.
__device__ __forceinline__ float quad_sum(float x) {
    x += __shfl_xor_sync(~0u, x, 1);
    return x + __shfl_xor_sync(~0u, x, 2);
}

#ifndef CALIBRATE_FILLED
/// Bytes of shared memory that are filled with 1.0 of fp16 first: what the tensor core multiplies.
#define CALIBRATE_FILLED SHARED_BYTES
#endif

constexpr int SHARED_BYTES = 200 * 1024;
constexpr int SAMPLES = 7;
/// Bytes of global memory each CTA streams by TMA: 132 of them stay in L2 together.
constexpr int REGION_BYTES = 256 * 1024;
constexpr int ROW_BYTES = 128;

// ---- harness -----------------------------------------------------------------------------------------------------

/// What a body may use: its shared memory, the tensor map of the streamed buffer, and its own warp group.
struct Site {
    uint32_t shared;
    const CUtensorMap* map;
    uint32_t group;
    /// Always zero, unknown to the compiler.
    int zero;
    /// The address of tensor memory, where there is some.
    uint32_t tensor = 0;
};

template <class Body>
__global__ void __launch_bounds__(Body::THREADS, 1)
    timed(const __grid_constant__ CUtensorMap map, long long* spans, int repeats, int zero) {
    extern __shared__ __align__(1024) uint8_t memory[];
    __shared__ long long begin[12], end[12];
    for (int i = threadIdx.x; i < CALIBRATE_FILLED / 4; i += blockDim.x) reinterpret_cast<uint32_t*>(memory)[i] = 0x3c003c00;
    fence_async_shared();
    Site site{shared_address(memory), &map, threadIdx.x / 128, zero};
    if (threadIdx.x == 0) Body::prepare(site);
    mbarrier_init_fence();
    Body::enter(site);
    __syncthreads();
    Body::ready(site);
    long long start = clock64();
    Body::run(site, repeats);
    long long stop = clock64();
    Body::finish(site, repeats);
    if (threadIdx.x % 32 == 0) begin[threadIdx.x / 32] = start, end[threadIdx.x / 32] = stop;
    __syncthreads();
    Body::leave(site);
    if (threadIdx.x != 0) return;
    unsigned warps = blockDim.x / 32 - (Body::NEIGHBOUR ? 4 : 0);
    for (unsigned i = 1; i < warps; ++i) begin[0] = min(begin[0], begin[i]), end[0] = max(end[0], end[i]);
    spans[blockIdx.x] = end[0] - begin[0];
}

/// The buffers and the tensor map shared by all measurements.
struct Bench {
    CUtensorMap map;
    long long* spans;
    int blocks;
    void* data;
};

template <class Body>
void launch(const Bench& bench, int threads, int blocks, int repeats) {
    cudaLaunchAttribute cluster;
    cluster.id = cudaLaunchAttributeClusterDimension;
    cluster.val.clusterDim.x = Body::CLUSTER, cluster.val.clusterDim.y = 1, cluster.val.clusterDim.z = 1;
    cudaLaunchConfig_t config = {};
    config.gridDim = blocks, config.blockDim = threads, config.dynamicSmemBytes = SHARED_BYTES;
    config.attrs = &cluster, config.numAttrs = Body::CLUSTER > 1;
    CHECK(cudaLaunchKernelEx(&config, timed<Body>, bench.map, bench.spans, repeats, 0));
}

/// Median over samples of the median over CTAs of one launch's cycles.
template <class Body>
double cycles(const Bench& bench, int threads, int blocks, int repeats) {
    CHECK(cudaFuncSetAttribute(timed<Body>, cudaFuncAttributeMaxDynamicSharedMemorySize, SHARED_BYTES));
    std::vector<double> medians;
    for (int sample = 0; sample <= SAMPLES; ++sample) {
        launch<Body>(bench, threads, blocks, repeats);
        CHECK(cudaDeviceSynchronize());
        std::vector<long long> spans(blocks);
        CHECK(cudaMemcpy(spans.data(), bench.spans, blocks * sizeof(long long), cudaMemcpyDeviceToHost));
        std::nth_element(spans.begin(), spans.begin() + blocks / 2, spans.end());
        if (sample > 0) medians.push_back(double(spans[blocks / 2]));
    }
    std::nth_element(medians.begin(), medians.begin() + SAMPLES / 2, medians.end());
    return medians[SAMPLES / 2];
}

/// Measures `Body` and prints its record. `parameters` is the inside of a JSON object.
template <class Body>
void report(const Bench& bench, const char* name, const std::string& parameters, int threads = 128, int blocks = 1,
            int low = 16, int high = 80) {
    auto run = [&](int repeats) { return cycles<Body>(bench, threads, blocks, repeats); };
    std::string once = Body::NEIGHBOUR ? "null" : std::to_string(run(1) - run(0));
    double each = (run(high) - run(low)) / (high - low);
    std::printf("{\"name\": \"%s\", \"parameters\": {%s}, \"once\": %s, \"each\": %.2f}\n", name, parameters.c_str(),
                once.c_str(), each);
}

/// What most bodies share: nothing to prepare or finish, and all their warps are timed.
struct Plain {
    static constexpr bool NEIGHBOUR = false;
    /// The most threads a CTA has: registers a thread are capped accordingly.
    static constexpr int THREADS = 256;
    /// CTAs of a cluster.
    static constexpr int CLUSTER = 1;
    /// By one thread, by all threads, and by all threads behind the barrier that follows; then what is timed.
    static __device__ void prepare(const Site&) {}
    static __device__ void enter(const Site&) {}
    static __device__ void ready(Site&) {}
    /// By all threads: in front of the last barrier, and behind it.
    static __device__ void finish(const Site&, int) {}
    static __device__ void leave(const Site&) {}
};

/// Makes `x` a result: stored if a value unknown to the compiler is not what it always is.
template <int Count>
__device__ __forceinline__ void keep(const Site& site, float (&x)[Count]) {
    if (site.zero == 0) return;
#pragma unroll
    for (int i = 0; i < Count; ++i) asm volatile("st.shared.f32 [%0], %1;" ::"r"(site.shared + 4 * i), "f"(x[i]));
}

// ---- elementwise: one repeat is one operation on a 64 x 128 tile held as an accumulator, 64 registers a thread -------

constexpr int HELD = 64;

/// Loads the tile from values the compiler does not know, applies `Step` to it `repeats` times, and keeps the result.
template <class Step>
struct Elementwise : Plain {
    static __device__ void run(const Site& site, int repeats) {
        float x[HELD], y = site.zero + 0.5f;
#pragma unroll
        for (int i = 0; i < HELD; ++i) x[i] = site.zero + float(i + threadIdx.x);
        for (int r = 0; r < repeats; ++r) {
#pragma unroll
            for (int i = 0; i < HELD; ++i) Step::apply(x[i], y);
        }
        keep(site, x);
    }
};

#define STEP(STRUCT, TEXT)                                                                       \
    struct STRUCT {                                                                              \
        static __device__ __forceinline__ void apply(float& x, float y) {                       \
            asm volatile(TEXT : "+f"(x) : "f"(y));                                               \
        }                                                                                        \
    };
STEP(Exp2, "ex2.approx.ftz.f32 %0, %0;")
STEP(Log2, "lg2.approx.ftz.f32 %0, %0;")
STEP(ReciprocalRoot, "rsqrt.approx.ftz.f32 %0, %0;")
STEP(Add, "add.ftz.f32 %0, %0, %1;")
STEP(Multiply, "mul.ftz.f32 %0, %0, %1;")
STEP(Fma, "fma.rn.ftz.f32 %0, %0, %1, %1;")
STEP(Maximum, "max.ftz.f32 %0, %0, %1;")
STEP(Select, "{\n.reg .pred p;\nsetp.gt.ftz.f32 p, %0, %1;\nselp.f32 %0, %0, %1, p;\n}")
STEP(FmaExp2, "fma.rn.ftz.f32 %0, %0, %1, %1;\nex2.approx.ftz.f32 %0, %0;")
STEP(ShuffleAdd, "{\n.reg .f32 other;\nshfl.sync.bfly.b32 other, %0, 1, 31, -1;\nadd.ftz.f32 %0, %0, other;\n}")

/// One ex2 and `Count` steps of another kind on other registers, 16 times: what co-issues with the special functions.
template <class Step, int Count>
struct BesideExp2 : Plain {
    static __device__ void run(const Site& site, int repeats) {
        float x[16], other[32], y = site.zero + 0.5f;
#pragma unroll
        for (int i = 0; i < 16; ++i) x[i] = site.zero + float(i + threadIdx.x);
#pragma unroll
        for (int i = 0; i < 32; ++i) other[i] = site.zero + float(i + threadIdx.x);
        for (int r = 0; r < repeats; ++r) {
#pragma unroll
            for (int i = 0; i < 16; ++i) {
                Exp2::apply(x[i], y);
#pragma unroll
                for (int k = 0; k < Count; ++k) Step::apply(other[(i * Count + k) % 32], y);
            }
        }
        keep(site, x);
        keep(site, other);
    }
};

/// A chain of dependent steps on one register, 16 long: the latency of a step.
template <class Step>
struct Chain : Plain {
    static __device__ void run(const Site& site, int repeats) {
        float x[1] = {site.zero + float(threadIdx.x)}, y = site.zero + 0.5f;
        for (int r = 0; r < repeats; ++r) {
#pragma unroll
            for (int i = 0; i < 16; ++i) Step::apply(x[0], y);
        }
        keep(site, x);
    }
};

/// Packs the tile's 64 fp32 registers into 32 of `Pack`'s type; repeats depend through the packed bits.
template <uint32_t (*Pack)(float, float)>
struct Convert : Plain {
    static __device__ void run(const Site& site, int repeats) {
        float x[HELD];
#pragma unroll
        for (int i = 0; i < HELD; ++i) x[i] = site.zero + float(i + threadIdx.x);
        for (int r = 0; r < repeats; ++r) {
#pragma unroll
            for (int i = 0; i < HELD; i += 2) x[i] = __uint_as_float(Pack(x[i], x[i + 1]));
        }
        keep(site, x);
    }
};
__device__ uint32_t wide_e4m3(float low, float high) { return pack_e4m3(low, high); }

/// Makes the tile's 64 f16 elements of a thread from e4m3, two at a time; repeats depend through the bits.
struct Unpack : Plain {
    static __device__ void run(const Site& site, int repeats) {
        uint32_t x[HELD / 2];
#pragma unroll
        for (int i = 0; i < HELD / 2; ++i) x[i] = uint32_t(site.zero) + i + threadIdx.x;
        for (int r = 0; r < repeats; ++r) {
#pragma unroll
            for (int i = 0; i < HELD / 2; ++i)
                asm volatile("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(x[i]) : "h"(uint16_t(x[i])));
        }
        float kept[HELD / 2];
#pragma unroll
        for (int i = 0; i < HELD / 2; ++i) kept[i] = __uint_as_float(x[i]);
        keep(site, kept);
    }
};

/// Row maximum or sum of a 64 x 2*Held tile: two rows a thread, then two shuffles in the quad; repeats depend.
template <int Held, bool Sum>
struct Reduce : Plain {
    static __device__ void run(const Site& site, int repeats) {
        float x[Held];
#pragma unroll
        for (int i = 0; i < Held; ++i) x[i] = site.zero + float(i + threadIdx.x);
        for (int r = 0; r < repeats; ++r) {
            float row[2] = {x[0], x[2]};
#pragma unroll
            for (int i = 0; i < Held; ++i) {
                if (i == 0 || i == 2) continue;
                float& kept = row[i / 2 % 2];
                kept = Sum ? kept + x[i] : fmaxf(kept, x[i]);
            }
#pragma unroll
            for (int i = 0; i < 2; ++i) x[2 * i] = Sum ? quad_sum(row[i]) : quad_max(row[i]);
        }
        keep(site, x);
    }
};

// ---- shared memory: one repeat moves 64 x 128 fp16 by a warp group, 16 bytes a lane and instruction ------------------

constexpr int MOVES = 64 * 128 * 2 / (128 * 16);

struct StoreMatrix : Plain {
    static __device__ void run(const Site& site, int repeats) {
        uint32_t address = site.shared + threadIdx.x * 16;
        for (int r = 0; r < repeats; ++r) {
#pragma unroll
            for (int i = 0; i < MOVES; ++i) stmatrix_x4(address + 4096 * i, r, r, r, r);
        }
    }
};

/// Loads `Moves` times 2 KB by a warp group and folds what it loads into `folded`, so that no load is dead.
template <int Moves>
__device__ __forceinline__ void load_folded(uint32_t address, uint32_t& folded) {
    uint32_t m[Moves][4];
#pragma unroll
    for (int i = 0; i < Moves; ++i) ldmatrix_x4(m[i], address + 2048 * i);
#pragma unroll
    for (int i = 0; i < Moves; ++i) folded ^= m[i][0] ^ m[i][1] ^ m[i][2] ^ m[i][3];
}

struct LoadMatrix : Plain {
    static __device__ void run(const Site& site, int repeats) {
        uint32_t folded = 0;
        for (int r = 0; r < repeats; ++r) load_folded<MOVES>(site.shared + threadIdx.x * 16 + r % 8 * 16384, folded);
        float result[1] = {__uint_as_float(folded)};
        keep(site, result);
    }
};

// ---- interference: warp groups run one body while the last keeps the tensor core busy with another ---------------------

template <class Body, class Neighbour>
struct Beside : Plain {
    static constexpr bool NEIGHBOUR = true;
    static constexpr int THREADS = 384;
    /// Instructions of the neighbour per repeat: more than any body needs to finish first.
    static constexpr int LOAD = 48;
    static __device__ void run(const Site& site, int repeats) {
        if (site.group + 1 < blockDim.x / 128) Body::run(site, repeats);
        else Neighbour::run(site, repeats * LOAD);
    }
};

// ---- TMA -------------------------------------------------------------------------------------------------------------

/// Rows of 128 bytes in one box of the streamed buffer: 8 KB.
constexpr int BOX_ROWS = 64;
constexpr int BOX_BYTES = BOX_ROWS * ROW_BYTES;
constexpr uint32_t TMA_SLOTS = 16;

__device__ void load_box(const Site& site, int box, uint32_t barrier) {
    int rows = REGION_BYTES / ROW_BYTES;
    tma_load(site.shared + 1024 + (box % TMA_SLOTS) * BOX_BYTES, site.map, barrier, 0,
             int(blockIdx.x) * rows + box * BOX_ROWS % rows);
}

struct OneBarrier : Plain {
    static __device__ void prepare(const Site& site) { mbarrier_init(site.shared, 1); }
};

/// One repeat loads `Boxes` boxes and waits for them, before the next.
template <int Boxes>
struct TmaLatency : OneBarrier {
    static __device__ void run(const Site& site, int repeats) {
        if (threadIdx.x != 0) return;
        for (int r = 0; r < repeats; ++r) {
            mbarrier_arrive_expect(site.shared, Boxes * BOX_BYTES);
#pragma unroll
            for (int i = 0; i < Boxes; ++i) load_box(site, r * Boxes + i, site.shared);
            mbarrier_wait(site.shared, r & 1);
        }
    }
};

/// All repeats in flight at once, one box each; one wait for all.
struct TmaThroughput : OneBarrier {
    static __device__ void run(const Site& site, int repeats) {
        if (threadIdx.x != 0 || repeats == 0) return;
        mbarrier_arrive_expect(site.shared, repeats * BOX_BYTES);
        for (int r = 0; r < repeats; ++r) load_box(site, r, site.shared);
        mbarrier_wait(site.shared, 0);
    }
};

/// The issuing thread's own time; the boxes are waited for outside the region.
struct TmaIssue : OneBarrier {
    static __device__ void run(const Site& site, int repeats) {
        if (threadIdx.x != 0) return;
        for (int r = 0; r < repeats; ++r) load_box(site, r, site.shared);
    }
    static __device__ void finish(const Site& site, int repeats) {
        if (threadIdx.x != 0) return;
        mbarrier_arrive_expect(site.shared, repeats * BOX_BYTES);
        mbarrier_wait(site.shared, 0);
    }
};

// ---- synchronization between two warp groups ---------------------------------------------------------------------------

/// Round trip over two mbarriers: one thread of a group arrives, all threads of the other wait.
struct MbarrierRoundTrip : Plain {
    static __device__ void prepare(const Site& site) {
        mbarrier_init(site.shared, 1);
        mbarrier_init(site.shared + 8, 1);
    }
    static __device__ void run(const Site& site, int repeats) {
        bool first = threadIdx.x % 128 == 0;
        for (int r = 0; r < repeats; ++r) {
            if (site.group == 0) {
                if (first) mbarrier_arrive(site.shared);
                mbarrier_wait(site.shared + 8, r & 1);
            } else {
                mbarrier_wait(site.shared, r & 1);
                if (first) mbarrier_arrive(site.shared + 8);
            }
        }
    }
};

/// Round trip over two named barriers: arrive on the one, sync on the other.
struct NamedRoundTrip : Plain {
    static __device__ void run(const Site& site, int repeats) {
        for (int r = 0; r < repeats; ++r) {
            if (site.group == 0) named_barrier_arrive(1, 256), named_barrier_sync(2, 256);
            else named_barrier_sync(1, 256), named_barrier_arrive(2, 256);
        }
    }
};

/// Every thread of the CTA syncs on one named barrier.
struct NamedSync : Plain {
    static __device__ void run(const Site&, int repeats) {
        for (int r = 0; r < repeats; ++r) named_barrier_sync(1, blockDim.x);
    }
};

/// An arrival and a wait on a completed phase: what the instructions cost a group that never has to wait.
struct MbarrierIssue : OneBarrier {
    static __device__ void run(const Site& site, int repeats) {
        if (threadIdx.x >= 32) return;
        for (int r = 0; r < repeats; ++r) {
            if (threadIdx.x == 0) mbarrier_arrive(site.shared);
            mbarrier_wait(site.shared, r & 1);
        }
    }
};

/// One group stores a tile of `Moves` x 2 KB and signals, the other loads it and signals back.
template <int Moves>
struct HandOver : Plain {
    static __device__ void prepare(const Site& site) {
        mbarrier_init(site.shared, 128);
        mbarrier_init(site.shared + 8, 128);
    }
    static __device__ void run(const Site& site, int repeats) {
        uint32_t address = site.shared + 1024 + threadIdx.x % 128 * 16, folded = 0;
        for (int r = 0; r < repeats; ++r) {
            if (site.group == 0) {
#pragma unroll
                for (int i = 0; i < Moves; ++i) stmatrix_x4(address + 2048 * i, r, i, r, i);
                mbarrier_arrive(site.shared);
                mbarrier_wait(site.shared + 8, r & 1);
            } else {
                mbarrier_wait(site.shared, r & 1);
                load_folded<Moves>(address, folded);
                mbarrier_arrive(site.shared + 8);
            }
        }
        float result[1] = {__uint_as_float(folded)};
        keep(site, result);
    }
};

// ---- records that all architectures have --------------------------------------------------------------------------

/// One record per number of warp groups; each group holds its own 64 x 128 tile.
template <class Body>
void report_groups(const Bench& bench, const char* name, const std::string& parameters) {
    for (int groups : {1, 2}) {
        std::string suffix = ", \"groups\": " + std::to_string(groups);
        report<Body>(bench, name, parameters + suffix, 128 * groups);
    }
}

void report_elementwise(const Bench& bench) {
    std::string tile = "\"m\": 64, \"n\": 128";
    report_groups<Elementwise<Exp2>>(bench, "exp2", tile);
    report_groups<Elementwise<Log2>>(bench, "log2", tile);
    report_groups<Elementwise<ReciprocalRoot>>(bench, "reciprocal_root", tile);
    report_groups<Elementwise<Add>>(bench, "add", tile);
    report_groups<Elementwise<Multiply>>(bench, "multiply", tile);
    report_groups<Elementwise<Fma>>(bench, "fma", tile);
    report_groups<Elementwise<Maximum>>(bench, "maximum", tile);
    report_groups<Elementwise<Select>>(bench, "select", tile);
    report_groups<Elementwise<FmaExp2>>(bench, "fma_exp2", tile);
    report_groups<Elementwise<ShuffleAdd>>(bench, "shuffle_add", tile);
    report_groups<Convert<pack_f16>>(bench, "convert_f16", tile);
    report_groups<Convert<pack_bf16>>(bench, "convert_bf16", tile);
    report_groups<Convert<wide_e4m3>>(bench, "convert_e4m3", tile);
    report_groups<Unpack>(bench, "unpack_e4m3", tile);
    report_groups<StoreMatrix>(bench, "store_matrix", tile);
    report_groups<LoadMatrix>(bench, "load_matrix", tile);
}

template <int Held>
void report_reduce(const Bench& bench) {
    std::string tile = "\"m\": 64, \"n\": " + std::to_string(2 * Held);
    report_groups<Reduce<Held, false>>(bench, "row_maximum", tile);
    report_groups<Reduce<Held, true>>(bench, "row_sum", tile);
}

template <int Boxes>
void report_tma_latency(const Bench& bench) {
    std::string bytes = "\"bytes\": " + std::to_string(Boxes * BOX_BYTES);
    report<TmaLatency<Boxes>>(bench, "tma_latency", bytes);
}

template <int Moves>
void report_hand_over(const Bench& bench) {
    report<HandOver<Moves>>(bench, "hand_over_round_trip", "\"bytes\": " + std::to_string(Moves * 2048), 256);
}

void report_movement(const Bench& bench) {
    report_tma_latency<1>(bench);
    report_tma_latency<2>(bench);
    report_tma_latency<4>(bench);
    report_tma_latency<8>(bench);
    std::string bytes = "\"bytes\": " + std::to_string(BOX_BYTES);
    report<TmaThroughput>(bench, "tma_throughput", bytes + ", \"ctas\": 1", 128, 1, 32, 96);
    report<TmaThroughput>(bench, "tma_throughput", bytes + ", \"ctas\": " + std::to_string(bench.blocks), 128,
                          bench.blocks, 32, 96);
    report<TmaIssue>(bench, "tma_issue", bytes, 128, 1, 1, 5);
}

void report_synchronization(const Bench& bench) {
    report<MbarrierRoundTrip>(bench, "mbarrier_round_trip", "", 256);
    report<NamedRoundTrip>(bench, "named_barrier_round_trip", "", 256);
    report<NamedSync>(bench, "named_barrier_sync", "\"groups\": 1", 128);
    report<NamedSync>(bench, "named_barrier_sync", "\"groups\": 2", 256);
    report<MbarrierIssue>(bench, "mbarrier_arrive_and_wait", "");
    report_hand_over<1>(bench);
    report_hand_over<2>(bench);
    report_hand_over<4>(bench);
    report_hand_over<8>(bench);
    report_hand_over<16>(bench);
}

// ---- host ------------------------------------------------------------------------------------------------------------------

/// A map of `rows` rows of 64 fp16, boxes of 64 rows, 128-byte swizzle; the driver's encoder is looked up by name.
CUtensorMap encode(void* data, uint64_t rows) {
    using Encode = decltype(&cuTensorMapEncodeTiled);
    void* driver = dlopen("libcuda.so.1", RTLD_NOW);
    auto encoder = driver ? reinterpret_cast<Encode>(dlsym(driver, "cuTensorMapEncodeTiled")) : nullptr;
    CUtensorMap map;
    cuuint64_t sizes[2] = {ROW_BYTES / 2, rows}, strides[1] = {ROW_BYTES};
    cuuint32_t box[2] = {ROW_BYTES / 2, BOX_ROWS}, steps[2] = {1, 1};
    if (!encoder || encoder(&map, CU_TENSOR_MAP_DATA_TYPE_FLOAT16, 2, data, sizes, strides, box, steps,
                            CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
                            CU_TENSOR_MAP_L2_PROMOTION_NONE, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE) != CUDA_SUCCESS) {
        std::fprintf(stderr, "cannot encode a tensor map\n");
        std::exit(1);
    }
    return map;
}

/// The buffers and the tensor map, on this machine's GPU; prints what that is.
Bench opened() {
    cudaDeviceProp device;
    CHECK(cudaGetDeviceProperties(&device, 0));
    Bench bench;
    bench.blocks = device.multiProcessorCount;
    size_t bytes = size_t(REGION_BYTES) * bench.blocks;
    CHECK(cudaMalloc(&bench.data, bytes));
    CHECK(cudaMemset(bench.data, 0, bytes));
    CHECK(cudaMalloc(&bench.spans, bench.blocks * sizeof(long long)));
    bench.map = encode(bench.data, bytes / ROW_BYTES);
    std::printf("{\"device\": \"%s\", \"multiprocessors\": %d}\n", device.name, bench.blocks);
    return bench;
}

void closed(const Bench& bench) {
    CHECK(cudaFree(bench.data));
    CHECK(cudaFree(bench.spans));
}
