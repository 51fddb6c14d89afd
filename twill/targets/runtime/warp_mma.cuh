// MMAs of one warp, synchronously: D[16 x 8] += A[16 x K] B[K x 8] with all operands in registers.
//
// Takes whole tiles as a thread holds them, elements of 16 bits in pairs: accumulators of 16 x 8 elements, four a
// thread (of f16, two words), columns first; of A, for each 16 rows, `Width` elements along K, the same 8 rows below, and both
// again for the second half of K; of B the same without the rows below. An instruction has 32 bytes of K; where
// `Width` elements are more than four bytes, it has a part of each thread's elements, the same of A and of B.
// PTX ISA, "Multiply-and-Accumulate Instruction: mma", fragments of m16n8k8 (tf32), m16n8k16 and m16n8k32.
#pragma once
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>

#include <cstdint>

namespace twill {

/// One instruction on the words of a fragment; the element type of A and B chooses it.
#define TWILL_WARP_MMA(ELEMENT, D, CONSTRAINT, FORM)                                                                   \
    __device__ __forceinline__ void mma_sync(D* d, const uint32_t (&a)[4], const uint32_t (&b)[2], ELEMENT) {          \
        asm volatile("mma.sync.aligned." FORM " {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"       \
                     : CONSTRAINT(d[0]), CONSTRAINT(d[1]), CONSTRAINT(d[2]), CONSTRAINT(d[3])                          \
                     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));                              \
    }
TWILL_WARP_MMA(__half, float, "+f", "m16n8k16.row.col.f32.f16.f16.f32")
TWILL_WARP_MMA(__nv_bfloat16, float, "+f", "m16n8k16.row.col.f32.bf16.bf16.f32")
TWILL_WARP_MMA(float, float, "+f", "m16n8k8.row.col.f32.tf32.tf32.f32")
TWILL_WARP_MMA(__nv_fp8_e4m3, float, "+f", "m16n8k32.row.col.f32.e4m3.e4m3.f32")
TWILL_WARP_MMA(__nv_fp8_e5m2, float, "+f", "m16n8k32.row.col.f32.e5m2.e5m2.f32")
TWILL_WARP_MMA(int8_t, int32_t, "+r", "m16n8k32.row.col.s32.s8.s8.s32")
#undef TWILL_WARP_MMA

