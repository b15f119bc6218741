// The launches for the examples that are computed at once.
#ifndef QFLEET_CUDA_CHUNK_LAUNCHES_H_
#define QFLEET_CUDA_CHUNK_LAUNCHES_H_

#include "typed_program.h"

namespace qfleet {
namespace device {

template <class T>
GateView<T> TypedProgram<T>::Gates(const Inputs& inputs, int64_t first) {
  GateView<T> gates = gates_;
  gates.shared = inputs.shared.in(inputs_.data());
  gates.per_example_at = inputs.per_example.in(inputs_.data()) + first * sizes_.per_example;
  gates.matrices = inputs.matrices.in(inputs_.data());
  return gates;
}

template <class T>
template <class From>
void TypedProgram<T>::Sum(const From* in, int64_t rows, int64_t stride, int64_t width, bool add,
                          const Scratch& scratch, Wide* out) {
  if (width == 0) return;
  const unsigned columns = static_cast<unsigned>(DivideUp(width, kSumColumns));
  const int64_t shared_bytes = kSumThreads * kWideBytes;
  const int64_t segments = std::min(kMaxSegments, rows / kSegmentRows);
  if (segments > 1) {
    Wide* partial = scratch.segments.in(scratch_.data());
    Launch(SumRows<From, Wide>, dim3(columns, static_cast<unsigned>(segments)), kSumThreads,
           shared_bytes, stream_, in, rows, stride, width, false, partial);
    Launch(SumRows<Wide, Wide>, dim3(columns), kSumThreads, shared_bytes, stream_,
           static_cast<const Wide*>(partial), segments, width, width, add, out);
  } else {
    Launch(SumRows<From, Wide>, dim3(columns), kSumThreads, shared_bytes, stream_, in, rows, stride,
           width, add, out);
  }
}

template <class T>
template <class From>
void TypedProgram<T>::SumProductParts(const From* sums, int64_t parts, int64_t slots, int64_t count,
                                      const Scratch& scratch) {
  const int64_t width = sizes_.product_sums * kMatrixReals;
  if (width == 0) return;
  Launch(SumRows<From, T>,
         dim3(static_cast<unsigned>(DivideUp(width, kSumColumns)), static_cast<unsigned>(count)),
         kSumThreads, kSumThreads * kWideBytes, stream_, sums, count * parts, slots * kMatrixReals,
         width, false, scratch.product_sums.in(scratch_.data()));
}

template <class T>
void TypedProgram<T>::BeginChunk(const Inputs& inputs, const Scratch& scratch, int64_t first,
                                 int64_t count, bool coefficients) {
  char* base = scratch_.data();
  ForEach(count * sizes_.product_count * 4, WriteProducts<T>, Gates(inputs, first), count,
          scratch.products.in(base));
  if (coefficients)
    ForEach(count * sizes_.string_count, WriteCoefficients<T>, count, sizes_.string_count,
            sizes_.readouts, weights_,
            static_cast<const T*>(inputs.upstream.in(inputs_.data()) + first * sizes_.readouts),
            scratch.coefficients.in(base));
}

inline BitOrder MakeOrder(int32_t qubits, const int64_t* order) {
  BitOrder made = {};
  made.qubits = qubits;
  for (int32_t i = 0; i < qubits; ++i) made.order[i] = static_cast<int8_t>(order[i]);
  return made;
}

template <class T>
void TypedProgram<T>::PermuteChunk(const int64_t* order, bool to_caller, T factor, int64_t count,
                                   const C* from, C* to) {
  Launch(PermuteStates<T>,
         dim3(static_cast<unsigned>(MeasureParts()), static_cast<unsigned>(count)), kWideThreads, 0,
         stream_, MakeOrder(sizes_.qubits, order), to_caller, factor, from, to);
}

template <class T>
void TypedProgram<T>::ReceiveStates(const void* states, const int64_t* order, T factor,
                                    int64_t first, int64_t count, C* buffer, C* to) {
  CopyToDevice(buffer, static_cast<const C*>(states) + (first << sizes_.qubits),
               (count << sizes_.qubits) * static_cast<int64_t>(sizeof(C)), stream_);
  PermuteChunk(order, false, factor, count, buffer, to);
}

template <class T>
void TypedProgram<T>::ReturnStates(const C* states, const int64_t* order, T factor, int64_t first,
                                   int64_t count, C* buffer, void* to) {
  PermuteChunk(order, true, factor, count, states, buffer);
  CopyToHost(static_cast<C*>(to) + (first << sizes_.qubits), buffer,
             (count << sizes_.qubits) * static_cast<int64_t>(sizeof(C)), stream_);
}

template <class T>
void TypedProgram<T>::ReceiveInitial(const Call& call, const Scratch& scratch, int64_t first,
                                     int64_t count) {
  if (!sizes_.takes_states) return;
  char* base = scratch_.data();
  ReceiveStates(call.initial_states, call.initial_order, T{1}, first, count,
                scratch.lambda.in(base), scratch.psi.in(base));
}

// dL = 2 Re <lambda|d psi>.
template <class T>
void TypedProgram<T>::ReturnInitial(const Call& call, const Scratch& scratch, int64_t first,
                                    int64_t count, const GradientResults& wanted) {
  if (!wanted.initial_gradients) return;
  char* base = scratch_.data();
  ReturnStates(scratch.lambda.in(base), call.initial_order, T{2}, first, count,
               scratch.psi.in(base), wanted.initial_gradients);
}

template <class T>
void TypedProgram<T>::EvolveSmallChunk(const Inputs& inputs, const Scratch& scratch,
                                       const Division& division, int64_t count, int32_t mode,
                                       bool values, bool gradient, bool by_states) {
  char* base = scratch_.data();
  SmallArguments<T> arguments = {};
  arguments.program = View(mode);
  arguments.size = count;
  arguments.matrices = inputs.matrices.in(inputs_.data());
  arguments.products = scratch.products.in(base);
  if (values) arguments.string_values = scratch.string_values.in(base);
  if (gradient) {
    arguments.coefficients = scratch.coefficients.in(base);
    arguments.unit_sums = scratch.unit_sums.in(base);
    arguments.product_sums = scratch.product_sums.in(base);
  }
  if (sizes_.takes_states) arguments.initial_states = scratch.psi.in(base);
  if (by_states) arguments.state_gradients = scratch.lambda.in(base);
  PickSmall([&](auto* kernel) {
    Launch(kernel, dim3(static_cast<unsigned>(division.grid)), division.threads,
           division.shared_bytes, stream_, arguments);
  });
}

template <class T>
WideArguments<T> TypedProgram<T>::WideCall(const Inputs& inputs, const Scratch& scratch,
                                           int32_t mode) {
  char* base = scratch_.data();
  WideArguments<T> arguments = {};
  arguments.program = View(mode);
  arguments.tiles = int64_t{1} << (sizes_.qubits - tile_bits_);
  arguments.blocks = window_blocks_;
  arguments.matrices = inputs.matrices.in(inputs_.data());
  arguments.products = scratch.products.in(base);
  arguments.psi = scratch.psi.in(base);
  arguments.lambda = scratch.lambda.in(base);
  arguments.unit_sums = scratch.unit_sums.in(base);
  return arguments;
}

template <class T>
void TypedProgram<T>::ForwardWide(const Inputs& inputs, const Scratch& scratch,
                                  const Division& division, int64_t count) {
  WideArguments<T> arguments = WideCall(inputs, scratch, 0);
  arguments.fresh = !sizes_.takes_states;
  for (const WindowTable& window : windows_.windows) {
    arguments.window = window;
    Launch(
        ForwardWindow<T>, dim3(static_cast<unsigned>(division.parts), static_cast<unsigned>(count)),
        division.threads, static_cast<int64_t>(sizeof(C)) << window.bit_count, stream_, arguments);
    arguments.fresh = 0;
  }
}

template <class T>
void TypedProgram<T>::ApplyStringsChunk(const Scratch& scratch, const Division& division,
                                        int64_t count, int32_t mode) {
  char* base = scratch_.data();
  Launch(ApplyStringsWide<T>,
         dim3(static_cast<unsigned>(MeasureParts()), static_cast<unsigned>(count)),
         division.threads, 0, stream_, View(mode), static_cast<const C*>(scratch.psi.in(base)),
         static_cast<const T*>(scratch.coefficients.in(base)), scratch.lambda.in(base));
}

template <class T>
void TypedProgram<T>::BackwardWide(const Inputs& inputs, const Scratch& scratch,
                                   const Division& division, int64_t count, int32_t mode,
                                   bool by_states, const Results& results, bool add) {
  char* base = scratch_.data();
  WideArguments<T> arguments = WideCall(inputs, scratch, mode);
  const int64_t slots = sizes_.block_sums + sizes_.product_sums;
  Wide* sums = scratch.unit_sums.in(base);
  FillZero(sums, count * division.parts * slots * kMatrixReals * kWideBytes, stream_);
  const size_t earliest = by_states ? 0 : EarliestWindow(windows_, mode);
  for (size_t w = windows_.windows.size(); w-- > earliest;) {
    arguments.window = windows_.windows[w];
    // A window that changes the places must be undone, too.
    const PlaceTable &begin = arguments.window.begin, &end = arguments.window.end;
    if (!NeedsGradient(windows_, arguments.window, mode) &&
        std::memcmp(&begin, &end, sizeof(begin)) == 0)
      continue;
    arguments.store = by_states || w > earliest;
    Launch(BackwardWindow<T>,
           dim3(static_cast<unsigned>(division.parts), static_cast<unsigned>(count)),
           division.threads, division.shared_bytes, stream_, arguments);
  }
  Sum(sums, count * division.parts, slots * kMatrixReals, sizes_.block_sums * kMatrixReals, add,
      scratch, results.block_sums.in(results_.data()));
  const Wide* parts = sums + sizes_.block_sums * kMatrixReals;
  SumProductParts(parts, division.parts, slots, count, scratch);
}

template <class T>
void TypedProgram<T>::WriteChunkValues(const Scratch& scratch, const Division& division,
                                       const Results& results, int64_t first, int64_t count) {
  char* base = scratch_.data();
  T* values = results.values.in(results_.data()) + first * sizes_.readouts;
  const auto write = [&](const auto* parts_of_strings, int64_t parts) {
    ForEach(count * sizes_.readouts * kWarp,
            WriteValues<T, std::decay_t<decltype(*parts_of_strings)>>, count, sizes_.string_count,
            sizes_.readouts, weights_, offsets_, parts_of_strings, static_cast<int32_t>(parts),
            values);
  };
  if (place() != Place::kDevice) {
    const T* by_rank = scratch.string_values.in(base);
    return write(by_rank, int64_t{1} << cluster_.bits);
  }
  const int32_t threads = division.threads;
  Launch(MeasureWide<T>, dim3(static_cast<unsigned>(MeasureParts()), static_cast<unsigned>(count)),
         threads, kMeasuredAtOnce * threads / kWarp * kWideBytes, stream_, View(0),
         static_cast<const C*>(scratch.psi.in(base)), scratch.parts.in(base));
  const Wide* by_part = scratch.parts.in(base);
  write(by_part, MeasureParts());
}

template <class T>
void TypedProgram<T>::DifferentiateChunk(const Inputs& inputs, const Scratch& scratch,
                                         const Results& results, int64_t first, int64_t count,
                                         int32_t mode, bool per_example, bool add) {
  if (sizes_.product_sums == 0) {
    if (per_example && first == 0)
      FillZero(results.per_example.in(results_.data()), results.per_example.bytes(), stream_);
    if (first == 0)
      FillZero(results.shared_derivatives.in(results_.data()), results.shared_derivatives.bytes(),
               stream_);
    return;
  }
  char* base = scratch_.data();
  FillZero(scratch.sequence_sums.in(base),
           scratch.sequence_sums.count * static_cast<int64_t>(sizeof(T)), stream_);
  FillZero(scratch.derivatives.in(base), scratch.derivatives.bytes(), stream_);
  const ProductGradientTargets<T> targets = {
      scratch.product_sums.in(base), scratch.sequence_sums.in(base), scratch.derivatives.in(base)};
  ForEach(count * sizes_.product_count, DifferentiateProducts<T>, Gates(inputs, first), count, mode,
          targets);
  Sum(static_cast<const T*>(targets.sequence_sums), count, sizes_.sequence_sums * kMatrixReals,
      sizes_.sequence_sums * kMatrixReals, add, scratch, results.sequence_sums.in(results_.data()));
  Sum(static_cast<const Wide*>(targets.derivatives), count, sizes_.derivative_count,
      sizes_.derivative_count, add, scratch, results.shared_derivatives.in(results_.data()));
  if (per_example)
    ForEach(count * sizes_.per_example, GatherDerivatives<Wide>, count, sizes_.per_example,
            sizes_.derivative_count, derivative_first_, derivative_list_,
            static_cast<const Wide*>(targets.derivatives),
            results.per_example.in(results_.data()) + first * sizes_.per_example);
}

}  // namespace device
}  // namespace qfleet

#endif  // QFLEET_CUDA_CHUNK_LAUNCHES_H_
