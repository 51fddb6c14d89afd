// What generated expressions use of CUDA, in plain C++: so that they run where there is no GPU.
//
// Types have the size and the bits of CUDA's. Intrinsics that round or saturate follow the PTX ISA (cvt, min, max, fma).
// Approximate instructions are exact here up to the rounding of the host's library.
#pragma once
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>

#define __host__
#define __device__
#define __forceinline__ inline

// ---- half precision ------------------------------------------------------------------------------------------------

struct __half {
    _Float16 value;
    __half() = default;
    __half(float x) : value(static_cast<_Float16>(x)) {}
    explicit __half(double x) : value(static_cast<_Float16>(x)) {}
    operator float() const { return value; }
};

inline uint16_t __half_as_ushort(__half x) { uint16_t bits; memcpy(&bits, &x, 2); return bits; }
inline __half __ushort_as_half(uint16_t bits) { __half x; memcpy(&x, &bits, 2); return x; }
inline float __half2float(__half x) { return x; }
inline __half __double2half(double x) { return __half(x); }
inline __half __float2half_rz(float x) {
    const __half near(x);
    if (std::isnan(x) || std::fabs(static_cast<float>(near)) <= std::fabs(x)) return near;
    return __ushort_as_half(__half_as_ushort(near) - 1);
}
inline __half __hfma(__half a, __half b, __half c) {
    // The product of two halves is exact in double, and so is its sum with a third but for one rounding to 53 bits.
    const double exact = static_cast<double>(static_cast<float>(a)) * static_cast<float>(b) + static_cast<float>(c);
    return __half(exact);
}

struct __nv_bfloat16 {
    uint16_t bits;
    __nv_bfloat16() = default;
    __nv_bfloat16(float x) {
        uint32_t wide;
        memcpy(&wide, &x, 4);
        bits = x != x ? 0x7fff : static_cast<uint16_t>((wide + 0x7fff + ((wide >> 16) & 1)) >> 16);
    }
    operator float() const { const uint32_t wide = uint32_t(bits) << 16; float x; memcpy(&x, &wide, 4); return x; }
};

inline float __bfloat162float(__nv_bfloat16 x) { return x; }
inline __nv_bfloat16 __float2bfloat16_rz(float x) {
    uint32_t wide;
    memcpy(&wide, &x, 4);
    __nv_bfloat16 result;
    result.bits = x != x ? 0x7fff : wide >> 16;
    return result;
}
inline float round_to_odd(double x) {
    const float near = static_cast<float>(x);
    uint32_t bits;
    memcpy(&bits, &near, 4);
    if (!std::isfinite(x) || near == x || (bits & 1)) return near;
    bits += (std::fabs(near) < std::fabs(x)) ? 1 : -1;
    float odd;
    memcpy(&odd, &bits, 4);
    return odd;
}
inline __nv_bfloat16 __double2bfloat16(double x) { return __nv_bfloat16(round_to_odd(x)); }
inline __nv_bfloat16 __hfma(__nv_bfloat16 a, __nv_bfloat16 b, __nv_bfloat16 c) {
    const __float128 exact = static_cast<__float128>(float(a)) * float(b) + float(c);
    const double near = static_cast<double>(exact);
    uint64_t bits;
    memcpy(&bits, &near, 8);
    if (std::isfinite(near) && exact != near && !(bits & 1)) {
        const __float128 size = exact < 0 ? -exact : exact;
        bits += static_cast<__float128>(std::fabs(near)) < size ? 1 : -1;
    }
    double odd;
    memcpy(&odd, &bits, 8);
    return __double2bfloat16(odd);
}

// ---- 8-bit floats, saturating (cvt.rn.satfinite) -------------------------------------------------------------------

template <int Exponent, bool Infinite>
struct Byte {
    uint8_t bits;
    static constexpr int fraction = 7 - Exponent, bias = (1 << (Exponent - 1)) - 1;
    static float of(int code) {
        const int high = code >> fraction, low = code & ((1 << fraction) - 1), top = (1 << Exponent) - 1;
        if (Infinite && high == top) return low ? NAN : INFINITY;
        if (!Infinite && code == 127) return NAN;
        return std::ldexp(float(low + (high ? 1 << fraction : 0)), (high ? high : 1) - bias - fraction);
    }
    static constexpr int largest = Infinite ? 0x7b : 0x7e;
    Byte() = default;
    Byte(float x) {
        const int sign = std::signbit(x) ? 128 : 0;
        if (x != x) { bits = 127 | sign; return; }
        int best = 0;
        for (int code = 1; code <= largest; ++code) {
            const double old = std::fabs(std::fabs(double(x)) - of(best)), now = std::fabs(std::fabs(double(x)) - of(code));
            if (now < old || (now == old && code % 2 == 0)) best = code;
        }
        if (std::fabs(x) >= of(largest)) best = largest;
        bits = best | sign;
    }
    operator float() const { const float size = of(bits & 127); return bits & 128 ? -size : size; }
};
using __nv_fp8_e4m3 = Byte<4, false>;
using __nv_fp8_e5m2 = Byte<5, true>;

