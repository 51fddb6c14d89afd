// Arithmetic on accumulator fragments: special functions, packing, matrix loads and stores.
//
// A wgmma accumulator of 64 x N fp32 gives thread t of the warpgroup, in register 4*j + i, the element of row
// 16*(t/32) + (t%32)/4 + 8*(i/2) and column 8*j + 2*(t%4) + i%2 (PTX ISA, wgmma.mma_async, register fragments
// of D).
#pragma once
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>
#include <cstdint>
#include <cstring>

namespace twill {

/// 2 to the x on the special-function unit, subnormals flushed (ex2.approx.ftz.f32).
__device__ __forceinline__ float exp2_approx(float x) {
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

/// From -most to most; of NaN one of both.
__device__ __forceinline__ float clamp_magnitude(float x, float most) {
    float d;
    asm("min.xorsign.abs.f32 %0, %1, %2;" : "=f"(d) : "f"(x), "f"(most));
    return d;
}

/// The smaller of two numbers; NaN where one is none (min.NaN.f32).
__device__ __forceinline__ float min_nanf(float a, float b) {
    float smaller;
    asm("min.NaN.f32 %0, %1, %2;" : "=f"(smaller) : "f"(a), "f"(b));
    return smaller;
}

/// The larger of two numbers; NaN where one is none (max.NaN.f32).
__device__ __forceinline__ float max_nanf(float a, float b) {
    float larger;
    asm("max.NaN.f32 %0, %1, %2;" : "=f"(larger) : "f"(a), "f"(b));
    return larger;
}

// ---- maxima by the bits of numbers ----------------------------------------------------------------------------------

/// The largest of three, two of them the bits of numbers: one instruction of sm_90 (VIMNMX3).
__device__ __forceinline__ int32_t largest_bits(int32_t largest, float a, float b) {
    return max(max(largest, __float_as_int(a)), __float_as_int(b));
}

/// Whether, in any thread of the warp, the largest bits of a row may not be those of its largest number: they are
/// negative as an integer, or lie above those of infinity.
template <int Rows>
__device__ __forceinline__ bool bits_mislead(const int32_t (&bits)[Rows]) {
    uint32_t largest = 0;
#pragma unroll
    for (int i = 0; i < Rows; ++i) largest = max(largest, uint32_t(bits[i]));
    return __builtin_expect(__any_sync(~0u, largest > uint32_t(__float_as_int(INFINITY))), false);
}

// ---- 2 to the x on the FMA unit ------------------------------------------------------------------------------------
//
// x = n + f with n = floor(x), which an addition of 1.5 * 2^23 + 127, rounded down, leaves in the last bits of the sum
// (Cody and Waite, "Software Manual for the Elementary Functions", 1980). 2^f for 0 <= f <= 1 is the polynomial of degree
// 6 with constant term 1 whose largest relative error is least (Remez); its coefficients are rounded to float32. The
// error is at most 1.17 ulp where the result is normal; smaller results are 0, larger ones infinite, as those of
// ex2.approx.ftz.f32 are.

constexpr float exp2_magic = 12583039.0f;
constexpr float exp2_lowest = -127.0f, exp2_highest = 128.0f;
/// The factor of f to the power `i` + 1.
__device__ __forceinline__ float exp2_coefficient(int i) {
    constexpr float found[6] = {0.6931470632553101f,   0.2402292937040329f,    0.055485278367996216f,
                                0.009675451554358006f, 0.0012467846972867846f, 0.0002161291631637141f};
    return found[i];
}

__device__ __forceinline__ float exp2_clamped(float x) { return max_nanf(min_nanf(x, exp2_highest), exp2_lowest); }

/// 2 to the n, from the sum whose last bits are n + 127.
__device__ __forceinline__ float exp2_whole(float sum) { return __uint_as_float(__float_as_uint(sum) << 23); }

__device__ __forceinline__ float exp2_polynomial(float x) {
    x = exp2_clamped(x);
    const float sum = __fadd_rd(x, exp2_magic);
    const float f = __fsub_rn(x, __fsub_rn(sum, exp2_magic));
    float p = exp2_coefficient(5);
#pragma unroll
    for (int i = 4; i >= 0; --i) p = __fmaf_rn(p, f, exp2_coefficient(i));
    p = __fmaf_rn(p, f, 1.0f);
    float y;
    asm("mul.ftz.f32 %0, %1, %2;" : "=f"(y) : "f"(p), "f"(exp2_whole(sum)));
    return y;
}

constexpr int exp2_pairs = 8;

/// 2 to the x of the element in register `i`: by the polynomial in `Parts` of each eight pairs of registers, on the
/// special-function unit in the others.
template <int Parts>
__device__ __forceinline__ float exp2_parts(int i, float x) {
    return i / 2 % exp2_pairs < Parts ? exp2_polynomial(x) : exp2_approx(x);
}

/// Base-2 logarithm on the special-function unit (lg2.approx.ftz.f32).
__device__ __forceinline__ float log2_approx(float x) {
    float y;
    asm("lg2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

/// Square root on the special-function unit, subnormals flushed (sqrt.approx.ftz.f32).
__device__ __forceinline__ float sqrt_approx(float x) {
    float y;
    asm("sqrt.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

/// a / b within 2 ulp over the whole range of b (div.full.f32), which __fdividef is not: it gives 0 for a b over 2^126.
__device__ __forceinline__ float divide(float a, float b) {
    float quotient;
    asm("div.full.f32 %0, %1, %2;" : "=f"(quotient) : "f"(a), "f"(b));
    return quotient;
}

/// Whether a / b by `divide` has the bits of a times the reciprocal of b, which is stored.
__device__ __forceinline__ bool invert(float b, float& reciprocal) {
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(reciprocal) : "f"(b));
    return !(fabsf(b) > 0x1p126f) && !(fabsf(b) < 0x1p-126f);
}

// ---- packing (cvt): `low` lands in the least significant part --------------------------------------------------

__device__ __forceinline__ uint32_t pack_f16(float low, float high) {
    uint32_t packed;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(packed) : "f"(high), "f"(low));
    return packed;
}

__device__ __forceinline__ uint32_t pack_bf16(float low, float high) {
    uint32_t packed;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(packed) : "f"(high), "f"(low));
    return packed;
}

/// A number as bfloat16, by the instruction that converts two: the one that converts one is of a unit with a quarter of its
/// rate, on an H200, where the result is widened again.
template <class Number>
__device__ __forceinline__ __nv_bfloat16 to_bf16(Number number) {
    return __nv_bfloat16(number);
}
__device__ __forceinline__ __nv_bfloat16 to_bf16(float number) {
    return __ushort_as_bfloat16(static_cast<uint16_t>(pack_bf16(number, 0.0f)));
}

/// Two elements as they are stored; those of the result's type, or that one instruction converts, are no float32 between.
template <class Stored>
__device__ __forceinline__ uint32_t pack_f16(Stored low, Stored high) {
    return pack_f16(float(low), float(high));
}
__device__ __forceinline__ uint32_t pack_f16(__half low, __half high) {
    return __half_as_ushort(low) | uint32_t(__half_as_ushort(high)) << 16;
}
/// The bytes of two fp8 elements that lie anywhere.
template <class Stored>
__device__ __forceinline__ uint16_t both_bytes(Stored low, Stored high) {
    return low.__x | high.__x << 8;
}

/// The bytes of two fp8 elements. Neighbours of an array are read as they lie there: of bytes one by one the compiler shifts
/// and masks what is in the upper half of a word, which the conversion takes as it is.
template <class Stored>
__device__ __forceinline__ uint16_t two_bytes(const Stored& low, const Stored& high) {
    static_assert(sizeof(Stored) == 1, "two bytes");
    uint16_t bytes = low.__x | high.__x << 8;
    if (&low + 1 == &high) memcpy(&bytes, &low, sizeof(bytes));
    return bytes;
}
/// Puts each two neighbours among bytes into order, in threads that have read them in the other one.
template <class Stored, int count>
__device__ __forceinline__ void exchange_neighbours(Stored (&bytes)[count], bool exchanged) {
    static_assert(sizeof(Stored) == 1 && count % 2 == 0, "pairs of bytes");
    const uint32_t order = exchanged ? 0x04 : 0x40;
    #pragma unroll
    for (int i = 0; i < count; i += 2) {
        uint8_t low, high;
        memcpy(&low, &bytes[i], 1);
        memcpy(&high, &bytes[i + 1], 1);
        const uint16_t both = uint16_t(__byte_perm(low, high, order));
        memcpy(&bytes[i], &both, 2);
    }
}

__device__ __forceinline__ uint32_t pack_f16(const __nv_fp8_e4m3& low, const __nv_fp8_e4m3& high) {
    uint32_t packed;
    asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(packed) : "h"(two_bytes(low, high)));
    return packed;
}
__device__ __forceinline__ uint32_t pack_f16(const __nv_fp8_e5m2& low, const __nv_fp8_e5m2& high) {
    uint32_t packed;
    asm("cvt.rn.f16x2.e5m2x2 %0, %1;" : "=r"(packed) : "h"(two_bytes(low, high)));
    return packed;
}

template <class Stored>
__device__ __forceinline__ uint32_t pack_bf16(Stored low, Stored high) {
    return pack_bf16(float(low), float(high));
}
__device__ __forceinline__ uint32_t pack_bf16(__nv_bfloat16 low, __nv_bfloat16 high) {
    return __bfloat16_as_ushort(low) | uint32_t(__bfloat16_as_ushort(high)) << 16;
}

/// An integer of which is known that it lies so little above `low` that 1024 (f16) or 128 (bf16) plus the difference has the
/// difference in its lowest bits: two at once become floats by a sum and a subtraction that rounds nothing, in the place of
/// two conversions of integers and one of floats.
template <int low>
struct Nearby {
    int32_t value;
    __device__ __forceinline__ operator float() const { return float(value); }
};
template <int low>
__device__ __forceinline__ Nearby<low> nearby(int32_t value) {
    return {value};
}

/// The bits of an integer from 1 to 2^(FRACTION + 1) as a float with so many bits of fraction.
template <int FRACTION, int BIAS>
__device__ constexpr uint32_t float_bits(int value) {
    int exponent = 0;
    while (value >> exponent > 1) ++exponent;
    const int fraction = value - (1 << exponent);
    return (BIAS + exponent) << FRACTION |
           (exponent > FRACTION ? fraction >> (exponent - FRACTION) : fraction << (FRACTION - exponent));
}

/// Two of them beside each other: `first` is the float whose lowest bits they fill.
template <int low>
__device__ __forceinline__ uint32_t beside(uint32_t first, Nearby<low> one, Nearby<low> other) {
    return uint32_t(one.value) + (uint32_t(other.value) << 16) + (first - uint32_t(low)) * 0x10001u;
}

template <int low>
__device__ __forceinline__ uint32_t pack_f16(Nearby<low> one, Nearby<low> other) {
    constexpr uint32_t shift = float_bits<10, 15>(1024 - low);
    uint32_t packed;
    asm("sub.rn.f16x2 %0, %1, %2;" : "=r"(packed) : "r"(beside(0x6400, one, other)), "r"(shift * 0x10001u));
    return packed;
}
template <int low>
__device__ __forceinline__ uint32_t pack_bf16(Nearby<low> one, Nearby<low> other) {
    constexpr uint32_t shift = float_bits<7, 127>(128 - low);
    uint32_t packed;
    asm("sub.rn.bf16x2 %0, %1, %2;" : "=r"(packed) : "r"(beside(0x4300, one, other)), "r"(shift * 0x10001u));
    return packed;
}

/// Two fp8 e4m3 values, saturated to the largest finite one.
__device__ __forceinline__ uint16_t pack_e4m3(float low, float high) {
    uint16_t packed;
    asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(packed) : "f"(high), "f"(low));
    return packed;
}

/// Two fp8 e5m2 values, saturated to the largest finite one.
__device__ __forceinline__ uint16_t pack_e5m2(float low, float high) {
    uint16_t packed;
    asm("cvt.rn.satfinite.e5m2x2.f32 %0, %1, %2;" : "=h"(packed) : "f"(high), "f"(low));
    return packed;
}

/// The low (0) or high (1) of two packed values.
__device__ __forceinline__ float unpack_f16(uint32_t packed, int half) {
    return __half2float(__ushort_as_half(static_cast<uint16_t>(packed >> 16 * half)));
}

/// The low (0) or high (1) half of a word, as it is.
__device__ __forceinline__ uint32_t half_of(uint32_t packed, int half) { return packed >> 16 * half & 0xffff; }

/// The low (0) or high (1) element of a word, as it is.
__device__ __forceinline__ __half f16_of(uint32_t packed, int half) {
    return __ushort_as_half(static_cast<uint16_t>(packed >> 16 * half));
}
__device__ __forceinline__ __nv_bfloat16 bf16_of(uint32_t packed, int half) {
    return __ushort_as_bfloat16(static_cast<uint16_t>(packed >> 16 * half));
}
__device__ __forceinline__ __nv_fp8_e4m3 e4m3_of(uint16_t packed, int half) {
    __nv_fp8_e4m3 element;
    element.__x = static_cast<uint8_t>(packed >> 8 * half);
    return element;
}
__device__ __forceinline__ __nv_fp8_e5m2 e5m2_of(uint16_t packed, int half) {
    __nv_fp8_e5m2 element;
    element.__x = static_cast<uint8_t>(packed >> 8 * half);
    return element;
}

/// A number as it is stored; one that is stored so is not converted to float32 and back.
template <class Number>
__device__ __forceinline__ __half stored_f16(Number number) {
    return __half(float(number));
}
__device__ __forceinline__ __half stored_f16(__half number) { return number; }
template <class Number>
__device__ __forceinline__ __nv_bfloat16 stored_bf16(Number number) {
    return to_bf16(float(number));
}
__device__ __forceinline__ __nv_bfloat16 stored_bf16(__nv_bfloat16 number) { return number; }
template <class Number>
__device__ __forceinline__ __nv_fp8_e4m3 stored_e4m3(Number number) {
    return __nv_fp8_e4m3(float(number));
}
__device__ __forceinline__ __nv_fp8_e4m3 stored_e4m3(__nv_fp8_e4m3 number) { return number; }
template <class Number>
__device__ __forceinline__ __nv_fp8_e5m2 stored_e5m2(Number number) {
    return __nv_fp8_e5m2(float(number));
}
__device__ __forceinline__ __nv_fp8_e5m2 stored_e5m2(__nv_fp8_e5m2 number) { return number; }

/// A word of two halves.
__device__ __forceinline__ uint32_t halves(uint32_t low, uint32_t high) { return low | high << 16; }

#define TWILL_PAIR(NAME, INSTRUCTION)                                              \
    __device__ __forceinline__ uint32_t NAME(uint32_t a, uint32_t b) {            \
        uint32_t d;                                                                \
        asm(INSTRUCTION " %0, %1, %2;" : "=r"(d) : "r"(a), "r"(b));                \
        return d;                                                                  \
    }

TWILL_PAIR(add_f16x2, "add.rn.f16x2")
TWILL_PAIR(subtract_f16x2, "sub.rn.f16x2")
TWILL_PAIR(multiply_f16x2, "mul.rn.f16x2")
TWILL_PAIR(add_bf16x2, "add.rn.bf16x2")
TWILL_PAIR(subtract_bf16x2, "sub.rn.bf16x2")
TWILL_PAIR(multiply_bf16x2, "mul.rn.bf16x2")
TWILL_PAIR(max_f16x2, "max.f16x2")
TWILL_PAIR(min_f16x2, "min.f16x2")
TWILL_PAIR(max_bf16x2, "max.bf16x2")
TWILL_PAIR(min_bf16x2, "min.bf16x2")
#undef TWILL_PAIR

/// Both elements of a word without their signs.
__device__ __forceinline__ uint32_t absolute_halves(uint32_t packed) { return packed & 0x7fff7fff; }

/// a * b + c, rounded once.
__device__ __forceinline__ uint32_t fma_f16x2(uint32_t a, uint32_t b, uint32_t c) {
    uint32_t d;
    asm("fma.rn.f16x2 %0, %1, %2, %3;" : "=r"(d) : "r"(a), "r"(b), "r"(c));
    return d;
}

__device__ __forceinline__ float unpack_bf16(uint32_t packed, int half) {
    return __uint_as_float(half ? packed & 0xffff0000 : packed << 16);
}

/// One conversion gives both elements of a pair: the compiler finds the second equal to the first.
__device__ __forceinline__ float unpack_e4m3(uint16_t packed, int half) {
    uint32_t wide;
    asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(wide) : "h"(packed));
    return unpack_f16(wide, half);
}

