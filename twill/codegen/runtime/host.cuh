// What the host side of a generated kernel needs: tensor maps.
#pragma once
#include <cuda.h>
#include <cuda_runtime.h>
#include <cstdint>

namespace twill {

/// Encodes a map of a row-major matrix, moved in boxes of `box_columns` (128 bytes) times `box_rows`, with 128-byte swizzle.
/// `pitch` is in bytes. Gives 0, or the driver's CUresult.
inline int tensor_map(CUtensorMap* map, CUtensorMapDataType type, const void* data, uint64_t columns, uint64_t rows,
                      uint64_t pitch, uint32_t box_columns, uint32_t box_rows) {
    void* entry = nullptr;
    cudaDriverEntryPointQueryResult found;
    const cudaError_t status =
        cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &entry, 12000, cudaEnableDefault, &found);
    if (status != cudaSuccess) return status;
    const cuuint64_t sizes[2] = {columns, rows}, strides[1] = {pitch};
    const cuuint32_t box[2] = {box_columns, box_rows}, steps[2] = {1, 1};
    return reinterpret_cast<decltype(&cuTensorMapEncodeTiled)>(entry)(
        map, type, 2, const_cast<void*>(data), sizes, strides, box, steps, CU_TENSOR_MAP_INTERLEAVE_NONE,
        CU_TENSOR_MAP_SWIZZLE_128B, CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
}

}  // namespace twill
