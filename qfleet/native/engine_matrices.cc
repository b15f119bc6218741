// Matrices of a call's blocks, packed for the vector kernels.
#include <algorithm>
#include <cmath>

#include "engine_internal.h"

namespace qfleet {

constexpr double kPermutationTolerance = 1e-15;

// Packs a block's matrices, [D * D] (re, im) [samples], into vectors [rows][cols][re, im].
template <class T>
static void PackMatrix(const BlockKernel& kernel, const double* values, int64_t samples,
                       int32_t tile_samples, int32_t lanes, bool inverse, T* out) {
  for (int r = 0; r < kernel.rows; ++r)
    for (int j = 0; j < kernel.cols; ++j)
      for (int part = 0; part < 2; ++part, out += lanes) {
        if (samples == 1 && kernel.rows == kernel.cols) {  // all lanes are equal
          const int entry = inverse ? j * kernel.cols + r : r * kernel.cols + j;
          const double value = values[2 * entry + part];
          std::fill_n(out, lanes, static_cast<T>(inverse && part ? -value : value));
          continue;
        }
        for (int lane = 0; lane < lanes; ++lane) {
          const int row = kernel.row[r][lane], col = kernel.col[j][lane];
          const int entry = inverse ? col * kernel.cols + row : row * kernel.cols + col;
          const int64_t sample = samples == 1 ? 0 : lane & (tile_samples - 1);
          const double value = values[(2 * entry + part) * samples + sample];
          out[lane] = static_cast<T>(inverse && part ? -value : value);
        }
      }
}

// Returns true if every row of a matrix [D * D] (re, im) has a single 1 and zeros.
static bool IsPermutation(const std::vector<double>& values, int32_t size) {
  for (int32_t row = 0; row < size; ++row) {
    int ones = 0, zeros = 0;
    for (int32_t i = 2 * row * size; i < 2 * (row + 1) * size; ++i) {
      ones += i % 2 == 0 && std::abs(values[i] - 1) < kPermutationTolerance;
      zeros += std::abs(values[i]) < kPermutationTolerance;
    }
    if (ones != 1 || zeros != 2 * size - 1) return false;
  }
  return true;
}

template <class T>
void StateVectorEngine<T>::PrepareMatrices(Call* call) {
  const Program& program = *program_;
  const KernelPlan& plan = *call->plan;
  call->shared_matrices = std::make_unique<SharedMatrices>(program, call->batch->shared);
  call->block_kernels = plan.block_kernels;
  call->matrices = AcquireBuffer(plan.matrix_reals);
  if (call->with_inverses) call->inverses = AcquireBuffer(plan.matrix_reals);
  std::vector<double> values;
  for (size_t b = 0; b < program.blocks.size(); ++b) {
    const Block& block = program.blocks[b];
    BlockKernel& kernel = call->block_kernels[b];
    kernel.needs_gradient = block.needs_gradient[call->mode];
    kernel.needs_uncompute = block.needs_uncompute[call->mode];
    if (block.per_example) continue;
    BlockMatrices(program, block, *call->shared_matrices, call->batch->shared, nullptr, 0, 1,
                  &values);
    kernel.is_permutation = IsPermutation(values, block.size());
    T* to = call->matrices->data + plan.matrix_offset[b];
    PackMatrix(kernel, values.data(), 1, call->layout.samples, kernels_.lanes, false, to);
    kernel.matrix = to;
    if (!call->with_inverses) continue;
    to = call->inverses->data + plan.matrix_offset[b];
    PackMatrix(kernel, values.data(), 1, call->layout.samples, kernels_.lanes, true, to);
    kernel.inverse = to;
  }
}

template <class T>
std::unique_ptr<typename StateVectorEngine<T>::Buffer> StateVectorEngine<T>::TileBlockKernels(
    const Call& call, int64_t tile, bool inverse, std::vector<BlockKernel>* block_kernels) {
  const Program& program = *program_;
  *block_kernels = call.block_kernels;
  int64_t reals = 0;
  for (size_t b = 0; b < program.blocks.size(); ++b)
    if (program.blocks[b].per_example)
      reals += 2 * kernels_.lanes * (*block_kernels)[b].rows * (*block_kernels)[b].cols;
  std::unique_ptr<Buffer> matrices = AcquireBuffer(reals);
  T* to = matrices->data;
  std::vector<double> values;
  for (size_t b = 0; b < program.blocks.size(); ++b) {
    const Block& block = program.blocks[b];
    BlockKernel& kernel = (*block_kernels)[b];
    if (!block.per_example || (inverse && !kernel.needs_uncompute)) continue;
    BlockMatrices(program, block, *call.shared_matrices, call.batch->shared,
                  call.per_example(tile, program.per_example), call.present(tile),
                  call.layout.samples, &values);
    PackMatrix(kernel, values.data(), call.layout.samples, call.layout.samples, kernels_.lanes,
               inverse, to);
    (inverse ? kernel.inverse : kernel.matrix) = to;
    to += 2 * kernels_.lanes * kernel.rows * kernel.cols;
  }
  return matrices;
}

#define QFLEET_INSTANTIATE(T)                                                                    \
  template void StateVectorEngine<T>::PrepareMatrices(Call*);                                    \
  template std::unique_ptr<StateVectorEngine<T>::Buffer> StateVectorEngine<T>::TileBlockKernels( \
      const Call&, int64_t, bool, std::vector<BlockKernel>*);
QFLEET_INSTANTIATE(float)
QFLEET_INSTANTIATE(double)

}  // namespace qfleet