__device__ __forceinline__ float unpack_e5m2(uint16_t packed, int half) {
    uint32_t wide;
    asm("cvt.rn.f16x2.e5m2x2 %0, %1;" : "=r"(wide) : "h"(packed));
    return unpack_f16(wide, half);
}

// ---- matrices of 8 x 8 16-bit elements between registers and shared memory ---------------------------------------

/// A byte offset in a tile of rows of `Width` bytes, as the swizzle of that width places it: 16-byte chunk c
/// of row r goes to c ^ r%8 for 128 bytes, c ^ r/2%4 for 64, c ^ r/4%2 for 32. The tile starts at a multiple
/// of 8 * Width bytes.
template <uint32_t Width>
__device__ __forceinline__ uint32_t swizzle(uint32_t offset) { return offset ^ ((offset >> 3) & (Width - 16)); }

// ---- single elements in shared memory ----------------------------------------------------------------------------

/// What lies at a shared-window address.
template <class T>
__device__ __forceinline__ T& shared_at(uint32_t address) {
    return *reinterpret_cast<T*>(__cvta_shared_to_generic(address));
}

/// A number of so many bytes.
template <int Bytes>
struct Whole {
    using Type = uint4;
};
template <>
struct Whole<1> {
    using Type = uint8_t;
};
template <>
struct Whole<2> {
    using Type = uint16_t;
};
template <>
struct Whole<4> {
    using Type = uint32_t;
};
template <>
struct Whole<8> {
    using Type = uint2;
};

