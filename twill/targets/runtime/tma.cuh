// Bulk tensor copies (TMA): tiles between global and shared memory, moved by the copy engine.
//
// Takes tensor maps (`__grid_constant__ const CUtensorMap` parameters, encoded on the host), shared-window
// addresses aligned to the map's swizzle (1024 bytes for 128-byte swizzle) and coordinates in elements,
// innermost first. Loads complete on an mbarrier by bytes; stores and reductions by bulk groups of the
// issuing thread. One thread issues each. PTX ISA, "Data Movement and Conversion Instructions: Asynchronous
// copy", cp.async.bulk.tensor.
#pragma once
#include <cuda.h>
#include <cstdint>

namespace twill {

/// Fetches a tensor map into the descriptor cache ahead of its first use (prefetch.tensormap).
__device__ __forceinline__ void tma_prefetch(const CUtensorMap* map) {
    asm volatile("prefetch.tensormap [%0];" ::"l"(map) : "memory");
}

/// Copies `bytes` from `from` to `to`, all multiples of 16; they count on `barrier` (cp.async.bulk).
__device__ __forceinline__ void bulk_load(uint32_t to, const void* from, uint32_t bytes, uint32_t barrier) {
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(to),
                 "l"(from), "r"(bytes), "r"(barrier) : "memory");
}

// Operand numbers and constraints of 1 to 5 coordinates `int32_t c0, c1, ...` that follow three other
// operands.
#define TWILL_COORDINATES_1d "{%3}"
#define TWILL_COORDINATES_2d "{%3, %4}"
#define TWILL_COORDINATES_3d "{%3, %4, %5}"
#define TWILL_COORDINATES_4d "{%3, %4, %5, %6}"
#define TWILL_COORDINATES_5d "{%3, %4, %5, %6, %7}"
#define TWILL_VALUES_1d "r"(c0)
#define TWILL_VALUES_2d TWILL_VALUES_1d, "r"(c1)
#define TWILL_VALUES_3d TWILL_VALUES_2d, "r"(c2)
#define TWILL_VALUES_4d TWILL_VALUES_3d, "r"(c3)
#define TWILL_VALUES_5d TWILL_VALUES_4d, "r"(c4)
#define TWILL_PARAMETERS_1d int32_t c0
#define TWILL_PARAMETERS_2d TWILL_PARAMETERS_1d, int32_t c1
#define TWILL_PARAMETERS_3d TWILL_PARAMETERS_2d, int32_t c2
#define TWILL_PARAMETERS_4d TWILL_PARAMETERS_3d, int32_t c3
#define TWILL_PARAMETERS_5d TWILL_PARAMETERS_4d, int32_t c4

