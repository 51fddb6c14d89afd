// The CUDA runtime as far as a launcher needs it, with no GPU: a launch is handed to a callback, a tensor map is the record that
// twill/emulate/tensormap.py reads. Compiled together with a .cu file in place of libcudart.
#include <cuda.h>
#include <cuda_runtime.h>

#include <cstdint>
#include <cstring>
#include <vector>

namespace {

using Launched = void (*)(const char* name, const unsigned* extents, size_t shared, size_t most_shared, void** arguments);

struct Configuration {
    dim3 grid, block;
    size_t shared;
    cudaStream_t stream;
};

using Filled = void (*)(void* address, int value, size_t bytes);

Launched launched = nullptr;
Filled filled = nullptr;
int processors = 1;

struct Function {
    const void* host;
    const char* name;
    size_t most_shared;  // that was asked for
};
constexpr size_t WITHOUT_ASKING = 48 * 1024;  // CUDA programming guide: more dynamic shared memory is opted into
// Kernels register themselves before the variables of this file are initialized.
std::vector<Function>& functions() {
    static std::vector<Function> all;
    return all;
}

Function* find(const void* host) {
    for (Function& one : functions())
        if (one.host == host) return &one;
    return nullptr;
}

Configuration next;
char* free_memory = nullptr;  // of the device that launches are executed on
size_t free_bytes = 0;

cudaError_t launch(const void* host, dim3 grid, dim3 block, dim3 cluster, void** arguments, size_t shared) {
    const Function* function = find(host);
    if (!function) return cudaErrorInvalidDeviceFunction;
    const unsigned extents[9] = {grid.x, grid.y, grid.z, block.x, block.y, block.z, cluster.x, cluster.y, cluster.z};
    if (launched) launched(function->name, extents, shared, function->most_shared, arguments);
    return cudaSuccess;
}

// Element types as tensormap.replace numbers them (PTX ISA), by CUtensorMapDataType.
constexpr uint8_t TYPES[16] = {0, 1, 2, 3, 4, 5, 6, 7, 9, 10, 8, 11, 12, 13, 14, 15};

#pragma pack(push, 1)
struct Record {
    uint64_t address;
    uint8_t rank, type, flags, made;
    uint32_t shape[5];
    uint64_t strides[4];
    uint16_t box[5];
    uint8_t steps[5];
};
#pragma pack(pop)
static_assert(sizeof(Record) == 79, "twill/emulate/tensormap.py reads 79 bytes");

CUresult encode(CUtensorMap* map, CUtensorMapDataType type, cuuint32_t rank, void* address, const cuuint64_t* shape,
                const cuuint64_t* strides, const cuuint32_t* box, const cuuint32_t* steps, CUtensorMapInterleave interleave,
                CUtensorMapSwizzle swizzle, CUtensorMapL2promotion, CUtensorMapFloatOOBfill fill) {
    if (rank < 1 || rank > 5 || unsigned(type) > 15 || interleave != CU_TENSOR_MAP_INTERLEAVE_NONE) return CUDA_ERROR_INVALID_VALUE;
    if (type == CU_TENSOR_MAP_DATA_TYPE_16U4_ALIGN16B) {
        bool allowed = box[0] == 128 && shape[0] % 128 == 0 && reinterpret_cast<uint64_t>(address) % 32 == 0 && !fill;
        for (unsigned i = 0; i + 1 < rank; ++i) allowed = allowed && strides[i] % 32 == 0;
        if (!allowed) return CUDA_ERROR_INVALID_VALUE;
    }
    Record record{};
    record.address = reinterpret_cast<uint64_t>(address);
    record.rank = uint8_t(rank);
    record.type = TYPES[type];
    record.made = 1;
    record.flags = uint8_t((unsigned(swizzle) <= 3 ? unsigned(swizzle) : 3 | 8) | (fill ? 4 : 0));
    for (unsigned i = 0; i < rank; ++i) {
        if (shape[i] == 0 || box[i] > 256 || steps[i] > 8) return CUDA_ERROR_INVALID_VALUE;
        record.shape[i] = uint32_t(shape[i] - 1);
        record.box[i] = uint16_t(box[i]);
        record.steps[i] = uint8_t(steps[i]);
        if (i + 1 < rank) record.strides[i] = strides[i];
    }
    std::memset(map, 0, sizeof *map);
    std::memcpy(map, &record, sizeof record);
    return CUDA_SUCCESS;
}

void* entry(const char* symbol) {
    return std::strcmp(symbol, "cuTensorMapEncodeTiled") == 0 ? reinterpret_cast<void*>(&encode) : nullptr;
}

}  // namespace

extern "C" {

void twill_emulate(Launched callback, int count) {
    launched = callback;
    processors = count;
}

// ---- what nvcc's host code calls -----------------------------------------------------------------------------------

void** __cudaRegisterFatBinary(void*) {
    static void* handle = nullptr;
    return &handle;
}
void __cudaRegisterFatBinaryEnd(void**) {}
void __cudaUnregisterFatBinary(void**) {}
char __cudaInitModule(void**) { return 1; }
void __cudaRegisterVar(void**, char*, char*, const char*, int, size_t, int, int) {}
void __cudaRegisterFunction(void**, const char* function, char*, const char* name, int, void*, void*, void*, void*, int*) {
    functions().push_back({function, name, WITHOUT_ASKING});
}
unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared, void* stream) {
    next = {grid, block, shared, static_cast<cudaStream_t>(stream)};
    return 0;
}
cudaError_t __cudaPopCallConfiguration(dim3* grid, dim3* block, size_t* shared, void* stream) {
    *grid = next.grid;
    *block = next.block;
    *shared = next.shared;
    *static_cast<cudaStream_t*>(stream) = next.stream;
    return cudaSuccess;
}
cudaError_t __cudaGetKernel(cudaKernel_t* kernel, const void* function) {
    *kernel = reinterpret_cast<cudaKernel_t>(const_cast<void*>(function));
    return cudaSuccess;
}
cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 grid, dim3 block, void** arguments, size_t shared, cudaStream_t) {
    return launch(kernel, grid, block, dim3(1, 1, 1), arguments, shared);
}

