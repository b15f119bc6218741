// What the kernels and their launches need of a device. With nvcc it is a GPU; with other compilers
// it is the host executor, which runs the same sources thread by thread, for tests.
#ifndef QFLEET_CUDA_RUNTIME_H_
#define QFLEET_CUDA_RUNTIME_H_

#ifdef __CUDACC__
#include "gpu_runtime.h"
#else
#include "host_runtime.h"
#endif

#include "fences.h"

#endif  // QFLEET_CUDA_RUNTIME_H_
