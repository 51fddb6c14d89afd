// Tables behind wgmma.cuh: the asm operands of an accumulator of 64 x N elements of 32 bits, N/2 registers a
// thread, for each N. One of 16-bit elements has those of half as many columns.
//
// TWILL_NAMES_N       the registers' operand names, "%0, %1, ..."
// TWILL_BINDINGS_N(C) their constraint C, bound to `d[N / 2]`
// TWILL_AFTER_N       the seven operand numbers that follow them
// One row of each per multiple of 8; a row extends the one before it.
#pragma once

#define TWILL_NAMES_8 "%0, %1, %2, %3"
#define TWILL_NAMES_16 TWILL_NAMES_8 ", %4, %5, %6, %7"
#define TWILL_NAMES_24 TWILL_NAMES_16 ", %8, %9, %10, %11"
#define TWILL_NAMES_32 TWILL_NAMES_24 ", %12, %13, %14, %15"
#define TWILL_NAMES_40 TWILL_NAMES_32 ", %16, %17, %18, %19"
#define TWILL_NAMES_48 TWILL_NAMES_40 ", %20, %21, %22, %23"
#define TWILL_NAMES_56 TWILL_NAMES_48 ", %24, %25, %26, %27"
#define TWILL_NAMES_64 TWILL_NAMES_56 ", %28, %29, %30, %31"
#define TWILL_NAMES_72 TWILL_NAMES_64 ", %32, %33, %34, %35"
#define TWILL_NAMES_80 TWILL_NAMES_72 ", %36, %37, %38, %39"
#define TWILL_NAMES_88 TWILL_NAMES_80 ", %40, %41, %42, %43"
#define TWILL_NAMES_96 TWILL_NAMES_88 ", %44, %45, %46, %47"
#define TWILL_NAMES_104 TWILL_NAMES_96 ", %48, %49, %50, %51"
#define TWILL_NAMES_112 TWILL_NAMES_104 ", %52, %53, %54, %55"
#define TWILL_NAMES_120 TWILL_NAMES_112 ", %56, %57, %58, %59"
#define TWILL_NAMES_128 TWILL_NAMES_120 ", %60, %61, %62, %63"
#define TWILL_NAMES_136 TWILL_NAMES_128 ", %64, %65, %66, %67"
#define TWILL_NAMES_144 TWILL_NAMES_136 ", %68, %69, %70, %71"
#define TWILL_NAMES_152 TWILL_NAMES_144 ", %72, %73, %74, %75"
#define TWILL_NAMES_160 TWILL_NAMES_152 ", %76, %77, %78, %79"
#define TWILL_NAMES_168 TWILL_NAMES_160 ", %80, %81, %82, %83"
#define TWILL_NAMES_176 TWILL_NAMES_168 ", %84, %85, %86, %87"
#define TWILL_NAMES_184 TWILL_NAMES_176 ", %88, %89, %90, %91"
#define TWILL_NAMES_192 TWILL_NAMES_184 ", %92, %93, %94, %95"
#define TWILL_NAMES_200 TWILL_NAMES_192 ", %96, %97, %98, %99"
#define TWILL_NAMES_208 TWILL_NAMES_200 ", %100, %101, %102, %103"
#define TWILL_NAMES_216 TWILL_NAMES_208 ", %104, %105, %106, %107"
#define TWILL_NAMES_224 TWILL_NAMES_216 ", %108, %109, %110, %111"
#define TWILL_NAMES_232 TWILL_NAMES_224 ", %112, %113, %114, %115"
#define TWILL_NAMES_240 TWILL_NAMES_232 ", %116, %117, %118, %119"
#define TWILL_NAMES_248 TWILL_NAMES_240 ", %120, %121, %122, %123"
#define TWILL_NAMES_256 TWILL_NAMES_248 ", %124, %125, %126, %127"

