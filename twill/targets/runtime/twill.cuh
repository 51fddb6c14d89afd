// The words generated Hopper kernels are made of; one include for all of them.
//
// Everything is a thin name over one or a few PTX instructions of sm_90a (CUDA 12.4 or newer); nothing here decides.
// Build with -gencode=arch=compute_90a,code=sm_90a: the plain sm_90 target has no wgmma and no setmaxnreg.
#pragma once
#include "barrier.cuh"
#include "host.cuh"
#include "math.cuh"
#include "channel.cuh"
#include "tma.cuh"
#include "wgmma.cuh"
