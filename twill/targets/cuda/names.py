"""Names in generated CUDA: the user's are never the generator's.

The generator's own names are `RESERVED`: words, and forms such as `count_NAME` or `NAME_`. A user's name (of
a value, an argument, a channel) that is one of them is changed; two different names stay different.
"""

import re

_KEYWORDS = """
alignas alignof and and_eq asm auto bitand bitor bool break case catch char char8_t char16_t char32_t class
co_await co_return co_yield compl concept const consteval constexpr constinit const_cast continue decltype
default delete do double dynamic_cast else enum explicit export extern false float for friend goto if inline
int long mutable namespace new noexcept not not_eq nullptr operator or or_eq private protected public register
reinterpret_cast requires return short signed sizeof static static_assert static_cast struct switch template
this thread_local throw true try typedef typeid typename union unsigned using virtual void volatile wchar_t
while xor xor_eq
"""
"""Of C++20."""
_MACROS = """
assert errno linux major makedev minor signbit stderr stdin stdout unix EOF HUGE_VAL HUGE_VALF I INFINITY NAN
NULL BUFSIZ
"""
"""Of headers that CUDA includes."""
_CUDA = """
abs atomicAdd atomicAnd atomicCAS atomicExch atomicMax atomicMin atomicOr atomicXor blockDim blockIdx ceilf
clock dim3 erff exp2f expf fabs fabsf floorf fma fmaf fmax fmaxf fmin fminf fmod fmodf gridDim half int8_t
int16_t int32_t int64_t isfinite isinf isnan log2f logf max min powf rsqrtf size_t sizeof sqrtf tanhf
threadIdx uint8_t uint16_t uint32_t uint64_t warpSize std rint rintf roundf truncf cosf sinf bool2
"""
"""Types, functions and variables that generated code uses."""
_WORDS = """
around by_tma bytes choice claim claimed claims clustered counter descriptor_a descriptor_b drained
dynamic_shared forms grid grid_x grid_y grid_z i iterations j lanes made maps memory n no_elements opaque
ordered p blocks pair_rank scales_a scales_a_at scales_b
scales_b_at status stream tensor_memory thread tile_counter tile_number twill warp
"""
"""Variables of the generator."""
RESERVED = frozenset(f"{_KEYWORDS} {_MACROS} {_CUDA} {_WORDS}".split())
_FORMS = re.compile(
    r"(channel|copied|count|kept|map|position\d*|product|v)_.*|trips_\d+|hand_off\d+(_tile\d+)?|tile_of_\d+|group_\d+_barrier|read_\d+(_at)?|words_\d+|u\d+_.*|.*_age\d+|.*_(kernel|launch)"
    r"|cuda[A-Z].*|cu[A-Z].*|CU.*_.*|CU[a-z].*|TWILL_.*|U?INT\d+_(MAX|MIN)|(FLT|DBL|INT|LONG|UINT|CHAR)_[A-Z]+"
    r"|(wgmma|tcgen05|tensor_memory)_.*|dependence\d+|(drain|ready)_\d+"
    r"|(float|int|uint|double|short|char|half|long)\d(_t)?"
)
"""Names that the generator derives from others, and those of the CUDA API."""


def c_name(name: str) -> str:
    """A user's identifier in generated code. Different identifiers give different names, none of them
    reserved."""
    stem = name.rstrip("_")
    if stem != name:
        return f"u{len(name) - len(stem)}_{stem}"
    return f"v_{name}" if name in RESERVED or name in RUNTIME or _FORMS.fullmatch(name) else name


_TEMPORARIES = """
at b bi bits chains chunk found from g gathered given i in inside inverse j k line number part read row s scan
second step to together turn u usual v words
"""
TEMPORARIES = frozenset(_TEMPORARIES.split())
"""Variables of the generator inside of one operation, without the `_` or the number at their end."""


def local(name: str) -> str:
    """The variable of a user's value inside of one operation, which no temporary of the generator has."""
    own = c_name(name)
    return f"v_{own}_" if own.rstrip("0123456789") in TEMPORARIES else f"{own}_"


def channel(name: str) -> str:
    return f"channel_{name}"


def tensor_map(name: str) -> str:
    return f"map_{name}"


def count(name: str) -> str:
    """A group's counter of a channel."""
    return f"count_{name}"


def threads_copied(name: str) -> str:
    """Of a channel, the uses behind which a slot that threads copied to comes again."""
    return f"copied_{name}"


_RUNTIME = """
absolute_halves add_element add_neighbours add_pair add_words
AlternatelyFilled E2m1 cp_async_first to_bf16
Channel Choice Claims CountedTiles DependenceBarrier Filling Form
K_MAJOR LaunchMemory MN_MAJOR Major MapUse Mask
NamedBarrier Nearby NoElements beside
OperandType
ScaleType SumType TensorMapKey TensorMapMemory ThreadCoordinates TileCounter Whole absolute advanced
allow_shared_memory await_reads bitcast both both_bytes bulk_load byte_of_word ByteOfWord
choose clamp_magnitude clobber cluster_rank cluster_sync count_leading_zeros count_ones count_trailing_zeros
cp_async cp_async_arrive cp_async_arrive_behind_writes cp_async_arrive_too cp_async_or descriptor_advance
divide divide_ceiling divide_floor
elect_one encode_tensor_map exchange_neighbours exchange_pairs exp2_approx exp2_clamped exp2_coefficient
exp2_highest exp2_lowest exp2_magic
exp2_pairs exp2_parts exp2_parts_pair exp2_polynomial exp2_polynomial_pair exp2_whole
bf16_of bits_mislead e4m3_of e5m2_of f16_of float_bits fence_async fence_async_shared fma_f16x2 fma_pair
gathered half_of
halves invert joined keep
largest_bits ldmatrix_x4 load_elements load_global load_matrices load_neighbours load_pair load_shared
load_words log2_approx
matrix_descriptor max_nan max_nanf mbarrier_arrive mbarrier_expect mma_sync
mbarrier_arrive_at mbarrier_arrive_behind_reads mbarrier_arrive_expect mbarrier_init mbarrier_init_fence
mbarrier_arrive_relaxed mbarrier_try_wait mbarrier_wait_relaxed
mbarrier_wait mbarrier_wait_cluster min_nan min_nanf named_barrier_arrive named_barrier_sync negate_pair
nearby neighbours of_block of_first of_programs opaque_false
ordered_not_equal pack_bf16 pack_e4m3 pack_e5m2 pack_f16 part
read_warp_index registers_decrease registers_fence registers_increase resident_blocks saturate
scheduling_fence spread_e2m1 shared_address shared_at shift_left shift_right sqrt_approx stmatrix_x4
stmatrix_x4_transposed stored_bf16 stored_e4m3 stored_e5m2 stored_f16
store_elements store_pair
store_neighbours store_shared store_words store_words_anywhere subtract_pair swizzle
tensor_map tensor_map_pitch tensor_map_replace
tensor_map_size tile_elements tma_add tma_commit tma_load tma_load_multicast tma_load_multicast_pair
tma_load_pair tma_prefetch tma_store tma_wait tma_wait_read transpose_bytes transpose_quad two_bytes
truncate_e5m2
unordered unpack_bf16 unpack_e4m3 unpack_e5m2 unpack_f16 unpair warp_index warp_mma warp_mma_part
warp_mma_short wgmma_commit wgmma_fence wgmma_wait wide_product launch_pool word_of_bytes zero_in
"""
RUNTIME = frozenset(_RUNTIME.split())
"""What the runtime headers declare (a test compares)."""
