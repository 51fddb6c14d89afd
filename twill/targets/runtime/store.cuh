// Stores of several elements at once, and the exchange of words among threads before them.
#pragma once
#include <cstdint>
#include <cstring>

namespace twill {

/// Transposes the 4 x 4 words of four neighbouring threads: thread q of four gets word q of each, in their
/// order. By all threads of a warp.
__device__ __forceinline__ void transpose_quad(uint32_t (&words)[4]) {
    const bool odd = threadIdx.x & 1, upper = threadIdx.x & 2;
#pragma unroll
    for (int i = 0; i < 4; i += 2) {
        const uint32_t got = __shfl_xor_sync(~0u, odd ? words[i] : words[i + 1], 1);
        (odd ? words[i] : words[i + 1]) = got;
    }
#pragma unroll
    for (int i = 0; i < 2; ++i) {
        const uint32_t got = __shfl_xor_sync(~0u, upper ? words[i] : words[i + 2], 2);
        (upper ? words[i] : words[i + 2]) = got;
    }
}

/// 16 bytes, to an address that is a multiple of that.
template <class T>
__device__ __forceinline__ void store_words(T* to, const uint32_t (&words)[4]) {
    *reinterpret_cast<uint4*>(to) = make_uint4(words[0], words[1], words[2], words[3]);
}

/// Two neighbours in one store, to an address that is a multiple of both together.
template <class T>
__device__ __forceinline__ void store_pair(T* to, T first, T second) {
    struct alignas(2 * sizeof(T)) Pair {
        T values[2];
    };
    *reinterpret_cast<Pair*>(to) = Pair{{first, second}};
}

}  // namespace twill