/// `Count` elements side by side at a shared-window address, a multiple of their bytes, to to[first], ... in one access.
/// They are copied as words, of which the compiler converts neighbours together, not byte by byte.
template <int Count, class Element, int Size>
__device__ __forceinline__ void load_elements(Element (&to)[Size], int first, uint32_t address) {
    const auto found = shared_at<typename Whole<Count * sizeof(Element)>::Type>(address);
    static_assert(sizeof(found) == Count * sizeof(Element), "one access");
    memcpy(&to[first], &found, sizeof(found));
}

/// The exclusive or of the words of what was read.
template <class Element>
__device__ __forceinline__ uint32_t joined(const Element& read) {
    uint32_t word = 0;
    memcpy(&word, &read, sizeof(Element) < 4 ? sizeof(Element) : 4);
    return word;
}

/// Two halves are a word as they were read. (Four bytes are not: MMAs of warps convert and spread them, and ptxas would keep
/// both, as in DeepSeek's fp8 product in tiles of 32 x 128, 96 bytes spilled of 80 registers.)
template <class Element, int Size>
__device__ __forceinline__ uint32_t joined(const Element (&read)[Size]) {
    constexpr int together = sizeof(Element) == 2 && Size % 2 == 0 ? 2 : 1;
    uint32_t word = 0;
#pragma unroll
    for (int i = 0; i < Size; i += together) {
        uint32_t part = joined(read[i]);
        if (together > 1) memcpy(&part, &read[i], 4);
        word ^= part;
    }
    return word;
}

