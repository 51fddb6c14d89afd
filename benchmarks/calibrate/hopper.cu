// Microbenchmarks of one Hopper multiprocessor: wgmma, and what runs beside it.
#include "common.cuh"

// ---- tensor core: one repeat is one instruction and group, with three more in flight ----------------------------------------

// The first is peeled with `accumulate` 0, so that no ordinary instruction defines the accumulator: ptxas would
// otherwise serialize the loop's instructions (C7515).
#define MATRIX(STRUCT, N, CALL)                                                              \
    template <bool FromRegisters>                                                            \
    struct STRUCT : Plain {                                                                  \
        static __device__ void run(const Site& site, int repeats) {                          \
            if (repeats == 0) return;                                                        \
            float d[N / 2];                                                                  \
            const uint32_t fragment[4] = {site.zero + 1u, site.zero + 2u, site.zero + 3u, 4u}; \
            const uint64_t a = matrix_descriptor(site.shared + site.group * 8192);              \
            const uint64_t b = matrix_descriptor(site.shared + 16384);                          \
            auto issue = [&](int accumulate) {                                               \
                wgmma_fence();                                                               \
                if constexpr (FromRegisters) CALL(d, fragment, b, accumulate);               \
                else CALL(d, a, b, accumulate);                                              \
                wgmma_commit();                                                              \
            };                                                                               \
            issue(0);                                                                        \
            for (int i = 1; i < repeats; ++i) {                                              \
                issue(1);                                                                    \
                wgmma_wait<3>();                                                             \
            }                                                                                \
            wgmma_wait<0>();                                                                 \
            keep(site, d);                                                                   \
        }                                                                                    \
    };

#define MATRIX_16(N) TWILL_WGMMA_16(N, f16) MATRIX(F16_##N, N, wgmma_f16_f16_n##N)
#define MATRIX_8(N) TWILL_WGMMA_8(N, e4m3, e4m3) MATRIX(E4M3_##N, N, wgmma_e4m3_e4m3_n##N)
#define MATRIX_32(N) TWILL_WGMMA_32(N) MATRIX(TF32_##N, N, wgmma_tf32_tf32_n##N)
#define MATRIX_BF16(N) TWILL_WGMMA_16(N, bf16) MATRIX(BF16_##N, N, wgmma_bf16_bf16_n##N)
MATRIX_16(8)
MATRIX_16(16)
MATRIX_16(32)
MATRIX_16(64)
MATRIX_16(80)
MATRIX_16(96)
MATRIX_16(128)
MATRIX_16(160)
MATRIX_16(176)
MATRIX_16(192)
MATRIX_16(256)
MATRIX_BF16(128)
MATRIX_BF16(256)
MATRIX_8(64)
MATRIX_8(128)
MATRIX_8(256)
MATRIX_32(64)
MATRIX_32(128)
MATRIX_32(256)

template <template <bool> class Matrix>
void report_matrix(const Bench& bench, const char* type, int n, int k) {
    std::string shape = "\"type\": \"" + std::string(type) + "\", \"m\": 64, \"n\": " + std::to_string(n) +
                        ", \"k\": " + std::to_string(k);
    for (int groups : {1, 2}) {
        std::string suffix = ", \"groups\": " + std::to_string(groups) + ", \"a\": ";
        report<Matrix<false>>(bench, "wgmma", shape + suffix + "\"shared\"", 128 * groups);
        report<Matrix<true>>(bench, "wgmma", shape + suffix + "\"registers\"", 128 * groups);
    }
}

// ---- the list ------------------------------------------------------------------------------------------------------------

void report_tensor_core(const Bench& bench) {
    report_matrix<F16_8>(bench, "f16", 8, 16);
    report_matrix<F16_16>(bench, "f16", 16, 16);
    report_matrix<F16_32>(bench, "f16", 32, 16);
    report_matrix<F16_64>(bench, "f16", 64, 16);
    report_matrix<F16_80>(bench, "f16", 80, 16);
    report_matrix<F16_96>(bench, "f16", 96, 16);
    report_matrix<F16_128>(bench, "f16", 128, 16);
    report_matrix<F16_160>(bench, "f16", 160, 16);
    report_matrix<F16_176>(bench, "f16", 176, 16);
    report_matrix<F16_192>(bench, "f16", 192, 16);
    report_matrix<F16_256>(bench, "f16", 256, 16);
    report_matrix<BF16_128>(bench, "bf16", 128, 16);
    report_matrix<BF16_256>(bench, "bf16", 256, 16);
    report_matrix<E4M3_64>(bench, "e4m3", 64, 32);
    report_matrix<E4M3_128>(bench, "e4m3", 128, 32);
    report_matrix<E4M3_256>(bench, "e4m3", 256, 32);
    report_matrix<TF32_64>(bench, "tf32", 64, 8);
    report_matrix<TF32_128>(bench, "tf32", 128, 8);
    report_matrix<TF32_256>(bench, "tf32", 256, 8);
}