// Defines, for one rank:
//   tma_load_pair  like tma_load, in a CTA of a pair: `barrier` is an address of the cluster's shared memory, in either CTA.
//   tma_load_multicast  like tma_load, to the same place in both CTAs of a cluster of two; in each the bytes count on the
//                  barrier at the same place as `barrier`.
//   tma_load_multicast_pair  like tma_load_multicast, in a pair: all bytes count on `barrier`, as of tma_load_pair.
//   tma_load       the box at the coordinates arrives at `to`; its bytes count on `barrier`.
//   tma_store      the box at `from` is written to the coordinates; completes with the bulk group.
//   tma_add        like tma_store, but adds to what is there, in the map's element type (cp.reduce, relaxed).
// The last two name an unused third operand so that coordinates start at %3 in all three.
#define TWILL_TMA(RANK)                                                                                                \
    __device__ __forceinline__ void tma_load(                                                                          \
        uint32_t to, const CUtensorMap* map, uint32_t barrier, TWILL_PARAMETERS_##RANK) {                              \
        asm volatile("cp.async.bulk.tensor." #RANK ".shared::cluster.global.mbarrier::complete_tx::bytes"              \
                     " [%0], [%1, " TWILL_COORDINATES_##RANK "], [%2];" ::"r"(to), "l"(map), "r"(barrier),             \
                     TWILL_VALUES_##RANK : "memory");                                                                  \
    }                                                                                                                  \
    __device__ __forceinline__ void tma_load_pair(                                                                     \
        uint32_t to, const CUtensorMap* map, uint32_t barrier, TWILL_PARAMETERS_##RANK) {                              \
        asm volatile("cp.async.bulk.tensor." #RANK                                                                     \
                     ".shared::cluster.global.mbarrier::complete_tx::bytes.cta_group::2"                               \
                     " [%0], [%1, " TWILL_COORDINATES_##RANK "], [%2];" ::"r"(to), "l"(map), "r"(barrier),             \
                     TWILL_VALUES_##RANK : "memory");                                                                  \
    }                                                                                                                  \
    __device__ __forceinline__ void tma_load_multicast(                                                                \
        uint32_t to, const CUtensorMap* map, uint32_t barrier, TWILL_PARAMETERS_##RANK) {                              \
        asm volatile("{\n.reg .b16 both;\nmov.b16 both, 3;\n"                                                          \
                     "cp.async.bulk.tensor." #RANK                                                                     \
                     ".shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster"                         \
                     " [%0], [%1, " TWILL_COORDINATES_##RANK "], [%2], both;\n}" ::"r"(to), "l"(map), "r"(barrier),    \
                     TWILL_VALUES_##RANK : "memory");                                                                  \
    }                                                                                                                  \
    __device__ __forceinline__ void tma_load_multicast_pair(                                                           \
        uint32_t to, const CUtensorMap* map, uint32_t barrier, TWILL_PARAMETERS_##RANK) {                              \
        asm volatile("{\n.reg .b16 both;\nmov.b16 both, 3;\n"                                                          \
                     "cp.async.bulk.tensor." #RANK                                                                     \
                     ".shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster.cta_group::2"            \
                     " [%0], [%1, " TWILL_COORDINATES_##RANK "], [%2], both;\n}" ::"r"(to), "l"(map), "r"(barrier),    \
                     TWILL_VALUES_##RANK : "memory");                                                                  \
    }                                                                                                                  \
    __device__ __forceinline__ void tma_store(const CUtensorMap* map, uint32_t from, TWILL_PARAMETERS_##RANK) {        \
        asm volatile("cp.async.bulk.tensor." #RANK ".global.shared::cta.bulk_group"                                    \
                     " [%0, " TWILL_COORDINATES_##RANK "], [%1];" ::"l"(map), "r"(from), "n"(0),                       \
                     TWILL_VALUES_##RANK : "memory");                                                                  \
    }                                                                                                                  \
    __device__ __forceinline__ void tma_add(const CUtensorMap* map, uint32_t from, TWILL_PARAMETERS_##RANK) {          \
        asm volatile("cp.reduce.async.bulk.tensor." #RANK ".global.shared::cta.add.tile.bulk_group"                    \
                     " [%0, " TWILL_COORDINATES_##RANK "], [%1];" ::"l"(map), "r"(from), "n"(0),                       \
                     TWILL_VALUES_##RANK : "memory");                                                                  \
    }

TWILL_TMA(1d)
TWILL_TMA(2d)
TWILL_TMA(3d)
TWILL_TMA(4d)
TWILL_TMA(5d)

/// Closes the bulk group of the stores and reductions this thread has issued (cp.async.bulk.commit_group).
__device__ __forceinline__ void tma_commit() { asm volatile("cp.async.bulk.commit_group;" ::: "memory"); }

/// Waits until at most `Pending` of this thread's bulk groups still read shared memory: their buffers may be
/// reused.
template <int Pending>
__device__ __forceinline__ void tma_wait_read() {
    asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(Pending) : "memory");
}

/// Waits until at most `Pending` of this thread's bulk groups are not complete.
template <int Pending>
__device__ __forceinline__ void tma_wait() {
    asm volatile("cp.async.bulk.wait_group %0;" ::"n"(Pending) : "memory");
}

// ---- tensor maps made on the device ---------------------------------------------------------------------------------

template <int Axis>
__device__ __forceinline__ void tensor_map_size(CUtensorMap* map, uint64_t size) {
    asm volatile("tensormap.replace.tile.global_dim.global.b1024.b32 [%0], %1, %2;" ::"l"(map), "n"(Axis),
                 "r"(uint32_t(size)) : "memory");
}

template <int Axis>
__device__ __forceinline__ void tensor_map_pitch(CUtensorMap* map, uint64_t bytes) {
    asm volatile("tensormap.replace.tile.global_stride.global.b1024.b64 [%0], %1, %2;" ::"l"(map), "n"(Axis), "l"(bytes)
                 : "memory");
}

/// Makes `to`, in global memory, a map like `like` of another tensor, for TMA operations that this thread issues. Its
/// earlier ones by `to` are complete. Sizes innermost first; pitches in bytes, without that of the elements. (PTX ISA,
/// tensormap.replace and fence.proxy.tensormap; the stride is in bytes from CUDA 12.5 on.)
template <int Rank>
__device__ __forceinline__ void tensor_map_replace(CUtensorMap* to, const CUtensorMap* like, const void* data,
                                                   const uint64_t (&sizes)[Rank],
                                                   const uint64_t (&pitches)[Rank > 1 ? Rank - 1 : 1]) {
    static_assert(__CUDACC_VER_MAJOR__ > 12 || __CUDACC_VER_MINOR__ >= 5, "tensor maps on the device need CUDA 12.5");
#pragma unroll 1  // few registers: the group that loads has 24 for each thread
    for (int i = 0; i < int(sizeof(CUtensorMap) / sizeof(uint4)); ++i)
        reinterpret_cast<uint4*>(to)[i] = reinterpret_cast<const uint4*>(like)[i];
    asm volatile("tensormap.replace.tile.global_address.global.b1024.b64 [%0], %1;" ::"l"(to), "l"(data) : "memory");
    tensor_map_size<0>(to, sizes[0]);
    if constexpr (Rank > 1) tensor_map_size<1>(to, sizes[1]), tensor_map_pitch<0>(to, pitches[0]);
    if constexpr (Rank > 2) tensor_map_size<2>(to, sizes[2]), tensor_map_pitch<1>(to, pitches[1]);
    if constexpr (Rank > 3) tensor_map_size<3>(to, sizes[3]), tensor_map_pitch<2>(to, pitches[2]);
    if constexpr (Rank > 4) tensor_map_size<4>(to, sizes[4]), tensor_map_pitch<3>(to, pitches[3]);
    asm volatile("fence.proxy.tensormap::generic.release.gpu;" ::: "memory");
    asm volatile("fence.proxy.tensormap::generic.acquire.gpu [%0], 128;" ::"l"(to) : "memory");
}

}  // namespace twill