void twill_emulate_fill(Filled fill) { filled = fill; }

void twill_emulate_memory(char* address, size_t bytes) {
    free_memory = address;
    free_bytes = bytes;
}

// ---- what a launcher calls -----------------------------------------------------------------------------------------

cudaError_t cudaLaunchKernel(const void* function, dim3 grid, dim3 block, void** arguments, size_t shared, cudaStream_t) {
    return launch(function, grid, block, dim3(1, 1, 1), arguments, shared);
}
cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t* config, const void* function, void** arguments) {
    dim3 cluster(1, 1, 1);
    for (unsigned i = 0; i < config->numAttrs; ++i)
        if (config->attrs[i].id == cudaLaunchAttributeClusterDimension) {
            const auto& given = config->attrs[i].val.clusterDim;
            cluster = dim3(given.x, given.y, given.z);
        }
    return launch(function, config->gridDim, config->blockDim, cluster, arguments, config->dynamicSmemBytes);
}
cudaError_t cudaFuncSetAttribute(const void* function, cudaFuncAttribute attribute, int value) {
    Function* found = find(function);
    if (!found) return cudaErrorInvalidDeviceFunction;
    if (attribute == cudaFuncAttributeMaxDynamicSharedMemorySize) found->most_shared = size_t(value);
    return cudaSuccess;
}
cudaError_t cudaStreamIsCapturing(cudaStream_t, cudaStreamCaptureStatus* captured) {
    *captured = cudaStreamCaptureStatusNone;
    return cudaSuccess;
}
cudaError_t cudaMemPoolCreate(cudaMemPool_t* pool, const cudaMemPoolProps*) {
    static char one;
    *pool = reinterpret_cast<cudaMemPool_t>(&one);
    return cudaSuccess;
}
cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t, cudaMemPoolAttr, void*) { return cudaSuccess; }
cudaError_t cudaMemPoolDestroy(cudaMemPool_t) { return cudaSuccess; }
cudaError_t cudaDeviceGetDefaultMemPool(cudaMemPool_t* pool, int) { return cudaMemPoolCreate(pool, nullptr); }
cudaError_t cudaMallocFromPoolAsync(void** to, size_t bytes, cudaMemPool_t, cudaStream_t) {
    bytes = (bytes + 255) / 256 * 256;
    if (bytes > free_bytes) return cudaErrorMemoryAllocation;
    *to = free_memory;
    free_memory += bytes;
    free_bytes -= bytes;
    return cudaSuccess;
}
cudaError_t cudaMallocAsync(void** to, size_t bytes, cudaStream_t stream) {
    return cudaMallocFromPoolAsync(to, bytes, nullptr, stream);
}
cudaError_t cudaMemsetAsync(void* to, int value, size_t bytes, cudaStream_t) {
    if (!filled) return cudaErrorInvalidValue;
    filled(to, value, bytes);
    return cudaSuccess;
}
cudaError_t cudaFreeAsync(void*, cudaStream_t) { return cudaSuccess; }
cudaError_t cudaGetLastError() { return cudaSuccess; }
cudaError_t cudaPeekAtLastError() { return cudaSuccess; }
const char* cudaGetErrorString(cudaError_t) { return "an error of the emulated runtime"; }
const char* cudaGetErrorName(cudaError_t) { return "emulated"; }
cudaError_t cudaGetDevice(int* device) {
    *device = 0;
    return cudaSuccess;
}
cudaError_t cudaSetDevice(int) { return cudaSuccess; }
cudaError_t cudaGetDeviceCount(int* count) {
    *count = 1;
    return cudaSuccess;
}
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int) {
    switch (attribute) {
        case cudaDevAttrMultiProcessorCount: *value = processors; break;
        case cudaDevAttrComputeCapabilityMajor: *value = 9; break;
        case cudaDevAttrMaxSharedMemoryPerBlockOptin: *value = 227 * 1024; break;
        case cudaDevAttrMaxSharedMemoryPerMultiprocessor: *value = 228 * 1024; break;
        case cudaDevAttrReservedSharedMemoryPerBlock: *value = 1024; break;
        default: *value = 0;
    }
    return cudaSuccess;
}
cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* found, const void*) {
    *found = {};
    found->type = cudaMemoryTypeDevice;
    return cudaSuccess;
}
cudaError_t cudaDeviceSynchronize() { return cudaSuccess; }
cudaError_t cudaStreamSynchronize(cudaStream_t) { return cudaSuccess; }
cudaError_t cudaGetDriverEntryPointByVersion(const char* symbol, void** function, unsigned, unsigned long long,
                                             cudaDriverEntryPointQueryResult* status) {
    *function = entry(symbol);
    if (status) *status = *function ? cudaDriverEntryPointSuccess : cudaDriverEntryPointSymbolNotFound;
    return *function ? cudaSuccess : cudaErrorInvalidValue;
}
}  // extern "C"
