// Arithmetic that C++ leaves undefined or has no word for: shifts by the width and more, saturation, unordered
// comparisons, counts of bits, roundings of 8-bit floats. Nothing here is specific to a GPU but the intrinsics it calls.
#pragma once
#include <cmath>
#include <cstdint>
#include <cstring>
#include <type_traits>

namespace twill {

template <class T>
constexpr int bit_width = 8 * sizeof(T);

/// The bits of one value as another of the same size.
template <class To, class From>
__host__ __device__ __forceinline__ To bitcast(From from) {
    static_assert(sizeof(To) == sizeof(From), "a bitcast keeps the size");
    To to;
    memcpy(&to, &from, sizeof(To));
    return to;
}

/// Truth values as bits, 32 to a word; indexed by constants only, like any array in registers. Words begin with zero: the
/// compiler may take a word of which any bit is not written for undefined.
template <int Count>
struct Mask {
    uint32_t words[(Count + 31) / 32] = {};

    struct Element {
        uint32_t& word;
        uint32_t bit;

        __host__ __device__ __forceinline__ operator bool() const { return word & bit; }
        __host__ __device__ __forceinline__ Element& operator=(bool value) {
            word = value ? word | bit : word & ~bit;
            return *this;
        }
        __host__ __device__ __forceinline__ Element& operator=(const Element& other) { return *this = bool(other); }
    };

    __host__ __device__ __forceinline__ Element operator[](int i) { return {words[i / 32], 1u << i % 32}; }
};

/// The e2m1 number in the low (0) or high (1) half of a byte. Its bits in a float are 2^-126 times the number, subnormal
/// ones included.
struct E2m1 {
    uint32_t byte;
    int half;

