// Loads and stores of several elements at once, and the exchange of words among threads after or before them.
#pragma once
#include <cstdint>
#include <cstring>

#include "math.cuh"

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

/// The same of words that hold two pairs of bytes, of columns 8 apart: thread q of four gets 16 bytes in the order of their
/// columns, from 16 * q on. By all threads of a warp.
__device__ __forceinline__ void transpose_bytes(uint32_t (&words)[4]) {
    transpose_quad(words);
    const uint32_t first[2] = {__byte_perm(words[0], words[1], 0x5410), __byte_perm(words[2], words[3], 0x5410)};
    const uint32_t second[2] = {__byte_perm(words[0], words[1], 0x7632), __byte_perm(words[2], words[3], 0x7632)};
    words[0] = first[0], words[1] = first[1], words[2] = second[0], words[3] = second[1];
}

/// Of elements of 32 bits, pairs of two columns that are 8 apart become four neighbours in one of them: in the first column
/// for even threads, in the second for odd ones. By all threads of a warp.
template <class T>
__device__ __forceinline__ void exchange_pairs(uint32_t (&words)[4], T first0, T first1, T second0, T second1) {
    static_assert(sizeof(T) == 4, "an element fills a word");
    const bool odd = threadIdx.x & 1;
    uint32_t first[2], second[2];
    memcpy(&first[0], &first0, 4), memcpy(&first[1], &first1, 4);
    memcpy(&second[0], &second0, 4), memcpy(&second[1], &second1, 4);
#pragma unroll
    for (int i = 0; i < 2; ++i) {
        const uint32_t got = __shfl_xor_sync(~0u, odd ? first[i] : second[i], 1);
        words[i] = odd ? got : first[i], words[2 + i] = odd ? second[i] : got;
    }
}

/// 16 bytes, to an address in global memory that is a multiple of that, if the condition holds. Plain C++ is taken
/// apart into four stores where the compiler does not see the alignment, and a branch around a store would keep the
/// code of several from overlapping.
template <class T>
__device__ __forceinline__ void store_words(T* to, const uint32_t (&words)[4], bool condition) {
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %5, 0;\n@p st.global.v4.b32 [%0], {%1, %2, %3, %4};\n}\n" ::"l"(
                     __cvta_generic_to_global(to)),
                 "r"(words[0]), "r"(words[1]), "r"(words[2]), "r"(words[3]), "r"(uint32_t(condition))
                 : "memory");
}

/// 16 bytes of neighbours to any address of one, if the condition holds: in one, four or eight stores, as the
/// address allows.
template <class T>
__device__ __forceinline__ void store_words_anywhere(T* to, const uint32_t (&words)[4], bool condition) {
    static_assert(sizeof(T) == 2, "two neighbours in a word");
    const size_t at = __cvta_generic_to_global(to);
    store_words(to, words, condition && at % 16 == 0);
    if (condition && at % 16 != 0) {
        if (at % 4 == 0) {
#pragma unroll
            for (int i = 0; i < 4; ++i)
                asm volatile("st.global.b32 [%0], %1;" ::"l"(at + 4 * i), "r"(words[i]) : "memory");
        } else {
#pragma unroll
            for (int i = 0; i < 8; ++i)
                asm volatile("st.global.b16 [%0], %1;" ::"l"(at + 2 * i), "h"(uint16_t(words[i / 2] >> i % 2 * 16))
                             : "memory");
        }
    }
}

/// 16 bytes, from such an address.
template <class T>
__device__ __forceinline__ void load_words(uint32_t (&words)[4], const T* from) {
    asm volatile("ld.global.v4.b32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3])
                 : "l"(__cvta_generic_to_global(from))
                 : "memory");
}

/// `Count` neighbours from an address that is a multiple of all together, to an array from element `first` on; zeros
/// where `inside` is false.
template <int Count, class T, int Size>
__device__ __forceinline__ void load_neighbours(T (&to)[Size], int first, const T* from, bool inside = true) {
    static_assert(Count * sizeof(T) % 4 == 0, "whole words: parts of one would be chosen each by itself");
    struct alignas(Count * sizeof(T)) Neighbours {
        uint32_t words[Count * sizeof(T) / 4];
    };
    Neighbours read{};
    if (inside) read = *reinterpret_cast<const Neighbours*>(from);
    const T* values = reinterpret_cast<const T*>(read.words);
#pragma unroll
    for (int i = 0; i < Count; ++i) to[first + i] = values[i];
}

/// Two neighbours in one store, to an address that is a multiple of both together. Those of 16 bits are one word: nvcc
/// may store the halves of a packed one by one.
template <class T>
__device__ __forceinline__ void store_pair(T* to, T first, T second) {
    if constexpr (sizeof(T) == 2) {
        uint16_t low, high;
        memcpy(&low, &first, sizeof(low));
        memcpy(&high, &second, sizeof(high));
        *reinterpret_cast<uint32_t*>(to) = halves(low, high);
    } else {
        struct alignas(2 * sizeof(T)) Pair {
            T values[2];
        };
        *reinterpret_cast<Pair*>(to) = Pair{{first, second}};
    }
}

/// from[first], ..., `Count` neighbours, in one store to an address in global memory that is a multiple of their bytes.
/// Plain C++ is taken apart (`store_words`): fla's chunk_fwd_kernel_h of two warps on an H200, 0.76 and 0.95 of Triton's
/// speed.
template <int Count, class T, class Element, int Size>
__device__ __forceinline__ void store_neighbours(T* to, const Element (&from)[Size], int first) {
    constexpr int bytes = Count * sizeof(Element);
    typename Whole<bytes>::Type stored;
    static_assert(sizeof(stored) == bytes, "one access");
    memcpy(&stored, &from[first], bytes);
    if constexpr (bytes == 16)
        asm volatile("st.global.v4.b32 [%0], {%1, %2, %3, %4};" ::"l"(__cvta_generic_to_global(to)), "r"(stored.x),
                     "r"(stored.y), "r"(stored.z), "r"(stored.w)
                     : "memory");
    else if constexpr (bytes == 8)
        asm volatile("st.global.v2.b32 [%0], {%1, %2};" ::"l"(__cvta_generic_to_global(to)), "r"(stored.x), "r"(stored.y)
                     : "memory");
    else
        *reinterpret_cast<decltype(stored)*>(to) = stored;
}

/// Two neighbours in one load, from an address that is a multiple of both together.
template <class T>
__device__ __forceinline__ void load_pair(T& first, T& second, const T* from) {
    struct alignas(2 * sizeof(T)) Pair {
        T values[2];
    };
    const Pair pair = *reinterpret_cast<const Pair*>(from);
    first = pair.values[0], second = pair.values[1];
}

}  // namespace twill
