// Matrices of a call's blocks, packed for the vector kernels.
#include <algorithm>
#include <cmath>

#include "state/engine_internal.h"

namespace qfleet {

constexpr double kPermutationTolerance = 1e-15;

// Returns true if every row of a matrix [D * D] (re, im) has a single 1 and zeros.
static bool IsPermutation(const double* values, int32_t size) {
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
void StateVectorEngine<T>::PackMatrices(const Call& call, const double* values,
                                        const double* tangents, int64_t samples, bool inverse,
                                        T* to, int64_t tangent_offset, BlockKernel* kernel) {
  kernels_.pack(*kernel, values, samples, call.layout.samples, inverse, to);
  (inverse ? kernel->inverse : kernel->matrix) = to;
  T* tangent = tangents ? to + tangent_offset : nullptr;
  if (tangent) kernels_.pack(*kernel, tangents, samples, call.layout.samples, inverse, tangent);
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
  std::vector<double> own_values, own_tangents;
  for (size_t b = 0; b < program.blocks.size(); ++b) {
    const Block& block = program.blocks[b];
    BlockKernel& kernel = call->block_kernels[b];
    kernel.needs_gradient = block.needs_gradient[call->mode];
    kernel.needs_uncompute = block.needs_uncompute[call->mode];
    if (block.per_example) continue;
    const double *values, *tangents;
    if (block.items.size() == 1 && block.items[0] >= 0) {  // a sequence
      values = call->shared_matrices->product(block.items[0]);
      tangents = call->shared_matrices->product_tangent(block.items[0]);
    } else {
      BlockMatrices(program, block, *call->shared_matrices, exponents, 1, &own_values,
                    &own_tangents);
      values = own_values.data();
      tangents = own_tangents.empty() ? nullptr : own_tangents.data();
    }
    kernel.is_permutation = IsPermutation(values, block.size());
    PackMatrices(*call, values, tangents, 1, false, call->matrices->data + plan.matrix_offset[b],
                 plan.matrix_reals, &kernel);
    if (call->with_inverses)
      PackMatrices(*call, values, tangents, 1, true, call->inverses->data + plan.matrix_offset[b],
                   plan.matrix_reals, &kernel);
  }
}

template <class T>
std::unique_ptr<typename StateVectorEngine<T>::TileBlocks> StateVectorEngine<T>::AcquireTileBlocks(
    const Call& call, int64_t tile, bool forward) {
  std::unique_ptr<TileBlocks> blocks;
  {
    const std::lock_guard<std::mutex> lock(pool_mutex_);
    const auto take = [&call](int64_t of) {
      return TakePooled(&call.tile_blocks, [of](const TileBlocks& one) { return one.tile == of; });
    };
    if (!forward && (blocks = take(tile))) return blocks;
    blocks = take(-1);
    if (!blocks && !blocks_pool_.empty()) {
      blocks = std::move(blocks_pool_.back());
      blocks_pool_.pop_back();
      blocks->kernels.clear();
    }
  }
  if (!blocks) blocks = std::make_unique<TileBlocks>();
  if (blocks->kernels.empty()) blocks->kernels = call.block_kernels;
  PrepareTileBlocks(call, tile, forward, blocks.get());
  return blocks;
}

template <class T>
void StateVectorEngine<T>::ReleaseTileBlocks(const Call& call, std::unique_ptr<TileBlocks> blocks) {
  blocks->last_thread = ThisThread();
  const std::lock_guard<std::mutex> lock(pool_mutex_);
  call.tile_blocks.push_back(std::move(blocks));
}

template <class T>
void StateVectorEngine<T>::PrepareTileBlocks(const Call& call, int64_t tile, bool forward,
                                             TileBlocks* blocks) {
  const Program& program = *program_;
  const int64_t reals = call.plan->tile_matrix_reals;
  const auto require = [&](std::unique_ptr<Buffer>* buffer) {
    const int64_t wanted = reals * (call.has_tangents() ? 2 : 1);
    if (*buffer && (*buffer)->reals >= wanted) return (*buffer)->data;
    *buffer = std::make_unique<Buffer>(wanted);
    return (*buffer)->data;
  };
  const Exponents exponents = call.exponents(tile, program.per_example);
  T* to = forward ? require(&blocks->matrices) : nullptr;
  T* inverse_to = call.with_inverses ? require(&blocks->inverses) : nullptr;
  for (size_t b = 0; b < program.blocks.size(); ++b) {
    const Block& block = program.blocks[b];
    BlockKernel& kernel = blocks->kernels[b];
    if (!block.per_example) continue;
    const BlockKernel& whole = call.block_kernels[b];
    const bool is_absent = IsAbsent(program, block, exponents);
    kernel.groups = is_absent ? 0 : whole.groups;
    kernel.needs_gradient = whole.needs_gradient && !is_absent;
    kernel.needs_uncompute = whole.needs_uncompute && !is_absent;
    const bool backward = call.with_inverses && kernel.needs_uncompute;
    if (is_absent || (!forward && !backward)) continue;
    BlockMatrices(program, block, *call.shared_matrices, exponents, call.layout.samples,
                  &blocks->values, &blocks->tangents);
    const auto pack = [&](bool inverse, T** at) {
      PackMatrices(call, blocks->values.data(),
                   blocks->tangents.empty() ? nullptr : blocks->tangents.data(),
                   call.layout.samples, inverse, *at, reals, &kernel);
      *at += 2 * kernels_.lanes * kernel.rows * kernel.cols;
    };
    if (forward) pack(false, &to);
    if (backward) pack(true, &inverse_to);
  }
}

#define QFLEET_INSTANTIATE(T)                                          \
  template void StateVectorEngine<T>::PrepareMatrices(Call*);          \
  template std::unique_ptr<StateVectorEngine<T>::TileBlocks>           \
  StateVectorEngine<T>::AcquireTileBlocks(const Call&, int64_t, bool); \
  template void StateVectorEngine<T>::ReleaseTileBlocks(const Call&, std::unique_ptr<TileBlocks>);
QFLEET_INSTANTIATE(float)
QFLEET_INSTANTIATE(double)

}  // namespace qfleet