    __host__ __device__ __forceinline__ operator float() const {
        const uint32_t bits = byte >> 4 * half;
        return bitcast<float>((bits & 7) << 22 | (bits & 8) << 28) * 0x1p126f;
    }
};
__host__ __device__ __forceinline__ E2m1 unpack_e2m1(int8_t byte, int half) {
    return {uint8_t(byte), half};
}

#ifdef __CUDACC__
/// The bits of two of them as 16-bit floats with `FRACTION` bits of fraction, a power of two smaller. Multiplications
/// bring the bits of both numbers of a byte to both of their places at once, where masks choose. The compiler joins the
/// masks of each where both are of one byte, as long as it does not see all four together.
template <int FRACTION>
__device__ __forceinline__ uint32_t spread_e2m1(E2m1 low, E2m1 high) {
    const uint32_t first = low.byte >> 4 * low.half, second = high.byte << (4 - 4 * high.half);
    constexpr uint32_t number = 7u << (FRACTION - 1), numbers = 1u << (FRACTION - 1) | 1u << (FRACTION + 11);
    constexpr uint32_t signs = 1u << 12 | 1u << 24;
    const uint32_t size = (first * numbers & number) | (second * numbers & number << 16);
    const uint32_t sign = (first * signs & 0x8000u) | (second * signs & 0x80000000u);
    uint32_t word;
    asm("or.b32 %0, %1, %2;" : "=r"(word) : "r"(size), "r"(sign));
    return word;
}

__device__ __forceinline__ uint32_t pack_bf16(E2m1 low, E2m1 high) {
    return multiply_bf16x2(spread_e2m1<7>(low, high), 0x7e807e80u);  // 2^126
}
__device__ __forceinline__ uint32_t pack_f16(E2m1 low, E2m1 high) {
    return multiply_f16x2(spread_e2m1<10>(low, high), 0x74007400u);  // 2^14
}
#endif

// ---- shifts that clamp their count, as PTX shl and shr do ---------------------------------------------------------

template <class T, class Count>
__host__ __device__ __forceinline__ T shift_left(T value, Count count) {
    using Bits = std::make_unsigned_t<T>;
    const auto by = static_cast<std::make_unsigned_t<Count>>(count);
    return by < bit_width<T> ? T(Bits(Bits(value) << by)) : T(0);
}

/// Arithmetic where T is signed, logical where it is not.
template <class T, class Count>
__host__ __device__ __forceinline__ T shift_right(T value, Count count) {
    const auto by = static_cast<std::make_unsigned_t<Count>>(count);
    if (by < bit_width<T>) return T(value >> by);
    return std::is_signed_v<T> ? T(value >> (bit_width<T> - 1)) : T(0);
}

// ---- integers ------------------------------------------------------------------------------------------------------
//
// TTGIR's integers wrap around. C++ leaves the overflow of signed ones undefined, and nvcc makes use of that: it takes
// (a + 1 > a) for true.

template <class A, class B>
__host__ __device__ __forceinline__ std::common_type_t<A, B> wrap_add(A a, B b) {
    using Bits = std::make_unsigned_t<std::common_type_t<A, B>>;
    return Bits(a) + Bits(b);
}

template <class A, class B>
__host__ __device__ __forceinline__ std::common_type_t<A, B> wrap_sub(A a, B b) {
    using Bits = std::make_unsigned_t<std::common_type_t<A, B>>;
    return Bits(a) - Bits(b);
}

template <class A, class B>
__host__ __device__ __forceinline__ std::common_type_t<A, B> wrap_mul(A a, B b) {
    using Bits = std::make_unsigned_t<std::common_type_t<A, B>>;
    return Bits(a) * Bits(b);
}

/// The quotient rounded towards minus infinity.
template <class T>
__host__ __device__ __forceinline__ T divide_floor(T a, T b) {
    const T quotient = T(a / b);
    return T(quotient - (T(quotient * b) != a && (a < 0) != (b < 0)));
}

/// The quotient rounded towards plus infinity.
template <class T>
__host__ __device__ __forceinline__ T divide_ceiling(T a, T b) {
    const T quotient = T(a / b);
    return T(quotient + (T(quotient * b) != a && (a < 0) == (b < 0)));
}

/// The least integer has no positive one and stays as it is.
template <class T>
__host__ __device__ __forceinline__ T absolute(T value) {
    using Bits = std::make_unsigned_t<T>;
    return value < 0 ? T(Bits(0) - Bits(value)) : value;
}

template <class T>
__device__ __forceinline__ int count_ones(T value) {
    if constexpr (sizeof(T) == 8) return __popcll(value);
    else return __popc(value);
}

/// Zeros above the highest one; every bit of a zero.
template <class T>
__device__ __forceinline__ int count_leading_zeros(T value) {
    if constexpr (sizeof(T) == 8) return __clzll(static_cast<long long>(value));
    else return __clz(static_cast<int>(value)) - (32 - bit_width<T>);
}

/// Zeros below the lowest one; every bit of a zero.
template <class T>
__device__ __forceinline__ int count_trailing_zeros(T value) {
    if (value == 0) return bit_width<T>;
    if constexpr (sizeof(T) == 8) return __ffsll(static_cast<long long>(value)) - 1;
    else return __ffs(static_cast<int>(value)) - 1;
}

/// The nearest value that a shorter integer has.
template <class To, class From>
__host__ __device__ __forceinline__ To saturate(From value) {
    constexpr From high = From((1u << (bit_width<To> - std::is_signed_v<To>)) - 1);
    if constexpr (std::is_signed_v<To>) {
        if (value < -high - 1) return To(-high - 1);
    }
    return To(value > high ? high : value);
}

// ---- floats --------------------------------------------------------------------------------------------------------

/// One of both is no number.
template <class T>
__host__ __device__ __forceinline__ bool unordered(T a, T b) { return a != a || b != b; }

/// Both are numbers, and not the same.
template <class T>
__host__ __device__ __forceinline__ bool ordered_not_equal(T a, T b) { return a < b || a > b; }

__device__ __forceinline__ double max_nan(double a, double b) { return unordered(a, b) ? NAN : fmax(a, b); }

__device__ __forceinline__ double min_nan(double a, double b) { return unordered(a, b) ? NAN : fmin(a, b); }

/// To fp8 e5m2 towards zero and back: the upper half of the fp16 number rounded towards zero. NaN stays NaN.
__device__ __forceinline__ float truncate_e5m2(float value) {
    if (value != value) return value;
    const uint16_t half = __half_as_ushort(__float2half_rz(value));
    return __half2float(__ushort_as_half(static_cast<uint16_t>(half & 0xff00)));
}

}  // namespace twill