/// What was read from shared memory has arrived before what follows. That a warp has read a slot does not follow from
/// its arrival on a barrier alone: behind stores that wait for memory its reads may be late, and TMA does not queue
/// with them. (Gated linear attention on an H200 lost rows of one tile in a thousand so.) The fence is hardly ever
/// executed; it keeps the arrival behind the comparison.
template <class Read>
__device__ __forceinline__ void await_reads(const Read& read) {
    asm volatile("{\n.reg .pred p;\nsetp.eq.u32 p, %0, 0x7f123457;\n@p fence.proxy.async.shared::cta;\n}" ::"r"(joined(read))
                 : "memory");
}

/// `Count` elements side by side, from[first], ..., to a shared-window address, a multiple of their bytes, in one access.
template <int Count, class Element, int Size>
__device__ __forceinline__ void store_elements(uint32_t address, const Element (&from)[Size], int first) {
    struct alignas(Count * sizeof(Element)) Neighbours {
        Element element[Count];
    };
    Neighbours stored;
#pragma unroll
    for (int i = 0; i < Count; ++i) stored.element[i] = from[first + i];
    shared_at<Neighbours>(address) = stored;
}

/// Byte number `at` of a word. What is known when the code is compiled: the number, and `which` word it is.
struct ByteOfWord {
    uint32_t word, at, which;
};