// ---- floats --------------------------------------------------------------------------------------------------------

inline float __fdiv_rn(float a, float b) { return a / b; }
inline float __fsqrt_rn(float a) { return std::sqrt(a); }
inline float __fdividef(float a, float b) { return a / b; }
inline float rsqrtf(float a) { return 1 / std::sqrt(a); }
inline double rsqrt(double a) { return 1 / std::sqrt(a); }
inline float __expf(float a) { return std::exp(a); }
inline float __exp10f(float a) { return exp10f(a); }
inline float __logf(float a) { return std::log(a); }
inline float __log2f(float a) { return std::log2(a); }
inline float __log10f(float a) { return std::log10(a); }
inline float __sinf(float a) { return std::sin(a); }
inline float __cosf(float a) { return std::cos(a); }
inline float __tanf(float a) { return std::tan(a); }
inline float __powf(float a, float b) { return std::exp2(b * std::log2(a)); }
inline float exp2_approx(float a) { return std::exp2(a); }
inline float log2_approx(float a) { return std::log2(a); }
inline float sqrt_approx(float a) { return std::sqrt(a); }
inline float divide(float a, float b) { return a / b; }

template <class T>
T ptx_max(T a, T b) { return a != a ? b : b != b ? a : a == b ? (std::signbit(a) ? b : a) : a > b ? a : b; }
template <class T>
T ptx_min(T a, T b) { return a != a ? b : b != b ? a : a == b ? (std::signbit(a) ? a : b) : a < b ? a : b; }
#define fmaxf(a, b) ptx_max<float>(a, b)
#define fminf(a, b) ptx_min<float>(a, b)
#define fmax(a, b) ptx_max<double>(a, b)
#define fmin(a, b) ptx_min<double>(a, b)
inline float max_nanf(float a, float b) { return a != a || b != b ? NAN : fmaxf(a, b); }
inline float min_nanf(float a, float b) { return a != a || b != b ? NAN : fminf(a, b); }

using std::isfinite;
using std::isinf;
using std::isnan;

// ---- integers ------------------------------------------------------------------------------------------------------

#define OVERLOADS(T) \
    inline T max(T a, T b) { return a > b ? a : b; } \
    inline T min(T a, T b) { return a < b ? a : b; }
OVERLOADS(int)
OVERLOADS(unsigned)
OVERLOADS(long)
OVERLOADS(unsigned long)
OVERLOADS(long long)
OVERLOADS(unsigned long long)

inline unsigned __umulhi(unsigned a, unsigned b) { return static_cast<uint64_t>(a) * b >> 32; }
inline int __mulhi(int a, int b) { return static_cast<int64_t>(a) * b >> 32; }
inline unsigned long long __umul64hi(unsigned long long a, unsigned long long b) {
    return static_cast<unsigned __int128>(a) * b >> 64;
}
inline long long __mul64hi(long long a, long long b) { return static_cast<__int128>(a) * b >> 64; }
inline int __popc(unsigned a) { return __builtin_popcount(a); }
inline int __popcll(unsigned long long a) { return __builtin_popcountll(a); }
inline int __clz(int a) { return a ? __builtin_clz(a) : 32; }
inline int __clzll(long long a) { return a ? __builtin_clzll(a) : 64; }
inline int __ffs(int a) { return __builtin_ffs(a); }
inline int __ffsll(long long a) { return __builtin_ffsll(a); }

/// cvt.rzi: towards zero, to the nearest there is; NaN is 0, but the highest bit alone for f64 or 64 bits.
template <class To, class From>
To convert(From x) {
    constexpr To low = std::numeric_limits<To>::min(), high = std::numeric_limits<To>::max();
    if (x != x) return sizeof(To) == 8 || sizeof(From) == 8 ? To(uint64_t(1) << (8 * sizeof(To) - 1)) : To(0);
    const long double whole = std::trunc(static_cast<long double>(x));
    return whole <= low ? low : whole >= high ? high : static_cast<To>(whole);
}
inline int __float2int_rz(float x) { return convert<int>(x); }
inline unsigned __float2uint_rz(float x) { return convert<unsigned>(x); }
inline long long __float2ll_rz(float x) { return convert<long long>(x); }
inline unsigned long long __float2ull_rz(float x) { return convert<unsigned long long>(x); }
inline int __double2int_rz(double x) { return convert<int>(x); }
inline unsigned __double2uint_rz(double x) { return convert<unsigned>(x); }
inline long long __double2ll_rz(double x) { return convert<long long>(x); }
inline unsigned long long __double2ull_rz(double x) { return convert<unsigned long long>(x); }
