// Microbenchmarks of one Blackwell multiprocessor: tcgen05, tensor memory, packed arithmetic, TMA stores.
#include "common.cuh"
#include "tcgen05.cuh"
#include "warp_mma.cuh"

// ---- tensor memory: all 512 columns, held by every body below --------------------------------------------------------

/// Where things lie in shared memory: mbarriers from 0 on, the address of tensor memory, tiles.
constexpr uint32_t TENSOR_WORD = 64, TILES = 1024;
/// The columns of the accumulators; behind them lie operands and scale factors, zeros.
constexpr uint32_t OPERANDS = 256;

/// This thread's lanes of tensor memory.
__device__ __forceinline__ uint32_t lanes(const Site& site) { return site.tensor + (threadIdx.x / 32 % 4 << 21); }

template <int Ctas>
struct OnTensorMemory : Plain {
    static constexpr int CLUSTER = Ctas;
    static __device__ void prepare(const Site& site) {
        mbarrier_init(site.shared, 1);
        mbarrier_init(site.shared + 8, 4);
    }
    static __device__ void enter(const Site& site) {
        if (threadIdx.x < 32) tensor_memory_allocate<512, Ctas>(site.shared + TENSOR_WORD);
    }
    static __device__ void ready(Site& site) {
        tcgen05_fence_after();
        asm volatile("ld.shared.u32 %0, [%1];" : "=r"(site.tensor) : "r"(site.shared + TENSOR_WORD) : "memory");
        const uint32_t zeros[32] = {};
        if (threadIdx.x < 128) {
            for (uint32_t column = 0; column < 512; column += 32) tensor_memory_store(lanes(site) + column, zeros);
            tensor_memory_wait_store();
        }
        tcgen05_fence_before();
        if constexpr (Ctas > 1) cluster_sync();
        else __syncthreads();
        tcgen05_fence_after();
    }
    static __device__ void leave(const Site& site) {
        if constexpr (Ctas > 1) cluster_sync();
        if (threadIdx.x >= 32) return;
        tensor_memory_relinquish<Ctas>();
        tensor_memory_free<512, Ctas>(site.tensor);
    }
};

// ---- tensor core: one repeat is one instruction, all in flight at once -----------------------------------------------

#define KIND(STRUCT, FUNCTION, TYPE)                                                                          \
    struct STRUCT {                                                                                           \
        template <int Ctas, class A>                                                                          \
        static __device__ void issue(const Site& site, A a, uint64_t b, uint32_t m, uint32_t n, uint32_t add) { \
            FUNCTION<Ctas>(site.tensor, a, b, instruction_descriptor(TYPE, TYPE, false, false, m, n), add);   \
        }                                                                                                     \
    };
#define SCALED_KIND(STRUCT, FUNCTION, TYPE, SCALE)                                                            \
    struct STRUCT {                                                                                           \
        template <int Ctas, class A>                                                                          \
        static __device__ void issue(const Site& site, A a, uint64_t b, uint32_t m, uint32_t n, uint32_t add) { \
            uint32_t instruction = scaled_instruction_descriptor(TYPE, TYPE, false, false, m, n, SCALE, 0, 0); \
            FUNCTION<Ctas>(site.tensor, a, b, instruction, site.tensor + OPERANDS, site.tensor + OPERANDS + 64, add); \
        }                                                                                                     \
    };
KIND(KindF16, tcgen05_mma_f16, F16)
KIND(KindBf16, tcgen05_mma_f16, BF16)
KIND(KindTf32, tcgen05_mma_tf32, TF32)
KIND(KindE4m3, tcgen05_mma_f8f6f4, E4M3)
SCALED_KIND(KindMxf8, tcgen05_mma_mxf8f6f4, E4M3, UE8M0)
SCALED_KIND(KindMxf4, tcgen05_mma_mxf4, MXF4_E2M1, UE8M0)
SCALED_KIND(KindNvf4, tcgen05_mma_mxf4nvf4, MXF4_E2M1, UE4M3)

/// Whether this thread issues MMAs, and signals their completion to all CTAs.
template <int Ctas>
__device__ __forceinline__ bool issuer() {
    return threadIdx.x == 0 && (Ctas == 1 || cluster_rank() == 0);
}
template <int Ctas>
__device__ __forceinline__ void commit(uint32_t barrier) {
    if constexpr (Ctas == 1) tcgen05_commit(barrier);
    else tcgen05_commit_pair(barrier, 3);
}

