// What the host side of a generated kernel needs: tensor maps, shared memory, and how many blocks to launch.
//
// Functions that keep something are static: otherwise one variable served all libraries of a process, also those for other
// devices and for the emulator (STB_GNU_UNIQUE).
#pragma once
#include <cuda.h>
#include <cuda_runtime.h>
#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <utility>

namespace twill {

/// What a tensor map follows from; bytes that no member has are 0.
struct TensorMapKey {
    const void* data;
    cuuint64_t sizes[5], pitches[4];
    cuuint32_t box[5];
    uint32_t type, swizzle, rank;
};

/// Encodes a map by the driver: a miss of L2 fetches the line of 128 bytes that a row of a box is (with 256 the next one
/// too, and gates of linear attention took 6% longer on an H200). Gives 0, a cudaError_t, or the driver's CUresult.
inline int encode_tensor_map(CUtensorMap* map, const TensorMapKey& key) {
    void* entry = nullptr;
    cudaDriverEntryPointQueryResult found;
    if (const cudaError_t status =
            cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &entry, 12000, cudaEnableDefault, &found))
        return status;
    if (found != cudaDriverEntryPointSuccess) return cudaErrorSymbolNotFound;
    const cuuint32_t steps[5] = {1, 1, 1, 1, 1};
    return reinterpret_cast<decltype(&cuTensorMapEncodeTiled)>(entry)(
        map, CUtensorMapDataType(key.type), key.rank, const_cast<void*>(key.data), key.sizes, key.pitches, key.box,
        steps, CU_TENSOR_MAP_INTERLEAVE_NONE, CUtensorMapSwizzle(key.swizzle), CU_TENSOR_MAP_L2_PROMOTION_L2_128B,
        CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
}

/// The map of a tensor of `Rank` dimensions, innermost first, moved in boxes of which a row fills a line of the swizzle
/// pattern. `pitches`, in bytes, are those of all dimensions but the innermost. Gives 0, a cudaError_t, or the driver's
/// CUresult. A thread's latest maps are kept: a launch with the arguments of an earlier one encodes none. (An array has an
/// element at least, which a tensor of one dimension does not use.)
template <int Rank>
static inline int tensor_map(CUtensorMap* map, CUtensorMapDataType type, CUtensorMapSwizzle swizzle, const void* data,
                      const cuuint64_t (&sizes)[Rank], const cuuint64_t (&pitches)[Rank > 1 ? Rank - 1 : 1],
                      const cuuint32_t (&box)[Rank]) {
    struct Entry {
        CUtensorMap map;
        TensorMapKey key;
    };
    constexpr size_t count = 64;
    static thread_local Entry kept[count] = {};
    TensorMapKey key;
    memset(&key, 0, sizeof key);
    memcpy(key.sizes, sizes, sizeof sizes);
    memcpy(key.pitches, pitches, sizeof pitches);
    memcpy(key.box, box, sizeof box);
    key.data = data, key.type = type, key.swizzle = swizzle, key.rank = Rank;
    size_t hash = 0;
    for (size_t i = 0; i < sizeof key / sizeof(uint32_t); ++i) {
        uint32_t word;
        memcpy(&word, reinterpret_cast<const char*>(&key) + i * sizeof word, sizeof word);
        hash = (hash ^ word) * 0x9e3779b97f4a7c15u;
        hash ^= hash >> 29;
    }
    Entry& entry = kept[hash % count];
    if (memcmp(&entry.key, &key, sizeof key)) {
        if (const int status = encode_tensor_map(&entry.map, key)) {
            memset(&entry.key, 0, sizeof key);
            return status;
        }
        entry.key = key;
    }
    *map = entry.map;
    return 0;
}

/// How a kernel uses a tensor map.
enum class MapUse { load, store, load_and_store };

/// The pool of the current device that the memory of launches comes from. It keeps what is freed: the default pool gives it
/// back to the system whenever the host synchronizes (its release threshold is 0), and the next launch maps memory anew.
static inline cudaError_t launch_pool(cudaMemPool_t* pool) {
    constexpr int devices = 64;
    static std::atomic<cudaMemPool_t> pools[devices] = {};
    int device = 0;
    if (const cudaError_t status = cudaGetDevice(&device)) return status;
    if (device >= devices) return cudaDeviceGetDefaultMemPool(pool, device);
    if ((*pool = pools[device].load(std::memory_order_acquire))) return cudaSuccess;
    cudaMemPoolProps properties = {};
    properties.allocType = cudaMemAllocationTypePinned;
    properties.location.type = cudaMemLocationTypeDevice;
    properties.location.id = device;
    if (const cudaError_t status = cudaMemPoolCreate(pool, &properties)) return status;
    uint64_t kept = UINT64_MAX;
    cudaError_t status = cudaMemPoolSetAttribute(*pool, cudaMemPoolAttrReleaseThreshold, &kept);
    cudaMemPool_t other = nullptr;
    if (!status && pools[device].compare_exchange_strong(other, *pool, std::memory_order_acq_rel)) return cudaSuccess;
    cudaMemPoolDestroy(*pool);
    *pool = other;
    return status;
}

/// Global memory of one launch. It is freed behind the kernel, in the order of the stream, so that launches on several streams
/// are apart. In a graph that is being captured it is the graph's own.
struct LaunchMemory {
    cudaStream_t stream;
    void* memory = nullptr;