/// Of word `i` of an array that `Name` tells from others.
template <uint32_t Name, class Word, int Size>
__device__ __forceinline__ ByteOfWord byte_of_word(const Word (&words)[Size], uint32_t i, uint32_t at) {
    return {uint32_t(words[i]), at, Name * 4096 + i};
}

/// Four bytes of two words by one permutation (prmt), of four by three.
__device__ __forceinline__ uint32_t word_of_bytes(const ByteOfWord (&from)[4]) {
    const ByteOfWord first = from[0];
    ByteOfWord other = first;
#pragma unroll
    for (int i = 1; i < 4; ++i)
        if (other.which == first.which) other = from[i];
    bool two = true;
    uint32_t order = 0;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        two = two && (from[i].which == first.which || from[i].which == other.which);
        order |= (from[i].at + (from[i].which == first.which ? 0 : 4)) << 4 * i;
    }
    if (two) return __byte_perm(first.word, other.word, order);
    const uint32_t low = __byte_perm(from[0].word, from[1].word, from[0].at | (4 + from[1].at) << 4);
    const uint32_t high = __byte_perm(from[2].word, from[3].word, from[2].at | (4 + from[3].at) << 4);
    return __byte_perm(low, high, 0x5410);
}

/// As of elements, of bytes of words.
template <int Count, int Size>
__device__ __forceinline__ void store_elements(uint32_t address, const ByteOfWord (&from)[Size], int first) {
    static_assert(Count % 4 == 0, "whole words");
    uint32_t words[Count / 4];
#pragma unroll
    for (int i = 0; i < Count / 4; ++i) {
        const int at = first + 4 * i;
        words[i] = word_of_bytes({from[at], from[at + 1], from[at + 2], from[at + 3]});
    }
    store_elements<Count / 4>(address, words, 0);
}

