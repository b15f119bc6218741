// Matrices of a call's blocks, packed for the vector kernels.
#include <algorithm>
#include <cmath>

#include "state/engine_internal.h"

namespace qfleet {

constexpr double kPermutationTolerance = 1e-15;

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
void StateVectorEngine<T>::PackMatrices(const Call& call, const std::vector<double>& values,
                                        const std::vector<double>& tangents, int64_t samples,
                                        bool inverse, T* to, int64_t tangent_offset,
                                        BlockKernel* kernel) {
  PackMatrix(*kernel, values.data(), samples, call.layout.samples, kernels_.lanes, inverse, to);
  (inverse ? kernel->inverse : kernel->matrix) = to;
  if (tangents.empty()) return;
  T* tangent = to + tangent_offset;
  PackMatrix(*kernel, tangents.data(), samples, call.layout.samples, kernels_.lanes, inverse,
             tangent);
  (inverse ? kernel->inverse_tangent : kernel->tangent) = tangent;
}

template <class T>
std::shared_ptr<const SharedMatrices> StateVectorEngine<T>::SharedMatricesOf(
    const Exponents& exponents) {
  if (exponents.shared_tangents) return std::make_shared<SharedMatrices>(*program_, exponents);
  const std::vector<double> shared(exponents.shared, exponents.shared + program_->shared);
  {
    const std::lock_guard<std::mutex> lock(matrices_mutex_);
    if (last_matrices_ && last_shared_ == shared) return last_matrices_;
  }
  auto matrices = std::make_shared<const SharedMatrices>(*program_, exponents);
  const std::lock_guard<std::mutex> lock(matrices_mutex_);
  last_shared_ = shared;
  last_matrices_ = matrices;
  return matrices;
}

template <class T>
void StateVectorEngine<T>::PrepareMatrices(Call* call) {
  const Program& program = *program_;
  const KernelPlan& plan = *call->plan;
  const Exponents exponents = call->exponents();
  call->shared_matrices = SharedMatricesOf(exponents);
  call->block_kernels = plan.block_kernels;
  // With room for tangents, which follow the matrices.
  const int64_t reals = plan.matrix_reals * (call->has_tangents() ? 2 : 1);
  call->matrices = AcquireBuffer(reals);
  if (call->with_inverses) call->inverses = AcquireBuffer(reals);
  std::vector<double> values, tangents;
  for (size_t b = 0; b < program.blocks.size(); ++b) {
    const Block& block = program.blocks[b];
    BlockKernel& kernel = call->block_kernels[b];
    kernel.needs_gradient = block.needs_gradient[call->mode];
    kernel.needs_uncompute = block.needs_uncompute[call->mode];
    if (block.per_example) continue;
    BlockMatrices(program, block, *call->shared_matrices, exponents, 1, &values, &tangents);
    kernel.is_permutation = IsPermutation(values, block.size());
    PackMatrices(*call, values, tangents, 1, false, call->matrices->data + plan.matrix_offset[b],
                 plan.matrix_reals, &kernel);
    if (call->with_inverses)
      PackMatrices(*call, values, tangents, 1, true, call->inverses->data + plan.matrix_offset[b],
                   plan.matrix_reals, &kernel);
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
  std::unique_ptr<Buffer> matrices = AcquireBuffer(reals * (call.has_tangents() ? 2 : 1));
  T* to = matrices->data;
  std::vector<double> values, tangents;
  for (size_t b = 0; b < program.blocks.size(); ++b) {
    const Block& block = program.blocks[b];
    BlockKernel& kernel = (*block_kernels)[b];
    if (!block.per_example || (inverse && !kernel.needs_uncompute)) continue;
    BlockMatrices(program, block, *call.shared_matrices, call.exponents(tile, program.per_example),
                  call.layout.samples, &values, &tangents);
    PackMatrices(call, values, tangents, call.layout.samples, inverse, to, reals, &kernel);
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
