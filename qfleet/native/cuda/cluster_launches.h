// How clusters of thread blocks compute the states of a program.
#ifndef QFLEET_CUDA_CLUSTER_LAUNCHES_H_
#define QFLEET_CUDA_CLUSTER_LAUNCHES_H_

#include "exchanges.h"
#include "typed_program.h"

namespace qfleet {
namespace device {

template <class T>
int64_t TypedProgram<T>::ClusterBytes(bool gradient) const {
  return (static_cast<int64_t>(sizeof(C)) << cluster_.tile_bits) * (gradient ? 2 : 1) +
         2 * cluster_.threads * static_cast<int64_t>(sizeof(T));
}

template <class T>
void TypedProgram<T>::PlanClusters(const std::vector<BlockTable>& blocks,
                                   const PauliString* strings, int32_t bank_bits) {
  const int32_t n = sizes_.qubits;
  const auto bytes_of = [&](int32_t bits) {
    return (static_cast<int64_t>(2 * sizeof(C)) << bits) +
           (static_cast<int64_t>(2 * sizeof(T)) << (bits - kHeldBits));
  };
  int32_t bits = std::min(n - 1, kClusterTileBits<T>);
  while (bits > kMinClusterTileBits && bytes_of(bits) > facts_.shared_bytes) --bits;
  if (n - bits > kMaxClusterBits || bytes_of(bits) > facts_.shared_bytes) return;
  cluster_.tile_bits = bits;
  cluster_.threads = 1 << (bits - kHeldBits);
  AllowShared(EvolveClusters<T>, facts_.shared_bytes);
  cluster_.active =
      ActiveClusters(EvolveClusters<T>, 1 << (n - bits), cluster_.threads, ClusterBytes(true));
  if (cluster_.active == 0) return;
  cluster_.bits = n - bits;
  cluster_.plan = PlanWindows(blocks, n, bits, 0, bank_bits);
  const std::vector<WindowTable>& windows = cluster_.plan.windows;
  std::vector<ExchangeTable> forward, backward;
  for (size_t w = 0; w + 1 < windows.size(); ++w) {
    const IndexPlaces before = ClusterPlaces(windows[w], windows[w].end, n);
    const IndexPlaces after = ClusterPlaces(windows[w + 1], windows[w + 1].begin, n);
    forward.push_back(PlanExchange(before, after, bank_bits));
    backward.push_back(PlanExchange(after, before, bank_bits));
  }
  cluster_.windows = tables_.Add(windows, stream_);
  cluster_.forward = tables_.Add(forward, stream_);
  cluster_.backward = tables_.Add(backward, stream_);
  view_.blocks = tables_.Add(cluster_.plan.blocks, stream_);
  const IndexPlaces last = NumbersOf(ClusterPlaces(windows.back(), windows.back().end, n), bits,
                                     static_cast<int32_t>(sizeof(C)));
  std::vector<PauliString> moved;
  for (int64_t s = 0; s < sizes_.string_count; ++s)
    moved.push_back(StringOfPlaces(strings[s], last));
  view_.place_strings = tables_.Add(moved, stream_);
}

template <class T>
typename TypedProgram<T>::Division TypedProgram<T>::DivideClusters(int64_t size, bool gradient) {
  Division division = {};
  division.threads = cluster_.threads;
  division.shared_bytes = ClusterBytes(gradient);
  const int64_t ranks = int64_t{1} << cluster_.bits;
  const int64_t reals = sizes_.product_sums * kMatrixReals;
  const int64_t bytes =
      ScratchBytesPerExample() +
      ranks * (reals + sizes_.string_count) * static_cast<int64_t>(sizeof(T)) +
      (sizes_.takes_states ? static_cast<int64_t>(2 * sizeof(C)) << sizes_.qubits : 0);
  division.chunk = std::min({size, std::max<int64_t>(1, kScratchBytes / bytes), kMostStates});
  division.grid = std::min<int64_t>(division.chunk, cluster_.active) * ranks;
  division.units = division.grid;
  return division;
}

template <class T>
void TypedProgram<T>::EvolveClusterChunk(const Inputs& inputs, const Scratch& scratch,
                                         const Division& division, int64_t count, int32_t mode,
                                         bool values, bool gradient, bool by_states) {
  char* base = scratch_.data();
  ClusterArguments<T> arguments = {};
  arguments.program = View(mode);
  arguments.cluster_bits = cluster_.bits;
  arguments.tile_bits = cluster_.tile_bits;
  arguments.window_count = static_cast<int32_t>(cluster_.plan.windows.size());
  arguments.windows = cluster_.windows;
  arguments.forward = cluster_.forward;
  arguments.backward = cluster_.backward;
  arguments.size = count;
  arguments.matrices = inputs.matrices.in(inputs_.data());
  arguments.products = scratch.products.in(base);
  if (values) arguments.string_values = scratch.string_values.in(base);
  if (gradient) {
    arguments.earliest = by_states ? 0 : static_cast<int32_t>(EarliestWindow(cluster_.plan, mode));
    arguments.coefficients = scratch.coefficients.in(base);
    arguments.unit_sums = scratch.unit_sums.in(base);
    arguments.product_sums = scratch.rank_sums.in(base);
  }
  if (sizes_.takes_states) arguments.initial_states = scratch.psi.in(base);
  if (by_states) arguments.state_gradients = scratch.lambda.in(base);
  LaunchClusters(EvolveClusters<T>, dim3(static_cast<unsigned>(division.grid)), 1 << cluster_.bits,
                 division.threads, division.shared_bytes, stream_, arguments);
  if (!gradient) return;
  const T* parts = scratch.rank_sums.in(base);
  SumProductParts(parts, int64_t{1} << cluster_.bits, sizes_.product_sums, count, scratch);
}

}  // namespace device
}  // namespace qfleet

#endif  // QFLEET_CUDA_CLUSTER_LAUNCHES_H_