#define TWILL_BINDINGS_8(C) C(d[0]), C(d[1]), C(d[2]), C(d[3])
#define TWILL_BINDINGS_16(C) TWILL_BINDINGS_8(C), C(d[4]), C(d[5]), C(d[6]), C(d[7])
#define TWILL_BINDINGS_24(C) TWILL_BINDINGS_16(C), C(d[8]), C(d[9]), C(d[10]), C(d[11])
#define TWILL_BINDINGS_32(C) TWILL_BINDINGS_24(C), C(d[12]), C(d[13]), C(d[14]), C(d[15])
#define TWILL_BINDINGS_40(C) TWILL_BINDINGS_32(C), C(d[16]), C(d[17]), C(d[18]), C(d[19])
#define TWILL_BINDINGS_48(C) TWILL_BINDINGS_40(C), C(d[20]), C(d[21]), C(d[22]), C(d[23])
#define TWILL_BINDINGS_56(C) TWILL_BINDINGS_48(C), C(d[24]), C(d[25]), C(d[26]), C(d[27])
#define TWILL_BINDINGS_64(C) TWILL_BINDINGS_56(C), C(d[28]), C(d[29]), C(d[30]), C(d[31])
#define TWILL_BINDINGS_72(C) TWILL_BINDINGS_64(C), C(d[32]), C(d[33]), C(d[34]), C(d[35])
#define TWILL_BINDINGS_80(C) TWILL_BINDINGS_72(C), C(d[36]), C(d[37]), C(d[38]), C(d[39])
#define TWILL_BINDINGS_88(C) TWILL_BINDINGS_80(C), C(d[40]), C(d[41]), C(d[42]), C(d[43])
#define TWILL_BINDINGS_96(C) TWILL_BINDINGS_88(C), C(d[44]), C(d[45]), C(d[46]), C(d[47])
#define TWILL_BINDINGS_104(C) TWILL_BINDINGS_96(C), C(d[48]), C(d[49]), C(d[50]), C(d[51])
#define TWILL_BINDINGS_112(C) TWILL_BINDINGS_104(C), C(d[52]), C(d[53]), C(d[54]), C(d[55])
#define TWILL_BINDINGS_120(C) TWILL_BINDINGS_112(C), C(d[56]), C(d[57]), C(d[58]), C(d[59])
#define TWILL_BINDINGS_128(C) TWILL_BINDINGS_120(C), C(d[60]), C(d[61]), C(d[62]), C(d[63])
#define TWILL_BINDINGS_136(C) TWILL_BINDINGS_128(C), C(d[64]), C(d[65]), C(d[66]), C(d[67])
#define TWILL_BINDINGS_144(C) TWILL_BINDINGS_136(C), C(d[68]), C(d[69]), C(d[70]), C(d[71])
#define TWILL_BINDINGS_152(C) TWILL_BINDINGS_144(C), C(d[72]), C(d[73]), C(d[74]), C(d[75])
#define TWILL_BINDINGS_160(C) TWILL_BINDINGS_152(C), C(d[76]), C(d[77]), C(d[78]), C(d[79])
#define TWILL_BINDINGS_168(C) TWILL_BINDINGS_160(C), C(d[80]), C(d[81]), C(d[82]), C(d[83])
#define TWILL_BINDINGS_176(C) TWILL_BINDINGS_168(C), C(d[84]), C(d[85]), C(d[86]), C(d[87])
#define TWILL_BINDINGS_184(C) TWILL_BINDINGS_176(C), C(d[88]), C(d[89]), C(d[90]), C(d[91])
#define TWILL_BINDINGS_192(C) TWILL_BINDINGS_184(C), C(d[92]), C(d[93]), C(d[94]), C(d[95])
#define TWILL_BINDINGS_200(C) TWILL_BINDINGS_192(C), C(d[96]), C(d[97]), C(d[98]), C(d[99])
#define TWILL_BINDINGS_208(C) TWILL_BINDINGS_200(C), C(d[100]), C(d[101]), C(d[102]), C(d[103])
#define TWILL_BINDINGS_216(C) TWILL_BINDINGS_208(C), C(d[104]), C(d[105]), C(d[106]), C(d[107])
#define TWILL_BINDINGS_224(C) TWILL_BINDINGS_216(C), C(d[108]), C(d[109]), C(d[110]), C(d[111])
#define TWILL_BINDINGS_232(C) TWILL_BINDINGS_224(C), C(d[112]), C(d[113]), C(d[114]), C(d[115])
#define TWILL_BINDINGS_240(C) TWILL_BINDINGS_232(C), C(d[116]), C(d[117]), C(d[118]), C(d[119])
#define TWILL_BINDINGS_248(C) TWILL_BINDINGS_240(C), C(d[120]), C(d[121]), C(d[122]), C(d[123])
#define TWILL_BINDINGS_256(C) TWILL_BINDINGS_248(C), C(d[124]), C(d[125]), C(d[126]), C(d[127])

#define TWILL_AFTER_8 4, 5, 6, 7, 8, 9, 10
#define TWILL_AFTER_16 8, 9, 10, 11, 12, 13, 14
#define TWILL_AFTER_24 12, 13, 14, 15, 16, 17, 18
#define TWILL_AFTER_32 16, 17, 18, 19, 20, 21, 22
#define TWILL_AFTER_40 20, 21, 22, 23, 24, 25, 26
#define TWILL_AFTER_48 24, 25, 26, 27, 28, 29, 30
#define TWILL_AFTER_56 28, 29, 30, 31, 32, 33, 34
#define TWILL_AFTER_64 32, 33, 34, 35, 36, 37, 38
#define TWILL_AFTER_72 36, 37, 38, 39, 40, 41, 42
#define TWILL_AFTER_80 40, 41, 42, 43, 44, 45, 46
#define TWILL_AFTER_88 44, 45, 46, 47, 48, 49, 50
#define TWILL_AFTER_96 48, 49, 50, 51, 52, 53, 54
#define TWILL_AFTER_104 52, 53, 54, 55, 56, 57, 58
#define TWILL_AFTER_112 56, 57, 58, 59, 60, 61, 62
#define TWILL_AFTER_120 60, 61, 62, 63, 64, 65, 66
#define TWILL_AFTER_128 64, 65, 66, 67, 68, 69, 70
#define TWILL_AFTER_136 68, 69, 70, 71, 72, 73, 74
#define TWILL_AFTER_144 72, 73, 74, 75, 76, 77, 78
#define TWILL_AFTER_152 76, 77, 78, 79, 80, 81, 82
#define TWILL_AFTER_160 80, 81, 82, 83, 84, 85, 86
#define TWILL_AFTER_168 84, 85, 86, 87, 88, 89, 90
#define TWILL_AFTER_176 88, 89, 90, 91, 92, 93, 94
#define TWILL_AFTER_184 92, 93, 94, 95, 96, 97, 98
#define TWILL_AFTER_192 96, 97, 98, 99, 100, 101, 102
#define TWILL_AFTER_200 100, 101, 102, 103, 104, 105, 106
#define TWILL_AFTER_208 104, 105, 106, 107, 108, 109, 110
#define TWILL_AFTER_216 108, 109, 110, 111, 112, 113, 114
#define TWILL_AFTER_224 112, 113, 114, 115, 116, 117, 118
#define TWILL_AFTER_232 116, 117, 118, 119, 120, 121, 122
#define TWILL_AFTER_240 120, 121, 122, 123, 124, 125, 126
#define TWILL_AFTER_248 124, 125, 126, 127, 128, 129, 130
#define TWILL_AFTER_256 128, 129, 130, 131, 132, 133, 134
