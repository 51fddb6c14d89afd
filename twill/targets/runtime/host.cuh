// What the host side of a generated kernel needs: tensor maps, and how many blocks to launch.
#pragma once
#include <cuda.h>
#include <cuda_runtime.h>
#include <cstdint>

namespace twill {

/// Encodes a map of a tensor of `Rank` dimensions, innermost first, moved in boxes of which a row fills a
/// line of the swizzle pattern. `pitches`, in bytes, are those of all dimensions but the innermost. Gives 0,
/// a cudaError_t, or the driver's CUresult.
template <int Rank>
inline int tensor_map(CUtensorMap* map, CUtensorMapDataType type, CUtensorMapSwizzle swizzle, const void* data,
                      const cuuint64_t (&sizes)[Rank], const cuuint64_t (&pitches)[Rank - 1], const cuuint32_t (&box)[Rank]) {
    void* entry = nullptr;
    cudaDriverEntryPointQueryResult found;
    const cudaError_t status =
        cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &entry, 12000, cudaEnableDefault, &found);
    if (status != cudaSuccess) return status;
    const cuuint32_t steps[5] = {1, 1, 1, 1, 1};
    return reinterpret_cast<decltype(&cuTensorMapEncodeTiled)>(entry)(
        map, type, Rank, const_cast<void*>(data), sizes, pitches, box, steps, CU_TENSOR_MAP_INTERLEAVE_NONE,
        swizzle, CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
}

/// How many thread blocks share `programs`, one on each multiprocessor of the current device.
inline int resident_blocks(int programs) {
    int device = 0, multiprocessors = 1;
    cudaGetDevice(&device);
    cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, device);
    return programs < multiprocessors ? programs : multiprocessors;
}

}  // namespace twill