/// One record per number of warp groups, beside one more that issues `Matrix` without pause.
template <class Body, class Matrix = F16_128<false>>
void report_beside(const Bench& bench, const char* name, const std::string& parameters,
                   const char* matrix = "wgmma f16 n128 a shared") {
    std::string suffix = std::string(", \"beside\": \"") + matrix + "\"";
    for (int groups : {1, 2}) {
        std::string prefix = parameters + ", \"groups\": " + std::to_string(groups);
        report<Beside<Body, Matrix>>(bench, name, prefix + suffix, 128 * (groups + 1));
    }
}

/// The bodies of a softmax on a 64 x 128 tile each group.
template <class Matrix>
void report_softmax_beside(const Bench& bench, const char* matrix) {
    std::string tile = "\"m\": 64, \"n\": 128";
    report_beside<Elementwise<Exp2>, Matrix>(bench, "exp2", tile, matrix);
    report_beside<Elementwise<Fma>, Matrix>(bench, "fma", tile, matrix);
    report_beside<Elementwise<Add>, Matrix>(bench, "add", tile, matrix);
    report_beside<Elementwise<Multiply>, Matrix>(bench, "multiply", tile, matrix);
    report_beside<Elementwise<Maximum>, Matrix>(bench, "maximum", tile, matrix);
    report_beside<Elementwise<FmaExp2>, Matrix>(bench, "fma_exp2", tile, matrix);
    report_beside<Convert<pack_f16>, Matrix>(bench, "convert_f16", tile, matrix);
    report_beside<Reduce<64, false>, Matrix>(bench, "row_maximum", tile, matrix);
    report_beside<Reduce<64, true>, Matrix>(bench, "row_sum", tile, matrix);
    report_beside<StoreMatrix, Matrix>(bench, "store_matrix", tile, matrix);
}

template <class Step>
void report_coissue(const Bench& bench, const char* name) {
    std::string step = std::string("\"with\": \"") + name + "\", \"ratio\": ";
    report_groups<BesideExp2<Step, 1>>(bench, "exp2_16", step + "1");
    report_groups<BesideExp2<Step, 2>>(bench, "exp2_16", step + "2");
    report_groups<BesideExp2<Step, 4>>(bench, "exp2_16", step + "4");
    report_groups<BesideExp2<Step, 6>>(bench, "exp2_16", step + "6");
    report_beside<BesideExp2<Step, 1>>(bench, "exp2_16", step + "1");
    report_beside<BesideExp2<Step, 4>>(bench, "exp2_16", step + "4");
}

template <class Step>
void report_chain(const Bench& bench, const char* name) {
    std::string step = std::string("\"step\": \"") + name + "\"";
    report<Chain<Step>>(bench, "chain_16", step);
    report_beside<Chain<Step>>(bench, "chain_16", step);
}

int main() {
    Bench bench = opened();
    report_tensor_core(bench);
    report_elementwise(bench);
    report_reduce<32>(bench);
    report_reduce<64>(bench);
    report_reduce<88>(bench);
    report_softmax_beside<F16_128<false>>(bench, "wgmma f16 n128 a shared");
    report_softmax_beside<F16_128<true>>(bench, "wgmma f16 n128 a registers");
    report_coissue<Fma>(bench, "fma");
    report_coissue<Add>(bench, "add");
    report_coissue<Maximum>(bench, "maximum");
    report_chain<Exp2>(bench, "exp2");
    report_chain<Fma>(bench, "fma");
    report_chain<Maximum>(bench, "maximum");
    report_chain<ShuffleAdd>(bench, "shuffle_add");
    report_movement(bench);
    report_synchronization(bench);
    closed(bench);
}