/// M and N of the instruction, which may be one of a pair of CTAs; A from shared or tensor memory.
template <class Kind, int M, int N, bool FromTensor = false, int Ctas = 1>
struct Mma : OnTensorMemory<Ctas> {
    static __device__ void run(const Site& site, int repeats) {
        if (repeats == 0 || threadIdx.x != 0) return;
        if (issuer<Ctas>()) {
            const uint64_t a = tcgen05_descriptor<128>(site.shared + TILES);
            const uint64_t b = tcgen05_descriptor<128>(site.shared + TILES + 16384);
            for (int r = 0; r < repeats; ++r) {
                if constexpr (FromTensor) Kind::template issue<Ctas>(site, site.tensor + OPERANDS, b, M, N, r > 0);
                else Kind::template issue<Ctas>(site, a, b, M, N, r > 0);
            }
            commit<Ctas>(site.shared);
        }
        mbarrier_wait(site.shared, 0);
    }
};

/// One repeat copies the scale factors of 128 rows, four of each, all in flight at once.
struct TensorCopy : OnTensorMemory<1> {
    static __device__ void run(const Site& site, int repeats) {
        if (repeats == 0 || threadIdx.x != 0) return;
        for (int r = 0; r < repeats; ++r) tcgen05_copy(site.tensor + r % 64 * 4, site.shared + TILES + r % 64 * 512);
        tcgen05_commit(site.shared);
        mbarrier_wait(site.shared, 0);
    }
};

/// One repeat is an MMA that a warp issues when all warps of a group have loaded the result of the one before.
template <int Columns>
struct MmaRoundTrip : OnTensorMemory<1> {
    static __device__ void run(const Site& site, int repeats) {
        if (site.group == 1 && threadIdx.x == 128) {
            const uint64_t a = tcgen05_descriptor<128>(site.shared + TILES);
            const uint64_t b = tcgen05_descriptor<128>(site.shared + TILES + 16384);
            for (int r = 0; r < repeats; ++r) {
                if (r > 0) mbarrier_wait(site.shared + 8, (r - 1) & 1);
                tcgen05_fence_after();
                KindF16::issue<1>(site, a, b, 128, 128, 0);
                tcgen05_commit(site.shared);
            }
        } else if (site.group == 0) {
            float x[Columns];
            for (int r = 0; r < repeats; ++r) {
                mbarrier_wait(site.shared, r & 1);
                tcgen05_fence_after();
                tensor_memory_load_tile(x, lanes(site));
                tcgen05_fence_before();
                __syncwarp();
                if (threadIdx.x % 32 == 0) mbarrier_arrive(site.shared + 8);
            }
            if (repeats > 0) keep(site, x);
        }
    }
};

// ---- tensor memory and registers: one repeat moves 128 lanes x 128 columns by a warp group -----------------------------

struct TensorLoad : OnTensorMemory<1> {
    static __device__ void run(const Site& site, int repeats) {
        float x[128];
        for (int r = 0; r < repeats; ++r) tensor_memory_load_tile(x, lanes(site) + site.group * 128);
        if (repeats > 0) keep(site, x);
    }
};

struct TensorStore : OnTensorMemory<1> {
    static __device__ void run(const Site& site, int repeats) {
        float x[32];
#pragma unroll
        for (int i = 0; i < 32; ++i) x[i] = site.zero + float(i);
        for (int r = 0; r < repeats; ++r) {
#pragma unroll
            for (int i = 0; i < 4; ++i) tensor_memory_store(lanes(site) + site.group * 128 + 32 * i, x);
            tensor_memory_wait_store();
        }
    }
};

/// A maximum over a row that a thread holds, in four chains: 128 columns; repeats depend.
struct RowMaximum : Plain {
    static __device__ void run(const Site& site, int repeats) {
        float x[128];
#pragma unroll
        for (int i = 0; i < 128; ++i) x[i] = site.zero + float(i + threadIdx.x);
        for (int r = 0; r < repeats; ++r) {
            float chains[4] = {x[0], x[1], x[2], x[3]};
#pragma unroll
            for (int i = 4; i < 128; ++i) chains[i % 4] = fmaxf(chains[i % 4], x[i]);
            x[r % 2] = fmaxf(fmaxf(chains[0], chains[1]), fmaxf(chains[2], chains[3]));
        }
        keep(site, x);
    }
};

// ---- packed and integer arithmetic -----------------------------------------------------------------------------------

