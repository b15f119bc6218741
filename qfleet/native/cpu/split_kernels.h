// Small matrices on the amplitudes of a state, for the widest vectors of this machine.
#ifndef QFLEET_SPLIT_KERNELS_H_
#define QFLEET_SPLIT_KERNELS_H_

#include <cstdint>

namespace qfleet {

constexpr int32_t kMaxSplitRows = 27;  // three qubits of three levels

// Where a matrix acts: on the amplitudes base + i + offsets[r], for each base and i < run.
struct SplitPlaces {
  int32_t rows;
  const int64_t* offsets;  // [rows]
  const int64_t* bases;    // [base_count]
  int64_t base_count, run;
};

// A state is two arrays of `stride` reals each: real parts, then imaginary parts. Matrices and
// seeds are [rows][rows] (re, im).
struct SplitKernels {
  int32_t lanes;
  void (*apply)(const SplitPlaces&, const double* matrix, double* state, int64_t stride);
  // Applies a matrix to a state and, behind it, the derivative by it. The sum of derivative *
  // conj(state) before that is added to `seeds`.
  void (*apply_back)(const SplitPlaces&, const double* matrix, double* states, int64_t stride,
                     double* seeds);
  // Exchanges two bits of the index of `size` reals, by their weights low < high. The high one is
  // that of whole vectors.
  void (*swap)(int64_t low, int64_t high, double* reals, int64_t size);
};

const SplitKernels& BestSplitKernels();

}  // namespace qfleet

#endif  // QFLEET_SPLIT_KERNELS_H_