/// The same on accumulators of 16 bits, two of a row in a word.
__device__ __forceinline__ void mma_sync(uint32_t* d, const uint32_t (&a)[4], const uint32_t (&b)[2], __half) {
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16 {%0, %1}, {%2, %3, %4, %5}, {%6, %7}, {%0, %1};"
                 : "+r"(d[0]), "+r"(d[1])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

/// Four bytes of neighbours, from element `first` of a tile's registers on.
template <class Element, class Register, int Count>
__device__ __forceinline__ uint32_t neighbours(const Register (&tile)[Count], int first) {
    uint32_t word;
    memcpy(&word, reinterpret_cast<const char*>(tile) + first * sizeof(Element), 4);
    return word;
}

/// All instructions of a warp's part of an MMA: 16 * Rows x 8 * Columns, K of 8 * Width * Depth, in `Sums` sums that
/// are added in the end: an instruction waits for the one before it of the same sum.
template <class Element, int Rows, int Columns, int Depth, int Width, int Sums = 1, class D, class A, class B,
          int CountD, int CountA, int CountB>
__device__ __forceinline__ void warp_mma(D (&d)[CountD], const A (&a)[CountA], const B (&b)[CountB]) {
    constexpr int registers = CountD / (Rows * Columns);
    static_assert(CountD == registers * Rows * Columns && (registers == 4 || registers == 2), "D");
    static_assert(sizeof(a) == 4 * Width * Rows * Depth * sizeof(Element), "A");
    static_assert(sizeof(b) == 2 * Width * Columns * Depth * sizeof(Element), "B");
    constexpr int each = 4 / sizeof(Element), parts = Width / each;
    D more[Sums][CountD] = {};
#pragma unroll
    for (int step = 0; step < Depth * parts; ++step) {
        const int k = step / parts, part = step % parts * each;
#pragma unroll
        for (int row = 0; row < Rows; ++row) {
            const int left = 4 * Width * (k + Depth * row) + part;
            const uint32_t words[4] = {neighbours<Element>(a, left), neighbours<Element>(a, left + Width),
                                       neighbours<Element>(a, left + 2 * Width),
                                       neighbours<Element>(a, left + 3 * Width)};
#pragma unroll
            for (int column = 0; column < Columns; ++column) {
                const int right = 2 * Width * (column + Columns * k) + part;
                const uint32_t pair[2] = {neighbours<Element>(b, right), neighbours<Element>(b, right + Width)};
                D* const to = step % Sums ? more[step % Sums] : d;
                mma_sync(to + registers * (column + Columns * row), words, pair, Element());
            }
        }
    }
#pragma unroll
    for (int sum = 1; sum < Sums; ++sum)
#pragma unroll
        for (int i = 0; i < CountD; ++i) d[i] += more[sum][i];
}

/// The same where K is 4 * Width: a thread holds the first half of an instruction's elements and more of them, so
/// that two words which lie side by side are both halves of one. K may be summed in any order.
template <class Element, int Rows, int Columns, int Width, class D, class A, class B, int CountD, int CountA,
          int CountB>
__device__ __forceinline__ void warp_mma_short(D (&d)[CountD], const A (&a)[CountA], const B (&b)[CountB]) {
    constexpr int registers = CountD / (Rows * Columns), each = 4 / sizeof(Element);
    static_assert(CountD == registers * Rows * Columns && (registers == 4 || registers == 2), "D");
    static_assert(sizeof(a) == 2 * Width * Rows * sizeof(Element), "A");
    static_assert(sizeof(b) == Width * Columns * sizeof(Element) && Width % (2 * each) == 0, "B");
#pragma unroll
    for (int part = 0; part < Width; part += 2 * each)
#pragma unroll
        for (int row = 0; row < Rows; ++row) {
            const int left = 2 * Width * row + part;
            const uint32_t words[4] = {neighbours<Element>(a, left), neighbours<Element>(a, left + Width),
                                       neighbours<Element>(a, left + each),
                                       neighbours<Element>(a, left + Width + each)};
#pragma unroll
            for (int column = 0; column < Columns; ++column) {
                const int right = Width * column + part;
                const uint32_t pair[2] = {neighbours<Element>(b, right), neighbours<Element>(b, right + each)};
                mma_sync(d + registers * (column + Columns * row), words, pair, Element());
            }
        }
}

/// The same of less than a whole instruction. A B of one column stands in all columns, and an A of 8 rows or less
/// twice, so that registers of D and A are equal in pairs: where they are, a thread holds one of two. `Beside`: D has
/// both columns of a thread; `Below`: A and D have its second row.
template <class Element, int Rows, int Columns, int Depth, int Width, bool Beside, bool Below, int Sums = 1,
          class D, class A, class B, int CountD, int CountA, int CountB>
__device__ __forceinline__ void warp_mma_part(D (&d)[CountD], const A (&a)[CountA], const B (&b)[CountB]) {
    constexpr int count = Rows * Columns, held = (1 + Beside) * (1 + Below);
    constexpr int chunk = Width * sizeof(Element) / sizeof(A), chunks = 4 * Rows * Depth;
    static_assert(CountD == held * count, "D");
    static_assert(CountA == chunk * chunks / (Below ? 1 : 2), "A");
    D whole[4 * count];
    A left[chunk * chunks];
#pragma unroll
    for (int i = 0; i < 4 * count; ++i) {
        const int row = Below ? i / 2 % 2 : 0, column = Beside ? i % 2 : 0;
        whole[i] = d[i / 4 * held + row * (1 + Beside) + column];
    }
#pragma unroll
    for (int i = 0; i < chunk * chunks; ++i) left[i] = a[Below ? i : i / chunk / 2 * chunk + i % chunk];
    warp_mma<Element, Rows, Columns, Depth, Width, Sums>(whole, left, b);
#pragma unroll
    for (int i = 0; i < CountD; ++i) {
        const int row = Below ? i % held / (1 + Beside) : 0, column = Beside ? i % 2 : 0;
        d[i] = whole[i / held * 4 + 2 * row + column];
    }
}

/// Four matrices of 8 x 8 elements of 16 bits to the words to[first], ...; lane l gives the address of row l%8
/// of matrix l/8 (ldmatrix.x4).
template <bool Transposed, int Size>
__device__ __forceinline__ void load_matrices(uint32_t (&to)[Size], int first, uint32_t address) {
    uint32_t m[4];
    if constexpr (Transposed)
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                     : "=r"(m[0]), "=r"(m[1]), "=r"(m[2]), "=r"(m[3]) : "r"(address) : "memory");
    else
        ldmatrix_x4(m, address);
#pragma unroll
    for (int i = 0; i < 4; ++i) to[first + i] = m[i];
}

/// The same of elements of a byte, two in the place of each of 16 bits, or of 32 bits, one in the place of two:
/// 16 or four of a thread to to[first], ...
template <bool Transposed, class Element, int Size>
__device__ __forceinline__ void load_matrices(Element (&to)[Size], int first, uint32_t address) {
    static_assert(sizeof(Element) != 2 && !Transposed, "rows of 16 bytes, whose bytes stay side by side");
    uint32_t m[4];
    ldmatrix_x4(m, address);
    memcpy(&to[first], m, sizeof(m));
}

}  // namespace twill
