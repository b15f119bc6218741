// Samples of states in the device's memory, by the steps of shots.h.
#ifndef QFLEET_CUDA_SAMPLE_KERNELS_H_
#define QFLEET_CUDA_SAMPLE_KERNELS_H_

#include "complex.h"
#include "shots.h"

namespace qfleet {
namespace device {

// sums[example][segment] of the probabilities of states[example][amplitudes].
template <class T>
__global__ void __launch_bounds__(128)
    SumProbabilities(int64_t examples, int64_t amplitudes, const T* states, double* sums) {
  const int64_t at = blockIdx.x * static_cast<int64_t>(blockDim.x) + threadIdx.x;
  const int64_t segments = SegmentCount(amplitudes);
  if (at >= examples * segments) return;
  sums[at] = SegmentSum(states + at / segments * (2 * amplitudes), amplitudes, at % segments);
}

// Each sum becomes that up to the end of its segment, and norms[example] that of all. A template,
// because several sources include this file.
template <class Sum>
__global__ void __launch_bounds__(128)
    AddUpSegments(int64_t examples, int64_t segments, Sum* sums, Sum* norms) {
  const int64_t example = blockIdx.x * static_cast<int64_t>(blockDim.x) + threadIdx.x;
  if (example >= examples) return;
  Sum* const of_example = sums + example * segments;
#pragma unroll 8
  for (int64_t segment = 1; segment < segments; ++segment)
    of_example[segment] += of_example[segment - 1];
  norms[example] = of_example[segments - 1];
}

// Some shots of a batch: `draw` is the first one's number in [examples][shots].
struct Draws {
  uint64_t seed;
  int64_t count, draw, shots;
  int64_t first_example;  // of the call, which has the states' first number
};

template <class T>
__global__ void __launch_bounds__(128) DrawShots(Draws draws, int64_t amplitudes, const T* states,
                                                 const double* sums, int64_t* samples) {
  const int64_t at = blockIdx.x * static_cast<int64_t>(blockDim.x) + threadIdx.x;
  if (at >= draws.count) return;
  const int64_t example = (draws.draw + at) / draws.shots, shot = (draws.draw + at) % draws.shots;
  const int64_t segments = SegmentCount(amplitudes);
  const double* const of_example = sums + example * segments;
  const double uniform = UniformReal(draws.seed, shot, draws.first_example + example);
  samples[at] = FindShot(states + example * (2 * amplitudes), amplitudes, of_example,
                         of_example[segments - 1] * uniform);
}

}  // namespace device
}  // namespace qfleet

#endif  // QFLEET_CUDA_SAMPLE_KERNELS_H_
