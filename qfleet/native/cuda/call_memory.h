// How a call is divided, and its arrays in the memory of the device and of the host.
#ifndef QFLEET_CUDA_CALL_MEMORY_H_
#define QFLEET_CUDA_CALL_MEMORY_H_

#include "typed_program.h"

namespace qfleet {
namespace device {

template <class T>
typename TypedProgram<T>::Inputs TypedProgram<T>::StageInputs(const Call& call, const T* upstream) {
  Inputs inputs;
  Layout& layout = inputs.layout;
  inputs.matrices = layout.Add<C>(sizes_.matrix_count * (kMatrixReals / 2));
  inputs.shared = layout.Add<Wide>(sizes_.shared);
  inputs.per_example = layout.Add<Wide>(call.size * sizes_.per_example);
  inputs.upstream = layout.Add<T>(upstream ? call.size * sizes_.readouts : 0);
  char* host = pinned_inputs_.Reserve(std::max<int64_t>(layout.bytes(), 1));
  ReserveForBatch("the inputs", &inputs_, layout, call.size);
  const auto* matrices = reinterpret_cast<const Wide*>(call.matrices);
  std::transform(matrices, matrices + 2 * inputs.matrices.count,
                 reinterpret_cast<T*>(inputs.matrices.in(host)),
                 [](Wide real) { return static_cast<T>(real); });
  std::copy_n(reinterpret_cast<const Wide*>(call.shared), inputs.shared.count,
              inputs.shared.in(host));
  std::copy_n(reinterpret_cast<const Wide*>(call.per_example), inputs.per_example.count,
              inputs.per_example.in(host));
  if (upstream) std::copy_n(upstream, inputs.upstream.count, inputs.upstream.in(host));
  return inputs;
}

template <class T>
void TypedProgram<T>::SendInputs(const Inputs& inputs) {
  CopyToDevice(inputs_.data(), pinned_inputs_.data(), inputs.layout.bytes(), stream_);
}

template <class T>
typename TypedProgram<T>::Results TypedProgram<T>::LayoutResults(const Call& call, bool values,
                                                                 bool gradient) {
  Results results;
  Layout& layout = results.layout;
  results.values = layout.Add<T>(values ? call.size * sizes_.readouts : 0);
  results.block_sums = layout.Add<Wide>(gradient ? sizes_.block_sums * kMatrixReals : 0);
  results.sequence_sums = layout.Add<Wide>(gradient ? sizes_.sequence_sums * kMatrixReals : 0);
  results.shared_derivatives = layout.Add<Wide>(gradient ? sizes_.derivative_count : 0);
  results.per_example = layout.Add<Wide>(gradient ? call.size * sizes_.per_example : 0);
  ReserveForBatch("the results", &results_, layout, call.size);
  pinned_results_.Reserve(std::max<int64_t>(layout.bytes(), 1));
  return results;
}

template <class T>
void TypedProgram<T>::FetchResults(const Results& results, const GradientResults* gradient) {
  // The gradients by per-example exponents are last, so that they are left out if not wanted.
  const int64_t bytes = gradient && !gradient->per_example_gradients ? results.per_example.offset
                                                                     : results.layout.bytes();
  CopyToHost(pinned_results_.data(), results_.data(), bytes, stream_);
}

template <class T>
void TypedProgram<T>::ReturnResults(const Results& results, void* values,
                                    const GradientResults* gradient) {
  Synchronize(stream_);
  char* host = pinned_results_.data();
  if (values) std::copy_n(results.values.in(host), results.values.count, static_cast<T*>(values));
  if (!gradient) return;
  const auto copy = [&](const Layout::Array<Wide>& array, double* to) {
    if (to) std::copy_n(array.in(host), array.count, reinterpret_cast<Wide*>(to));
  };
  copy(results.block_sums, gradient->block_sums);
  copy(results.sequence_sums, gradient->sequence_sums);
  copy(results.shared_derivatives, gradient->shared_derivatives);
  copy(results.per_example, gradient->per_example_gradients);
}

template <class T>
int64_t TypedProgram<T>::ScratchBytesPerExample() const {
  const int64_t reals =
      (sizes_.product_count + sizes_.product_sums + sizes_.sequence_sums) * kMatrixReals +
      2 * sizes_.string_count;
  return reals * static_cast<int64_t>(sizeof(T)) + sizes_.derivative_count * kWideBytes + 1;
}

template <class T>
typename TypedProgram<T>::Division TypedProgram<T>::DivideSmall(int64_t size, bool gradient) {
  Division division = {};
  const int64_t state_bytes = static_cast<int64_t>(sizeof(C)) << sizes_.qubits;
  division.threads = kSmallThreads;
  if (lanes_ == 0) division.threads = has_few_threads() ? 128 : 1 << (sizes_.qubits - 4);
  int64_t groups = lanes_ ? division.threads / lanes_ : 1;
  division.shared_bytes = groups * (gradient ? 2 : 1) * state_bytes;
  if (!lanes_) division.shared_bytes += 2 * division.threads * static_cast<int64_t>(sizeof(T));
  int32_t resident = 1;
  PickSmall([&](auto* kernel) {
    resident = BlocksPerMultiprocessor(kernel, division.threads, division.shared_bytes);
  });
  const int64_t bytes = ScratchBytesPerExample() + (sizes_.takes_states ? 2 * state_bytes : 0);
  division.chunk = std::min(size, std::max<int64_t>(groups, kScratchBytes / bytes));
  if (sizes_.takes_states) division.chunk = std::min(division.chunk, kMostStates);
  division.grid = std::min<int64_t>(DivideUp(division.chunk, groups),
                                    static_cast<int64_t>(resident) * facts_.multiprocessors);
  division.units = division.grid * (lanes_ ? division.threads / kWarp : 1);
  return division;
}

template <class T>
typename TypedProgram<T>::Division TypedProgram<T>::Divide(int64_t size, bool gradient) {
  if (place() == Place::kBlock) return DivideSmall(size, gradient);
  return place() == Place::kCluster ? DivideClusters(size, gradient) : DivideWide(size);
}

template <class T>
typename TypedProgram<T>::Division TypedProgram<T>::DivideWide(int64_t size) {
  Division division = {};
  division.threads = kWideThreads;
  division.shared_bytes = (static_cast<int64_t>(sizeof(C)) << tile_bits_) * 2 +
                          2 * division.threads * static_cast<int64_t>(sizeof(T));
  // Some thread blocks load while others compute.
  const int64_t resident =
      kWaves * static_cast<int64_t>(facts_.multiprocessors) *
      BlocksPerMultiprocessor(BackwardWindow<T>, division.threads, division.shared_bytes);
  const int64_t tiles = int64_t{1} << (sizes_.qubits - tile_bits_);
  // As many states as keep the device busy: fewer of them stay in its second-level cache.
  division.chunk = std::min(size, std::max<int64_t>(1, resident / tiles));
  division.parts = std::min(tiles, std::max<int64_t>(1, DivideUp(resident, division.chunk)));
  division.units = division.chunk * division.parts;
  return division;
}

template <class T>
typename TypedProgram<T>::Scratch TypedProgram<T>::LayoutScratch(const Division& division,
                                                                 Kind kind) {
  Scratch scratch;
  Layout& layout = scratch.layout;
  const int64_t chunk = division.chunk, strings = sizes_.string_count;
  const int64_t widest = std::max(sizes_.block_sums, sizes_.sequence_sums) * kMatrixReals;
  const bool has_states = place() == Place::kDevice || kind >= Kind::kStates;  // in its memory
  scratch.products = layout.Add<C>(chunk * sizes_.product_count * (kMatrixReals / 2));
  scratch.coefficients = layout.Add<T>(chunk * strings);
  const int64_t ranks = has_states ? 0 : int64_t{1} << cluster_.bits;  // that share a state
  scratch.string_values = layout.Add<T>(chunk * ranks * strings);
  scratch.parts = layout.Add<Wide>(has_states ? chunk * MeasureParts() * strings : 0);
  if (kind == Kind::kGradient || kind == Kind::kStateGradient) {
    scratch.product_sums = layout.Add<T>(chunk * sizes_.product_sums * kMatrixReals);
    const bool is_cluster = place() == Place::kCluster && !has_states;
    scratch.rank_sums =
        layout.Add<T>(is_cluster ? chunk * ranks * sizes_.product_sums * kMatrixReals : 0);
    scratch.sequence_sums = layout.Add<T>(chunk * sizes_.sequence_sums * kMatrixReals);
    scratch.derivatives = layout.Add<Wide>(chunk * sizes_.derivative_count);
    scratch.segments = layout.Add<Wide>(kMaxSegments * std::max(widest, sizes_.derivative_count));
    const int64_t slots = sizes_.block_sums + (has_states ? sizes_.product_sums : 0);
    scratch.unit_sums = layout.Add<Wide>(division.units * slots * kMatrixReals);
  }
  const bool takes_states = sizes_.takes_states;  // which pass through both arrays
  if (has_states || takes_states) scratch.psi = layout.Add<C>(chunk << sizes_.qubits);
  if ((has_states && kind != Kind::kValues) || takes_states)
    scratch.lambda = layout.Add<C>(chunk << sizes_.qubits);
  if (kind == Kind::kStateGradient) scratch.received = layout.Add<C>(chunk << sizes_.qubits);
  if (kind == Kind::kSamples) {
    scratch.segment_sums = layout.Add<double>(chunk * SegmentCount(int64_t{1} << sizes_.qubits));
    scratch.totals = layout.Add<double>(chunk);
    scratch.drawn = layout.Add<int64_t>(kShotsAtOnce);
  }
  return scratch;
}

template <class T>
DeviceError TypedProgram<T>::NoRoom(Kind kind, int64_t needed, int64_t usable) const {
  constexpr const char* kNames[] = {"a state", "a gradient", "a state", "samples",
                                    "a gradient by a state"};
  const char* name = kTangents ? "a Hessian-vector product" : kNames[static_cast<int32_t>(kind)];
  int32_t fitting = sizes_.qubits;
  for (int64_t bytes = needed; fitting > 0 && bytes > usable; bytes /= 2) --fitting;
  return {std::string(name) + " of " + std::to_string(sizes_.qubits) + " qubits needs " +
              Shortage(needed, usable) + std::to_string(fitting) + " qubits" + kFewerQubits,
          true};
}

template <class T>
typename TypedProgram<T>::Scratch TypedProgram<T>::ReserveScratch(Kind kind, Division* division) {
  for (;;) {
    const Scratch scratch = LayoutScratch(*division, kind);
    const int64_t needed = std::max<int64_t>(scratch.layout.bytes(), 1);
    // The driver is not asked where a call before this one has reserved as much.
    int64_t usable = needed <= scratch_.bytes() ? needed : workspace->UsableBytes(scratch_);
    if (needed <= usable) {
      try {
        workspace->Reserve(&scratch_, needed);
        return scratch;
      } catch (const DeviceError& error) {
        if (!error.is_memory) throw;
      }
      // It is in pieces, or another process was faster.
      usable = std::min(needed - 1, workspace->UsableBytes(scratch_));
    }
    if (division->chunk == 1) throw NoRoom(kind, needed, usable);
    division->chunk = DivideUp(division->chunk, 2);
    if (division->parts) division->units = division->chunk * division->parts;
  }
}

template <class T>
char* TypedProgram<T>::ReserveForBatch(const char* what, DeviceMemory* memory, const Layout& layout,
                                       int64_t size) {
  const int64_t needed = std::max<int64_t>(layout.bytes(), 1);
  try {
    return workspace->Reserve(memory, needed);
  } catch (const DeviceError& error) {
    if (!error.is_memory) throw;
  }
  const int64_t usable = std::min(needed - 1, workspace->UsableBytes(*memory));
  const double share = static_cast<double>(usable) / static_cast<double>(needed);
  const int64_t fitting = static_cast<int64_t>(share * static_cast<double>(size));
  throw DeviceError(std::string(what) + " of " + std::to_string(size) + " examples need " +
                        Shortage(needed, usable) + std::to_string(fitting) +
                        " examples: use smaller batches, or another device",
                    true);
}

}  // namespace device
}  // namespace qfleet

#endif  // QFLEET_CUDA_CALL_MEMORY_H_