    explicit LaunchMemory(cudaStream_t stream) : stream(stream) {}
    LaunchMemory(const LaunchMemory&) = delete;
    ~LaunchMemory() {
        if (memory) cudaFreeAsync(memory, stream);
    }
    cudaError_t allocate(size_t bytes) {
        cudaStreamCaptureStatus captured = cudaStreamCaptureStatusNone;
        if (const cudaError_t status = cudaStreamIsCapturing(stream, &captured)) return status;
        if (captured != cudaStreamCaptureStatusNone) return cudaMallocAsync(&memory, bytes, stream);
        cudaMemPool_t pool = nullptr;
        if (const cudaError_t status = launch_pool(&pool)) return status;
        return cudaMallocFromPoolAsync(&memory, bytes, pool, stream);
    }
    cudaError_t allocate_zeros(size_t bytes) {
        if (const cudaError_t status = allocate(bytes)) return status;
        return cudaMemsetAsync(memory, 0, bytes, stream);
    }
};

/// Global memory that maps of tensors without elements describe, as the driver encodes none with an extent of 0. It has one
/// element that loads read, which is 0 as all outside of a tensor, and apart from it one that stores write. 4-bit elements that
/// are padded are 128, the fewest that the driver takes.
struct NoElements {
    static constexpr size_t bytes = 64;
    LaunchMemory owned;

    explicit NoElements(cudaStream_t stream) : owned(stream) {}
    const char* element(bool stored) const { return static_cast<const char*>(owned.memory) + (stored ? bytes : 0); }
    cudaError_t allocate() { return owned.memory ? cudaSuccess : owned.allocate_zeros(2 * bytes); }
};

/// The same for a tensor that may have no elements: then a map of the one element that `MapUse` says. A map that a kernel both
/// loads and stores through needs elements: what is stored outside of a tensor can not be loaded.
template <int Rank>
static inline int tensor_map(CUtensorMap* map, CUtensorMapDataType type, CUtensorMapSwizzle swizzle, const void* data,
                      const cuuint64_t (&sizes)[Rank], const cuuint64_t (&pitches)[Rank > 1 ? Rank - 1 : 1],
                      const cuuint32_t (&box)[Rank], NoElements& none, MapUse use) {
    bool empty = false;
    for (const cuuint64_t size : sizes) empty |= size == 0;
    if (!empty) return tensor_map<Rank>(map, type, swizzle, data, sizes, pitches, box);
    if (use == MapUse::load_and_store) return cudaErrorInvalidValue;
    if (const cudaError_t status = none.allocate()) return status;
    cuuint64_t ones[Rank], apart[Rank > 1 ? Rank - 1 : 1] = {};
    for (int i = 0; i < Rank; ++i) {
        ones[i] = 1;
        if (i + 1 < Rank) apart[i] = NoElements::bytes;
    }
#if CUDA_VERSION >= 12080
    if (type == CU_TENSOR_MAP_DATA_TYPE_16U4_ALIGN16B) ones[0] = 128;
#endif
    return tensor_map<Rank>(map, type, swizzle, none.element(use == MapUse::store), ones, apart, box);
}

/// Lets `Kernel` have `bytes` of dynamic shared memory on the current device: set once for each device, not for
/// each launch that needs no more. Threads that need different numbers only raise it. cudaDeviceReset, which takes
/// it back, is not seen.
template <auto Kernel>
static inline cudaError_t allow_shared_memory(int bytes) {
    constexpr int devices = 64;
    static std::atomic<int> allowed[devices] = {};
    static std::atomic_flag raising = ATOMIC_FLAG_INIT;  // <mutex> takes nvcc half a second
    int device = 0;
    if (const cudaError_t status = cudaGetDevice(&device)) return status;
    const auto enough = [&] { return device < devices && allowed[device].load(std::memory_order_acquire) >= bytes; };
    if (enough()) return cudaSuccess;
    while (raising.test_and_set(std::memory_order_acquire)) {}
    cudaError_t status = cudaSuccess;
    if (!enough()) {
        status = cudaFuncSetAttribute(Kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
        if (!status && device < devices) allowed[device].store(bytes, std::memory_order_release);
    }
    raising.clear(std::memory_order_release);
    return status;
}

/// The tensor maps that a kernel makes.
struct TensorMapMemory {
    LaunchMemory owned;
    CUtensorMap* maps = nullptr;

    explicit TensorMapMemory(cudaStream_t stream) : owned(stream) {}
    cudaError_t allocate(int64_t count) {
        const cudaError_t status = owned.allocate(count * sizeof(CUtensorMap));
        maps = static_cast<CUtensorMap*>(owned.memory);
        return status;
    }
};

/// The counter from which thread blocks claim tiles, zero when the kernel begins.
struct TileCounter {
    LaunchMemory owned;
    uint32_t* value = nullptr;

    explicit TileCounter(cudaStream_t stream) : owned(stream) {}
    cudaError_t allocate() {
        const cudaError_t status = owned.allocate_zeros(sizeof(uint32_t));
        value = static_cast<uint32_t*>(owned.memory);
        return status;
    }
};

/// How many thread blocks share `programs`, one on each multiprocessor of the current device.
inline cudaError_t resident_blocks(int64_t programs, unsigned* blocks) {
    int device = 0, multiprocessors = 1;
    if (const cudaError_t status = cudaGetDevice(&device)) return status;
    *blocks = 0;
    if (const cudaError_t status = cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, device)) return status;
    *blocks = unsigned(programs < multiprocessors ? programs : multiprocessors);
    return cudaSuccess;
}

/// A form of a kernel: how many of its thread blocks a multiprocessor holds, and predicted cycles for an iteration of its loops,
/// of a block that no other one is beside, and those for which it needs the busiest unit. (twill/simulate/waves.py says why.)
struct Form {
    static constexpr int drifted = 4;  // waves behind which blocks begin one by one
    int blocks;
    double alone, busy;

