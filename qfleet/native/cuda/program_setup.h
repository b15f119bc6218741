// Makes a program: its tables in the device's memory, and the kernels for its width.
#ifndef QFLEET_CUDA_PROGRAM_SETUP_H_
#define QFLEET_CUDA_PROGRAM_SETUP_H_

#include "typed_program.h"

namespace qfleet {
namespace device {

template <class T>
TypedProgram<T>::TypedProgram(int32_t device, const ProgramTables& tables,
                              std::shared_ptr<Workspace> shared_workspace)
    : Program(std::move(shared_workspace)),
      device_(device),
      facts_(FactsOf(device)),
      sizes_(tables) {
  const std::vector<BlockTable> blocks(tables.blocks, tables.blocks + tables.block_count);
  view_.qubits = tables.qubits;
  view_.string_count = static_cast<int32_t>(tables.string_count);
  view_.product_count = static_cast<int32_t>(tables.product_count);
  view_.block_sums = tables.block_sums;
  view_.product_sums = tables.product_sums;
  view_.strings = tables_.Add(tables.strings, tables.string_count, stream_);
  const auto reals = [&](const double* from, int64_t count) {
    return reinterpret_cast<const C*>(tables_.Add(std::vector<T>(from, from + count), stream_));
  };
  if (tables.initial) view_.initial = reals(tables.initial, int64_t{2} << tables.qubits);
  gates_.per_example = tables.per_example;
  gates_.product_count = tables.product_count;
  gates_.product_sums = tables.product_sums;
  gates_.sequence_sums = tables.sequence_sums;
  gates_.derivative_count = tables.derivative_count;
  gates_.products = tables_.Add(tables.products, tables.product_count, stream_);
  gates_.items = tables_.Add(tables.items, tables.item_count, stream_);
  gates_.factors = tables_.Add(tables.factors, tables.factor_count, stream_);
  gates_.exponents = tables_.Add(tables.exponents, tables.exponent_count, stream_);
  gates_.half_turns = tables_.Add(tables.half_turns, tables.half_turn_count, stream_);
  gates_.factor_matrices = reals(tables.factor_matrices, tables.factor_reals);
  weights_ = tables_.Add(tables.weights, tables.string_count * tables.readouts, stream_);
  offsets_ = tables_.Add(tables.offsets, tables.readouts, stream_);
  std::vector<int32_t> first(1, 0), list;
  for (int64_t f = 0; f < tables.per_example; ++f) {
    for (int64_t d = 0; d < tables.derivative_count; ++d)
      if (tables.derivatives[d] == ~f) list.push_back(static_cast<int32_t>(d));
    first.push_back(static_cast<int32_t>(list.size()));
  }
  derivative_first_ = tables_.Add(first, stream_);
  derivative_list_ = tables_.Add(list, stream_);

  const int64_t state_bytes = static_cast<int64_t>(sizeof(C)) << std::min(tables.qubits, 30);
  const int32_t n = tables.qubits;
  small_ =
      2 * state_bytes + 2 * kMaxThreads * static_cast<int64_t>(sizeof(T)) <= facts_.shared_bytes;
  lanes_ = n <= 3 ? 1 : n <= 5 ? 4 : n <= 7 ? 16 : n <= kMaxLaneQubits ? 32 : 0;
  const int64_t tile_bytes = std::min(
      kWideTileBytes, facts_.shared_bytes - 2 * kWideThreads * static_cast<int64_t>(sizeof(T)));
  for (tile_bits_ = 0; tile_bits_ < std::min(n, kMaxTileBits) &&
                       static_cast<int64_t>(4 * sizeof(C)) << tile_bits_ <= tile_bytes;)
    ++tile_bits_;
  const int32_t bank_bits = 7 - __builtin_ctz(sizeof(C));  // of 128 bytes
  windows_ = PlanWindows(blocks, n, tile_bits_, bank_bits, bank_bits);
  window_blocks_ = tables_.Add(windows_.blocks, stream_);
  if (small_) {
    WindowPlan whole;
    AppendWindow(blocks, (int64_t{1} << n) - 1, n, bank_bits, &whole);
    const WindowTable& window = whole.windows[0];
    view_.block_count = window.count;
    view_.blocks = tables_.Add(whole.blocks, stream_);
    view_.begin = tables_.Add(&window.begin, 1, stream_);
    const IndexPlaces places = PlacesOf(window.end, n, static_cast<int32_t>(sizeof(C)));
    std::vector<PauliString> moved;
    for (int64_t s = 0; s < tables.string_count; ++s)
      moved.push_back(StringOfPlaces(tables.strings[s], places));
    view_.place_strings = tables_.Add(moved, stream_);
  } else if constexpr (!kTangents) {
    PlanClusters(blocks, tables.strings, bank_bits);
  }
  AllowShared(ForwardWindow<T>, facts_.shared_bytes);
  AllowShared(BackwardWindow<T>, facts_.shared_bytes);
  PickSmall([&](auto* kernel) { AllowShared(kernel, facts_.shared_bytes); });
}

template <class T>
TypedProgram<T>::~TypedProgram() {
  try {
    UseDevice(device_);  // for the memory that is freed
  } catch (const DeviceError&) {
    // The device is lost, and its memory with it.
  }
}

template <class T>
template <class Kernel>
void TypedProgram<T>::PickSmall(const Kernel& visit) const {
  switch (lanes_) {
    case 1:
      return visit(EvolveSmall<T, 1, 128, kLaneBlocks, 4>);
    case 4:
      return visit(EvolveSmall<T, 4, 128, kLaneBlocks, 4>);
    case 16:
      return visit(EvolveSmall<T, 16, 128, kLaneBlocks, 4>);
    case 32:
      return visit(EvolveSmall<T, 32, 128, kLaneBlocks, 4>);
    default:
      if constexpr (!kTangents)
        if (has_few_threads()) return visit(EvolveSmall<T, 0, 128, 3, 5>);
      return visit(EvolveSmall<T, 0, kMaxThreads, 1, 4>);
  }
}

template <class T>
ProgramView<T> TypedProgram<T>::View(int32_t mode) const {
  ProgramView<T> view = view_;
  view.mode = mode;
  return view;
}

}  // namespace device
}  // namespace qfleet

#endif  // QFLEET_CUDA_PROGRAM_SETUP_H_