// ---- two float32 numbers at once (sm_100 and later) ----------------------------------------------------------------

#define TWILL_FLOAT_PAIR(NAME, INSTRUCTION)                                                          \
    __device__ __forceinline__ float2 NAME(float2 a, float2 b) {                                     \
        float2 d;                                                                                    \
        asm("{\n.reg .b64 x, y;\nmov.b64 x, {%2, %3};\nmov.b64 y, {%4, %5};\n" INSTRUCTION        \
            " x, x, y;\nmov.b64 {%0, %1}, x;\n}"                                                     \
            : "=f"(d.x), "=f"(d.y) : "f"(a.x), "f"(a.y), "f"(b.x), "f"(b.y));                        \
        return d;                                                                                    \
    }

TWILL_FLOAT_PAIR(add_pair, "add.rn.f32x2")
TWILL_FLOAT_PAIR(multiply_pair, "mul.rn.f32x2")
TWILL_FLOAT_PAIR(add_pair_down, "add.rm.f32x2")
TWILL_FLOAT_PAIR(multiply_pair_flushed, "mul.rn.ftz.f32x2")

/// a * b + c, rounded once.
__device__ __forceinline__ float2 fma_pair(float2 a, float2 b, float2 c) {
    float2 d;
    asm("{\n.reg .b64 x, y, z;\nmov.b64 x, {%2, %3};\nmov.b64 y, {%4, %5};\nmov.b64 z, {%6, %7};\n"
        "fma.rn.f32x2 x, x, y, z;\nmov.b64 {%0, %1}, x;\n}"
        : "=f"(d.x), "=f"(d.y) : "f"(a.x), "f"(a.y), "f"(b.x), "f"(b.y), "f"(c.x), "f"(c.y));
    return d;
}

__device__ __forceinline__ float2 negate_pair(float2 a) { return float2{-a.x, -a.y}; }

__device__ __forceinline__ float2 subtract_pair(float2 a, float2 b) { return add_pair(a, negate_pair(b)); }

__device__ __forceinline__ float2 both(float x) { return float2{x, x}; }

