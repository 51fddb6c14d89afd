// Tables behind wgmma.cuh: the asm operands of an accumulator of 64 x N fp32, N/2 registers a thread, for
// each N.
//
// TWILL_NAMES_N       the registers' operand names, "%0, %1, ..."
// TWILL_BINDINGS_N    their constraints, bound to `float d[N / 2]`
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

#define TWILL_BINDINGS_8 "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
#define TWILL_BINDINGS_16 TWILL_BINDINGS_8, "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7])
#define TWILL_BINDINGS_24 TWILL_BINDINGS_16, "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11])
#define TWILL_BINDINGS_32 TWILL_BINDINGS_24, "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15])
#define TWILL_BINDINGS_40 TWILL_BINDINGS_32, "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19])
#define TWILL_BINDINGS_48 TWILL_BINDINGS_40, "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23])
#define TWILL_BINDINGS_56 TWILL_BINDINGS_48, "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27])
#define TWILL_BINDINGS_64 TWILL_BINDINGS_56, "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31])
#define TWILL_BINDINGS_72 TWILL_BINDINGS_64, "+f"(d[32]), "+f"(d[33]), "+f"(d[34]), "+f"(d[35])
#define TWILL_BINDINGS_80 TWILL_BINDINGS_72, "+f"(d[36]), "+f"(d[37]), "+f"(d[38]), "+f"(d[39])
#define TWILL_BINDINGS_88 TWILL_BINDINGS_80, "+f"(d[40]), "+f"(d[41]), "+f"(d[42]), "+f"(d[43])
#define TWILL_BINDINGS_96 TWILL_BINDINGS_88, "+f"(d[44]), "+f"(d[45]), "+f"(d[46]), "+f"(d[47])
#define TWILL_BINDINGS_104 TWILL_BINDINGS_96, "+f"(d[48]), "+f"(d[49]), "+f"(d[50]), "+f"(d[51])
#define TWILL_BINDINGS_112 TWILL_BINDINGS_104, "+f"(d[52]), "+f"(d[53]), "+f"(d[54]), "+f"(d[55])
#define TWILL_BINDINGS_120 TWILL_BINDINGS_112, "+f"(d[56]), "+f"(d[57]), "+f"(d[58]), "+f"(d[59])
#define TWILL_BINDINGS_128 TWILL_BINDINGS_120, "+f"(d[60]), "+f"(d[61]), "+f"(d[62]), "+f"(d[63])
#define TWILL_BINDINGS_136 TWILL_BINDINGS_128, "+f"(d[64]), "+f"(d[65]), "+f"(d[66]), "+f"(d[67])
#define TWILL_BINDINGS_144 TWILL_BINDINGS_136, "+f"(d[68]), "+f"(d[69]), "+f"(d[70]), "+f"(d[71])
#define TWILL_BINDINGS_152 TWILL_BINDINGS_144, "+f"(d[72]), "+f"(d[73]), "+f"(d[74]), "+f"(d[75])
#define TWILL_BINDINGS_160 TWILL_BINDINGS_152, "+f"(d[76]), "+f"(d[77]), "+f"(d[78]), "+f"(d[79])
#define TWILL_BINDINGS_168 TWILL_BINDINGS_160, "+f"(d[80]), "+f"(d[81]), "+f"(d[82]), "+f"(d[83])
#define TWILL_BINDINGS_176 TWILL_BINDINGS_168, "+f"(d[84]), "+f"(d[85]), "+f"(d[86]), "+f"(d[87])
#define TWILL_BINDINGS_184 TWILL_BINDINGS_176, "+f"(d[88]), "+f"(d[89]), "+f"(d[90]), "+f"(d[91])
#define TWILL_BINDINGS_192 TWILL_BINDINGS_184, "+f"(d[92]), "+f"(d[93]), "+f"(d[94]), "+f"(d[95])
#define TWILL_BINDINGS_200 TWILL_BINDINGS_192, "+f"(d[96]), "+f"(d[97]), "+f"(d[98]), "+f"(d[99])
#define TWILL_BINDINGS_208 TWILL_BINDINGS_200, "+f"(d[100]), "+f"(d[101]), "+f"(d[102]), "+f"(d[103])
#define TWILL_BINDINGS_216 TWILL_BINDINGS_208, "+f"(d[104]), "+f"(d[105]), "+f"(d[106]), "+f"(d[107])
#define TWILL_BINDINGS_224 TWILL_BINDINGS_216, "+f"(d[108]), "+f"(d[109]), "+f"(d[110]), "+f"(d[111])
#define TWILL_BINDINGS_232 TWILL_BINDINGS_224, "+f"(d[112]), "+f"(d[113]), "+f"(d[114]), "+f"(d[115])
#define TWILL_BINDINGS_240 TWILL_BINDINGS_232, "+f"(d[116]), "+f"(d[117]), "+f"(d[118]), "+f"(d[119])
#define TWILL_BINDINGS_248 TWILL_BINDINGS_240, "+f"(d[120]), "+f"(d[121]), "+f"(d[122]), "+f"(d[123])
#define TWILL_BINDINGS_256 TWILL_BINDINGS_248, "+f"(d[124]), "+f"(d[125]), "+f"(d[126]), "+f"(d[127])

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
