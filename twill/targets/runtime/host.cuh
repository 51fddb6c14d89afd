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
inline cudaError_t resident_blocks(int64_t programs, unsigned* blocks) {
    int device = 0, multiprocessors = 1;
    if (const cudaError_t status = cudaGetDevice(&device)) return status;
    *blocks = 0;
    if (const cudaError_t status = cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, device)) return status;
    *blocks = unsigned(programs < multiprocessors ? programs : multiprocessors);
    return cudaSuccess;
}

}  // namespace twill

// For callers that have no CUDA runtime of their own. Weak: a program may link several kernels.

/// CUDA's name and description of a cudaError_t.
extern "C" __attribute__((weak)) const char* twill_error_text(int status) { return cudaGetErrorString(cudaError_t(status)); }

/// The device in whose memory an address is; -1 where it is in none.
extern "C" __attribute__((weak)) int twill_device_of(const void* address) {
    cudaPointerAttributes found{};
    if (cudaPointerGetAttributes(&found, address) != cudaSuccess) return cudaGetLastError(), -1;
    return found.type == cudaMemoryTypeDevice || found.type == cudaMemoryTypeManaged ? found.device : -1;
}

/// Makes a device the current one; `before` gets the one that was.
extern "C" __attribute__((weak)) int twill_set_device(int device, int* before) {
    if (const cudaError_t status = cudaGetDevice(before)) return status;
    return *before == device ? cudaSuccess : cudaSetDevice(device);
}