/// Two elements of `exp2_polynomial`.
__device__ __forceinline__ float2 exp2_polynomial_pair(float2 x) {
    x = float2{exp2_clamped(x.x), exp2_clamped(x.y)};
    const float2 sum = add_pair_down(x, both(exp2_magic));
    const float2 f = fma_pair(add_pair(sum, both(-exp2_magic)), both(-1.0f), x);
    float2 p = both(exp2_coefficient(5));
#pragma unroll
    for (int i = 4; i >= 0; --i) p = fma_pair(p, f, both(exp2_coefficient(i)));
    p = fma_pair(p, f, both(1.0f));
    return multiply_pair_flushed(p, float2{exp2_whole(sum.x), exp2_whole(sum.y)});
}

/// Two elements of `exp2_parts`, in registers `i` and `i` + 1 for an even `i`.
template <int Parts>
__device__ __forceinline__ float2 exp2_parts_pair(int i, float2 x) {
    return i / 2 % exp2_pairs < Parts ? exp2_polynomial_pair(x) : float2{exp2_approx(x.x), exp2_approx(x.y)};
}

__device__ __forceinline__ void unpair(float2 pair, float& low, float& high) { low = pair.x, high = pair.y; }

__device__ __forceinline__ void unpair(uint32_t pair, __half& low, __half& high) {
    low = f16_of(pair, 0), high = f16_of(pair, 1);
}

__device__ __forceinline__ void unpair(uint32_t pair, __nv_bfloat16& low, __nv_bfloat16& high) {
    low = bf16_of(pair, 0), high = bf16_of(pair, 1);
}

// ---- neighbours in a row between registers and shared memory -----------------------------------------------------

__device__ __forceinline__ void store_shared(uint32_t address, uint16_t pair) {
    asm volatile("st.shared.b16 [%0], %1;" ::"r"(address), "h"(pair) : "memory");
}

__device__ __forceinline__ void store_shared(uint32_t address, float low, float high) {
    asm volatile("st.shared.v2.f32 [%0], {%1, %2};" ::"r"(address), "f"(low), "f"(high) : "memory");
}

__device__ __forceinline__ void store_shared(uint32_t address, int32_t low, int32_t high) {
    asm volatile("st.shared.v2.s32 [%0], {%1, %2};" ::"r"(address), "r"(low), "r"(high) : "memory");
}

__device__ __forceinline__ void load_shared(uint32_t address, uint16_t& pair) {
    asm volatile("ld.shared.b16 %0, [%1];" : "=h"(pair) : "r"(address) : "memory");
}

__device__ __forceinline__ void load_shared(uint32_t address, float& low, float& high) {
    asm volatile("ld.shared.v2.f32 {%0, %1}, [%2];" : "=f"(low), "=f"(high) : "r"(address) : "memory");
}

__device__ __forceinline__ void load_shared(uint32_t address, int32_t& low, int32_t& high) {
    asm volatile("ld.shared.v2.s32 {%0, %1}, [%2];" : "=r"(low), "=r"(high) : "r"(address) : "memory");
}

/// Stores four matrices; lane l gives the address of row l%8 of matrix l/8 (stmatrix.x4).
__device__ __forceinline__ void stmatrix_x4(uint32_t address, uint32_t m0, uint32_t m1, uint32_t m2, uint32_t m3) {
    asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(address), "r"(m0), "r"(m1),
                 "r"(m2), "r"(m3) : "memory");
}

/// Stores four matrices transposed; lane l gives the address of column l%8 of matrix l/8 (stmatrix.x4.trans).
__device__ __forceinline__ void stmatrix_x4_transposed(uint32_t address, uint32_t m0, uint32_t m1, uint32_t m2, uint32_t m3) {
    asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(address), "r"(m0), "r"(m1),
                 "r"(m2), "r"(m3) : "memory");
}

/// Loads four matrices into m[0..3]; lane l gives the address of row l%8 of matrix l/8 (ldmatrix.x4).
__device__ __forceinline__ void ldmatrix_x4(uint32_t (&m)[4], uint32_t address) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(m[0]), "=r"(m[1]), "=r"(m[2]), "=r"(m[3]) : "r"(address) : "memory");
}

}  // namespace twill
