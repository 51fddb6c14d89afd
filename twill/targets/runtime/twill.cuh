// The runtime functions of generated Hopper kernels, in one include.
//
// Each is a thin wrapper of one or a few PTX instructions of sm_90a (CUDA 12.4 or newer).
// Build with -gencode=arch=compute_90a,code=sm_90a: the plain sm_90 target has no wgmma and no setmaxnreg.
#pragma once
#include "barrier.cuh"
#include "grid.cuh"
#include "host.cuh"
#include "math.cuh"
#include "arithmetic.cuh"
#include "copy.cuh"
#include "store.cuh"
#include "add.cuh"
#include "channel.cuh"
#include "tma.cuh"
#include "warp_mma.cuh"
#include "wgmma.cuh"