    /// Cycles of so many blocks that begin on a multiprocessor at the same time, or of one.
    double beside(int64_t count) const {
        return count ? std::cbrt(std::pow(count * busy, 3) + std::pow(alone, 3)) : 0;
    }

    /// Cycles of a launch of `programs` thread blocks, of which a multiprocessor holds `held` at the same time.
    double launch(int64_t programs, int multiprocessors, int held) const {
        const int64_t wave = int64_t(multiprocessors) * held, waves = programs / wave, left = programs % wave;
        const double last = beside((left + multiprocessors - 1) / multiprocessors);
        if (!waves) return last;
        if (waves >= drifted) return double(programs) / wave * beside(held);
        return waves * beside(held) + (left ? (last + beside(held)) / 2 : 0);
    }
};

/// What a launch takes: which form, and the bytes of dynamic shared memory that keep further thread blocks from a
/// multiprocessor.
struct Choice {
    int form = 0, bytes = 0;
};

/// The form of a launch of `programs` thread blocks that is predicted to be fastest, in the best number of blocks on a
/// multiprocessor; the first one in all that it holds unless another choice is clearly faster.
template <int Forms>
static inline cudaError_t choose(int64_t programs, const Form (&forms)[Forms], Choice* chosen) {
    constexpr double clearly = 1.05;
    int device = 0, multiprocessors = 1, shared = 0, reserved = 0;
    if (const cudaError_t status = cudaGetDevice(&device)) return status;
    for (const auto& [value, attribute] : {std::pair{&multiprocessors, cudaDevAttrMultiProcessorCount},
                                           std::pair{&shared, cudaDevAttrMaxSharedMemoryPerMultiprocessor},
                                           std::pair{&reserved, cudaDevAttrReservedSharedMemoryPerBlock}})
        if (const cudaError_t status = cudaDeviceGetAttribute(value, attribute, device)) return status;
    int held = forms[0].blocks;
    double least = forms[0].launch(programs, multiprocessors, held) / clearly;
    for (int form = 0; form < Forms; ++form)
        for (int tried = 1; tried <= forms[form].blocks; ++tried)
            if (const double cycles = forms[form].launch(programs, multiprocessors, tried); cycles < least)
                least = cycles, held = tried, chosen->form = form;
    const int others = (shared / (held + 1) - reserved) / 128 * 128 + 128;  // one more does not fit
    chosen->bytes = held < forms[chosen->form].blocks ? others : 0;
    return cudaSuccess;
}

}  // namespace twill

#ifdef TWILL_SOURCE
#define TWILL_TEXT_OF(x) #x
#define TWILL_TEXT(x) TWILL_TEXT_OF(x)
/// Of which source a library is built: SHA-256 of the file, as the loader finds it in the library.
extern "C" __attribute__((weak, used)) const char twill_source[] = "twill-source:" TWILL_TEXT(TWILL_SOURCE);
#endif

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