/// As `Elementwise`, on pairs of registers: the same number of elements.
template <class Step>
struct Packed : Plain {
    static __device__ void run(const Site& site, int repeats) {
        float2 x[HELD / 2], y{site.zero + 0.5f, site.zero + 0.25f};
#pragma unroll
        for (int i = 0; i < HELD / 2; ++i) x[i] = float2{site.zero + float(i), float(threadIdx.x)};
        for (int r = 0; r < repeats; ++r) {
#pragma unroll
            for (int i = 0; i < HELD / 2; ++i) x[i] = Step::apply(x[i], y);
        }
        float result[HELD];
#pragma unroll
        for (int i = 0; i < HELD / 2; ++i) result[2 * i] = x[i].x, result[2 * i + 1] = x[i].y;
        keep(site, result);
    }
};
struct AddPair { static __device__ float2 apply(float2 x, float2 y) { return add_pair(x, y); } };
struct MultiplyPair { static __device__ float2 apply(float2 x, float2 y) { return multiply_pair(x, y); } };
struct FmaPair { static __device__ float2 apply(float2 x, float2 y) { return fma_pair(x, y, y); } };
struct PolynomialPair { static __device__ float2 apply(float2 x, float2) { return exp2_polynomial_pair(x); } };

#define INTEGER_STEP(STRUCT, TEXT) \
    STEP(STRUCT, "{\n.reg .b32 x, y;\nmov.b32 x, %0;\nmov.b32 y, %1;\n" TEXT "\nmov.b32 %0, x;\n}")
INTEGER_STEP(IntegerAdd, "add.s32 x, x, y;")
INTEGER_STEP(IntegerMultiply, "mad.lo.s32 x, x, y, y;")
INTEGER_STEP(IntegerMinimum, "min.s32 x, x, y;")
INTEGER_STEP(Shift, "shl.b32 x, x, 1;")
INTEGER_STEP(Logic, "xor.b32 x, x, y;")
STEP(Floor, "cvt.rmi.f32.f32 %0, %0;")

// ---- tensor core, by single warps ------------------------------------------------------------------------------------

/// One repeat is an instruction of 16 x 8 on each of eight accumulators of a warp, which depend on those of before.
template <class Element, class Sum>
struct WarpMma : Plain {
    static __device__ void run(const Site& site, int repeats) {
        Sum d[8][4] = {};
        const uint32_t word = __float_as_uint(site.zero), a[4] = {word, word, word, word}, b[2] = {word, word};
        for (int r = 0; r < repeats; ++r) {
#pragma unroll
            for (int i = 0; i < 8; ++i) mma_sync(d[i], a, b, Element());
        }
        float result[8];
#pragma unroll
        for (int i = 0; i < 8; ++i) result[i] = float(d[i][0]);
        keep(site, result);
    }
};

// ---- TMA from shared memory: all repeats in flight at once, one box each -------------------------------------------------

template <bool Reduce>
struct TmaStore : Plain {
    static __device__ void run(const Site& site, int repeats) {
        if (threadIdx.x != 0 || repeats == 0) return;
        const int rows = REGION_BYTES / ROW_BYTES;
        for (int r = 0; r < repeats; ++r) {
            const uint32_t from = site.shared + TILES + r % TMA_SLOTS * BOX_BYTES;
            const int row = int(blockIdx.x) * rows + r * BOX_ROWS % rows;
            if constexpr (Reduce) tma_add(site.map, from, 0, row);
            else tma_store(site.map, from, 0, row);
            tma_commit();
        }
        tma_wait<0>();
    }
};

// ---- the list ------------------------------------------------------------------------------------------------------------

/// Elements along K of one instruction: 32 bytes of a row.
template <class Kind, int M, int N, bool FromTensor = false, int Ctas = 1>
void report_mma(const Bench& bench, const char* kind, int k) {
    std::string shape = "\"kind\": \"" + std::string(kind) + "\", \"m\": " + std::to_string(M) + ", \"n\": " +
                        std::to_string(N) + ", \"k\": " + std::to_string(k) + ", \"ctas\": " + std::to_string(Ctas) +
                        ", \"a\": \"" + (FromTensor ? "tensor" : "shared") + "\"";
    report<Mma<Kind, M, N, FromTensor, Ctas>>(bench, "mma", shape, 128, Ctas, 32, 160);
}

template <class Kind>
void report_kind(const Bench& bench, const char* kind, int k) {
    report_mma<Kind, 64, 64>(bench, kind, k);
    report_mma<Kind, 64, 256>(bench, kind, k);
    report_mma<Kind, 128, 64>(bench, kind, k);
    report_mma<Kind, 128, 128>(bench, kind, k);
    report_mma<Kind, 128, 256>(bench, kind, k);
    report_mma<Kind, 128, 128, true>(bench, kind, k);
    report_mma<Kind, 128, 256, true>(bench, kind, k);
    report_mma<Kind, 256, 256, false, 2>(bench, kind, k);
}

