// Additions to global memory by atomic operations, of several neighbours in one.
#pragma once
#include <cstdint>
#include <cstring>

#include "math.cuh"

namespace twill {

/// add_words(to, words, condition) for one, two or four words of neighbours, at an address that is a multiple of their
/// bytes: a word has two elements of 16 bits, or one of float32. One operation adds all of them, each atomically, if the
/// condition holds; a branch around each would keep those of several from overlapping.
#define TWILL_ADD_WORDS(T, ROUNDING, TYPE)                                                                             \
    TWILL_ADD_SOME(T, 1, ROUNDING "." TYPE " [%0], %2;")                                                               \
    TWILL_ADD_SOME(T, 2, ROUNDING ".v2." TYPE " [%0], {%2, %3};")                                                      \
    TWILL_ADD_SOME(T, 4, ROUNDING ".v4." TYPE " [%0], {%2, %3, %4, %5};")
#define TWILL_ADD_SOME(T, COUNT, TEXT)                                                                                 \
    __device__ __forceinline__ void add_words(T* to, const uint32_t (&words)[COUNT], bool condition) {                 \
        constexpr int last = COUNT - 1;                                                                                \
        asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %1, 0;\n@p red.relaxed.gpu.global.add" TEXT "\n}\n" ::"l"(      \
                         __cvta_generic_to_global(to)),                                                                \
                     "r"(uint32_t(condition)), "r"(words[0]), "r"(words[1 < last ? 1 : last]),                         \
                     "r"(words[2 < last ? 2 : last]), "r"(words[last])                                                 \
                     : "memory");                                                                                      \
    }
TWILL_ADD_WORDS(float, "", "f32")
TWILL_ADD_WORDS(__half, ".noftz", "f16x2")
TWILL_ADD_WORDS(__nv_bfloat16, ".noftz", "bf16x2")
#undef TWILL_ADD_SOME
#undef TWILL_ADD_WORDS

/// Two neighbours in one operation, at an address that is a multiple of both together.
template <class T>
__device__ __forceinline__ void add_pair(T* to, T first, T second, bool condition) {
    const T both[2] = {first, second};
    uint32_t words[sizeof(both) / 4];
    memcpy(words, both, sizeof(both));
    add_words(to, words, condition);
}

/// from[first], ..., `Count` neighbours that fill words, at an address that is a multiple of their bytes.
template <int Count, class T, class Element, int Size>
__device__ __forceinline__ void add_neighbours(T* to, const Element (&from)[Size], int first, bool condition) {
    uint32_t words[Count * sizeof(Element) / 4];
    static_assert(sizeof(words) == Count * sizeof(Element), "whole words");
    memcpy(words, &from[first], sizeof(words));
    add_words(to, words, condition);
}

/// One element of 16 bits, together with -0, which changes no number, for the other of its word: an operation for one
/// alone does not exist, in the place of which the compiler exchanges words in a loop until one is as it was read.
template <class T>
__device__ __forceinline__ void add_element(T* to, T value, bool condition) {
    static_assert(sizeof(T) == 2, "two elements in a word");
    uint16_t code;
    memcpy(&code, &value, 2);
    const size_t at = reinterpret_cast<size_t>(to);
    const uint32_t words[1] = {at & 2 ? uint32_t(code) << 16 | 0x8000u : 0x80000000u | code};
    add_words(reinterpret_cast<T*>(at & ~size_t(2)), words, condition);
}

}  // namespace twill
