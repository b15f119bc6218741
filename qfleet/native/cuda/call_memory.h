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
  char* on_device = inputs_.Reserve(std::max<int64_t>(layout.bytes(), 1));
  const auto* matrices = reinterpret_cast<const Wide*>(call.matrices);
  std::transform(matrices, matrices + 2 * inputs.matrices.count,
                 reinterpret_cast<T*>(inputs.matrices.in(host)),
                 [](Wide real) { return static_cast<T>(real); });
  std::copy_n(reinterpret_cast<const Wide*>(call.shared), inputs.shared.count,
              inputs.shared.in(host));
  std::copy_n(reinterpret_cast<const Wide*>(call.per_example), inputs.per_example.count,
              inputs.per_example.in(host));
  if (upstream) std::copy_n(upstream, inputs.upstream.count, inputs.upstream.in(host));
  CopyToDevice(on_device, host, layout.bytes(), stream_);
  return inputs;
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
  results_.Reserve(std::max<int64_t>(layout.bytes(), 1));
  return results;
}

template <class T>
void TypedProgram<T>::ReturnResults(const Results& results, void* values,
                                    const GradientResults* gradient) {
  // The gradients by per-example exponents are last, so that they are left out if not wanted.
  const int64_t bytes = gradient && !gradient->per_example_gradients ? results.per_example.offset
                                                                     : results.layout.bytes();
  char* host = pinned_results_.Reserve(std::max<int64_t>(bytes, 1));
  CopyToHost(host, results_.data(), bytes, stream_);
  Synchronize(stream_);
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
typename TypedProgram<T>::Division TypedProgram<T>::DivideWide(int64_t size, bool gradient) {
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
  const int64_t sums = (sizes_.block_sums + sizes_.product_sums) * kMatrixReals * kWideBytes;
  const auto bytes = [&](int64_t chunk) {
    const int64_t states = (static_cast<int64_t>(sizeof(C)) << sizes_.qubits) *
                           (gradient || sizes_.takes_states ? 2 : 1);
    return chunk * (states + ScratchBytesPerExample() + (gradient ? division.parts * sums : 0) +
                    MeasureParts() * sizes_.string_count * kWideBytes);
  };
  int64_t free_bytes, total_bytes;
  FreeMemory(&free_bytes, &total_bytes);
  const int64_t usable =
      static_cast<int64_t>(kUsableMemory * static_cast<double>(free_bytes + scratch_.bytes()));
  while (division.chunk > 1 && bytes(division.chunk) > usable) --division.chunk;
  if (bytes(division.chunk) > usable)
    throw DeviceError("a state of " + std::to_string(sizes_.qubits) + " qubits needs " +
                          Mebibytes(bytes(1)) + " of the device's memory, but " +
                          Mebibytes(usable) + " are free" + kFewerQubits,
                      true);
  division.units = division.chunk * division.parts;
  return division;
}

template <class T>
typename TypedProgram<T>::Scratch TypedProgram<T>::LayoutScratch(const Division& division,
                                                                 bool states, bool gradient) {
  Scratch scratch;
  Layout& layout = scratch.layout;
  const int64_t chunk = division.chunk, strings = sizes_.string_count;
  const int64_t widest = std::max(sizes_.block_sums, sizes_.sequence_sums) * kMatrixReals;
  scratch.products = layout.Add<C>(chunk * sizes_.product_count * (kMatrixReals / 2));
  scratch.coefficients = layout.Add<T>(chunk * strings);
  scratch.string_values = layout.Add<T>(chunk * strings);
  scratch.parts = layout.Add<Wide>(states ? chunk * MeasureParts() * strings : 0);
  if (gradient) {
    scratch.product_sums = layout.Add<T>(chunk * sizes_.product_sums * kMatrixReals);
    scratch.sequence_sums = layout.Add<T>(chunk * sizes_.sequence_sums * kMatrixReals);
    scratch.derivatives = layout.Add<Wide>(chunk * sizes_.derivative_count);
    scratch.segments = layout.Add<Wide>(kMaxSegments * std::max(widest, sizes_.derivative_count));
    const int64_t slots = sizes_.block_sums + (states ? sizes_.product_sums : 0);
    scratch.unit_sums = layout.Add<Wide>(division.units * slots * kMatrixReals);
  }
  const bool takes_states = sizes_.takes_states;  // which pass through both arrays
  if (states || takes_states) scratch.psi = layout.Add<C>(chunk << sizes_.qubits);
  if ((states && gradient) || takes_states) scratch.lambda = layout.Add<C>(chunk << sizes_.qubits);
  return scratch;
}

template <class T>
void TypedProgram<T>::ReserveScratch(const Scratch& scratch, const char* what) {
  try {
    scratch_.Reserve(std::max<int64_t>(scratch.layout.bytes(), 1));
  } catch (const DeviceError& error) {
    if (!error.is_memory) throw;
    throw DeviceError(
        std::string(what) + " needs " + Mebibytes(scratch.layout.bytes()) +
            " of the device's memory, which are not free: use smaller batches, or another device",
        true);
  }
}

}  // namespace device
}  // namespace qfleet

#endif  // QFLEET_CUDA_CALL_MEMORY_H_