template <class Kind>
void report_scaled(const Bench& bench, const char* kind, int k) {
    report_mma<Kind, 128, 128>(bench, kind, k);
    report_mma<Kind, 128, 256>(bench, kind, k);
    report_mma<Kind, 256, 256, false, 2>(bench, kind, k);
}

void report_tensor_core(const Bench& bench) {
    report_kind<KindF16>(bench, "f16", 16);
    report_kind<KindBf16>(bench, "bf16", 16);
    report_kind<KindTf32>(bench, "tf32", 8);
    report_kind<KindE4m3>(bench, "f8f6f4", 32);
    report_scaled<KindMxf8>(bench, "mxf8f6f4", 32);
    report_scaled<KindMxf4>(bench, "mxf4", 64);
    report_scaled<KindNvf4>(bench, "mxf4nvf4", 64);
    report<TensorCopy>(bench, "tensor_copy", "\"bytes\": 512", 128, 1, 16, 64);
    report<MmaRoundTrip<8>>(bench, "mma_round_trip", "\"columns\": 8", 256);
    report<MmaRoundTrip<32>>(bench, "mma_round_trip", "\"columns\": 32", 256);
}

void report_warp_mma(const Bench& bench) {
    report<WarpMma<__half, float>>(bench, "warp_mma", "\"type\": \"f16\"");
    report<WarpMma<__nv_bfloat16, float>>(bench, "warp_mma", "\"type\": \"bf16\"");
    report<WarpMma<float, float>>(bench, "warp_mma", "\"type\": \"tf32\"");
    report<WarpMma<__nv_fp8_e4m3, float>>(bench, "warp_mma", "\"type\": \"e4m3\"");
    report<WarpMma<int8_t, int32_t>>(bench, "warp_mma", "\"type\": \"s8\"");
}

void report_tensor_memory(const Bench& bench) {
    std::string tile = "\"m\": 128, \"n\": 128";
    report_groups<TensorLoad>(bench, "tensor_load", tile);
    report_groups<TensorStore>(bench, "tensor_store", tile);
    report_groups<RowMaximum>(bench, "row_maximum_128", tile);
}

void report_arithmetic(const Bench& bench) {
    std::string tile = "\"m\": 64, \"n\": 128";
    report_groups<Packed<AddPair>>(bench, "add_pair", tile);
    report_groups<Packed<MultiplyPair>>(bench, "multiply_pair", tile);
    report_groups<Packed<FmaPair>>(bench, "fma_pair", tile);
    report_groups<Packed<PolynomialPair>>(bench, "exp2_polynomial", tile);
    report_groups<Elementwise<IntegerAdd>>(bench, "integer_add", tile);
    report_groups<Elementwise<IntegerMultiply>>(bench, "integer_multiply", tile);
    report_groups<Elementwise<IntegerMinimum>>(bench, "integer_minimum", tile);
    report_groups<Elementwise<Shift>>(bench, "shift", tile);
    report_groups<Elementwise<Logic>>(bench, "logic", tile);
    report_groups<Elementwise<Floor>>(bench, "floor", tile);
    report<Chain<Exp2>>(bench, "chain_16", "\"step\": \"exp2\"");
    report<Chain<Fma>>(bench, "chain_16", "\"step\": \"fma\"");
    report<Chain<Maximum>>(bench, "chain_16", "\"step\": \"maximum\"");
    report<Chain<ShuffleAdd>>(bench, "chain_16", "\"step\": \"shuffle_add\"");
    report_groups<BesideExp2<Fma, 4>>(bench, "exp2_16", "\"with\": \"fma\", \"ratio\": 4");
    report_groups<BesideExp2<Maximum, 4>>(bench, "exp2_16", "\"with\": \"maximum\", \"ratio\": 4");
}

void report_stores(const Bench& bench) {
    std::string bytes = "\"bytes\": " + std::to_string(BOX_BYTES) + ", \"ctas\": ";
    for (int blocks : {1, bench.blocks}) {
        report<TmaStore<false>>(bench, "tma_store", bytes + std::to_string(blocks), 128, blocks, 32, 96);
        report<TmaStore<true>>(bench, "tma_reduce", bytes + std::to_string(blocks), 128, blocks, 32, 96);
    }
}

int main() {
    Bench bench = opened();
    report_tensor_core(bench);
    report_warp_mma(bench);
    report_tensor_memory(bench);
    report_elementwise(bench);
    report_arithmetic(bench);
    report_reduce<32>(bench);
    report_reduce<64>(bench);
    report_movement(bench);
    report_stores(bench);
    report_synchronization(bench);
    closed(bench);
}
