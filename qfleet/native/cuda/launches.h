// The launches of a call for one type of reals. Included by float_program.cu and others.
#ifndef QFLEET_CUDA_LAUNCHES_H_
#define QFLEET_CUDA_LAUNCHES_H_

#include "device_program.h"
#include "gate_kernels.h"
#include "memory.h"
#include "small_kernels.h"
#include "wide_kernels.h"
#include "windows.h"

namespace qfleet {
namespace device {

constexpr int32_t kSmallThreads = kIsHostExecutor ? 64 : 128, kGateThreads = 128;
constexpr int32_t kWideThreads = kIsHostExecutor ? 64 : 256;
constexpr int64_t kWideTileBytes = 64 << 10;  // of both states, so that thread blocks share an SM
constexpr int64_t kScratchBytes = kIsHostExecutor ? 1 << 20 : 512 << 20;
constexpr int64_t kMaxSegments = 32, kSegmentRows = 128;
constexpr int64_t kWaves = 2;          // of thread blocks in a launch for wide states
constexpr int64_t kMostParts = 256;    // of a state that is measured
constexpr double kUsableMemory = 0.9;  // of the free memory of the device

inline int64_t DivideUp(int64_t a, int64_t b) { return (a + b - 1) / b; }

inline std::string Mebibytes(int64_t bytes) {
  return std::to_string(DivideUp(bytes, 1 << 20)) + " MiB";
}

template <class T>
class TypedProgram : public Program {
 public:
  TypedProgram(int32_t device, const ProgramTables& tables, std::shared_ptr<Workspace> workspace);
  ~TypedProgram() override;

  void Evaluate(const Call& call, void* values, const void* upstream,
                const GradientResults* results) override;
  void State(const Call& call, const int64_t* order, void* states) override;
  void StateGradient(const Call& call, const int64_t* order, const void* states,
                     const void* upstream, const GradientResults& results) override;

 private:
  using C = Complex<T>;
  using Wide = WideOf<T>;
  static constexpr int64_t kWideBytes = sizeof(Wide);
  // Tangents double the registers of a thread and the memory of a state.
  static constexpr bool kTangents = kHasTangents<T>;
  static constexpr int32_t kMaxThreads = kTangents ? 256 : 512, kLaneBlocks = kTangents ? 2 : 4;
  static constexpr int32_t kMaxLaneQubits = kTangents ? 8 : 9;

  // The arrays of a batch on the device. Inputs come in one copy, results leave in one.
  struct Inputs {
    Layout layout;
    Layout::Array<C> matrices;
    Layout::Array<Wide> shared, per_example;
    Layout::Array<T> upstream;
  };
  struct Results {
    Layout layout;
    Layout::Array<T> values;
    Layout::Array<Wide> block_sums, sequence_sums, shared_derivatives, per_example;
  };
  // Of as many examples as are computed at once.
  struct Scratch {
    Layout layout;
    Layout::Array<C> products;
    Layout::Array<T> coefficients, string_values, product_sums, sequence_sums;
    Layout::Array<Wide> derivatives, unit_sums, parts, segments;
    Layout::Array<C> psi, lambda;
  };
  // How a call is divided: `chunk` examples at once, by `units` that keep sums of their own.
  struct Division {
    int64_t chunk, units;
    int64_t grid;   // thread blocks for small states
    int64_t parts;  // thread blocks that share a wide state
    int32_t threads;
    int64_t shared_bytes;
  };
  Inputs StageInputs(const Call& call, const T* upstream);
  Results LayoutResults(const Call& call, bool values, bool gradient);
  void ReturnResults(const Results& results, void* values, const GradientResults* gradient);
  Scratch LayoutScratch(const Division& division, bool states, bool gradient);
  // Thread blocks that share a state's measurement: each thread takes a strip or more.
  int64_t MeasureParts() const {
    const int64_t strips = (int64_t{1} << sizes_.qubits) / (kWideThreads * kWideStrip);
    return std::min(kMostParts, std::max<int64_t>(strips, 1));
  }
  // At 12 qubits three states fit into a multiprocessor if their threads are few.
  bool has_few_threads() const { return !kTangents && sizes_.qubits == 12; }
  Division DivideSmall(int64_t size, bool gradient);
  Division DivideWide(int64_t size, bool gradient);
  int64_t ScratchBytesPerExample() const;
  void ReserveScratch(const Scratch& scratch, const char* what);

  ProgramView<T> View(int32_t mode) const;
  GateView<T> Gates(const Inputs& inputs, int64_t first);
  template <class Kernel>
  void PickSmall(const Kernel& visit) const;
  void BeginChunk(const Inputs& inputs, const Scratch& scratch, int64_t first, int64_t count,
                  bool coefficients);
  void EvolveSmallChunk(const Inputs& inputs, const Scratch& scratch, const Division& division,
                        int64_t count, int32_t mode, bool values, bool gradient);
  WideArguments<T> WideCall(const Inputs& inputs, const Scratch& scratch, int32_t mode);
  void ForwardWide(const Inputs& inputs, const Scratch& scratch, const Division& division,
                   int64_t count);
  void BackwardWide(const Inputs& inputs, const Scratch& scratch, const Division& division,
                    int64_t count, int32_t mode, const Results& results, bool add);
  void WriteChunkValues(const Scratch& scratch, const Division& division, const Results& results,
                        int64_t first, int64_t count);
  void DifferentiateChunk(const Inputs& inputs, const Scratch& scratch, const Results& results,
                          int64_t first, int64_t count, int32_t mode, bool per_example, bool add);
  template <class From>
  void Sum(const From* in, int64_t rows, int64_t stride, int64_t width, bool add,
           const Scratch& scratch, Wide* out);
  template <class Kernel, class... Arguments>
  void ForEach(int64_t count, Kernel* kernel, Arguments... arguments) {
    if (count > 0)
      Launch(kernel, dim3(static_cast<unsigned>(DivideUp(count, kGateThreads))), kGateThreads, 0,
             stream_, arguments...);
  }

  const int32_t device_;
  const DeviceFacts facts_;
  ProgramTables sizes_;  // its pointers are the caller's, and not used
  DeviceTables tables_;
  ProgramView<T> view_ = {};
  GateView<T> gates_ = {};
  const double *weights_, *offsets_;
  const int32_t *derivative_first_, *derivative_list_;
  WindowPlan windows_;
  const PassBlock* window_blocks_;
  int32_t tile_bits_, lanes_;
  bool small_;
  const Stream stream_ = workspace->stream;
  PinnedMemory &pinned_inputs_ = workspace->pinned_inputs,
               &pinned_results_ = workspace->pinned_results;
  DeviceMemory &inputs_ = workspace->inputs, &results_ = workspace->results,
               &scratch_ = workspace->scratch;
};

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
    std::vector<PauliString> moved;
    for (int64_t s = 0; s < tables.string_count; ++s)
      moved.push_back(StringOfPlaces(tables.strings[s], window.end, n, sizeof(C)));
    view_.place_strings = tables_.Add(moved, stream_);
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
  division.chunk =
      std::min(size, std::max<int64_t>(groups, kScratchBytes / ScratchBytesPerExample()));
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
    const int64_t states = (static_cast<int64_t>(sizeof(C)) << sizes_.qubits) * (gradient ? 2 : 1);
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
                          Mebibytes(usable) + " are free",
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
  if (states) scratch.psi = layout.Add<C>(chunk << sizes_.qubits);
  if (states && gradient) scratch.lambda = layout.Add<C>(chunk << sizes_.qubits);
  return scratch;
}

template <class T>
void TypedProgram<T>::ReserveScratch(const Scratch& scratch, const char* what) {
  try {
    scratch_.Reserve(std::max<int64_t>(scratch.layout.bytes(), 1));
  } catch (const DeviceError& error) {
    if (!error.is_memory) throw;
    throw DeviceError(std::string(what) + " needs " + Mebibytes(scratch.layout.bytes()) +
                          " of the device's memory, which are not free",
                      true);
  }
}

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

template <class T>
void TypedProgram<T>::EvolveSmallChunk(const Inputs& inputs, const Scratch& scratch,
                                       const Division& division, int64_t count, int32_t mode,
                                       bool values, bool gradient) {
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
  arguments.fresh = 1;
  for (const WindowTable& window : windows_.windows) {
    arguments.window = window;
    Launch(
        ForwardWindow<T>, dim3(static_cast<unsigned>(division.parts), static_cast<unsigned>(count)),
        division.threads, static_cast<int64_t>(sizeof(C)) << window.bit_count, stream_, arguments);
    arguments.fresh = 0;
  }
}

template <class T>
void TypedProgram<T>::BackwardWide(const Inputs& inputs, const Scratch& scratch,
                                   const Division& division, int64_t count, int32_t mode,
                                   const Results& results, bool add) {
  char* base = scratch_.data();
  WideArguments<T> arguments = WideCall(inputs, scratch, mode);
  const int64_t slots = sizes_.block_sums + sizes_.product_sums;
  Wide* sums = scratch.unit_sums.in(base);
  FillZero(sums, count * division.parts * slots * kMatrixReals * kWideBytes, stream_);
  const auto needed = [&](const WindowTable& window) {
    for (int32_t b = window.first; b < window.first + window.count; ++b)
      if (windows_.blocks[b].gradient[mode] || windows_.blocks[b].uncompute[mode]) return true;
    return false;
  };
  size_t earliest = windows_.windows.size();
  for (size_t w = windows_.windows.size(); w-- > 0;)
    if (needed(windows_.windows[w])) earliest = w;
  for (size_t w = windows_.windows.size(); w-- > earliest;) {
    arguments.window = windows_.windows[w];
    // A window that changes the places must be undone, too.
    const PlaceTable &begin = arguments.window.begin, &end = arguments.window.end;
    if (!needed(arguments.window) && std::memcmp(&begin, &end, sizeof(begin)) == 0) continue;
    arguments.store = w > earliest;
    Launch(BackwardWindow<T>,
           dim3(static_cast<unsigned>(division.parts), static_cast<unsigned>(count)),
           division.threads, division.shared_bytes, stream_, arguments);
  }
  Sum(sums, count * division.parts, slots * kMatrixReals, sizes_.block_sums * kMatrixReals, add,
      scratch, results.block_sums.in(results_.data()));
  if (sizes_.product_sums == 0) return;
  // The parts of each example become its sums.
  const int64_t width = sizes_.product_sums * kMatrixReals;
  Launch(SumRows<Wide, T>,
         dim3(static_cast<unsigned>(DivideUp(width, kSumColumns)), static_cast<unsigned>(count)),
         kSumThreads, kSumThreads * kWideBytes, stream_,
         static_cast<const Wide*>(sums + sizes_.block_sums * kMatrixReals), count * division.parts,
         slots * kMatrixReals, width, false, scratch.product_sums.in(base));
}

template <class T>
void TypedProgram<T>::WriteChunkValues(const Scratch& scratch, const Division& division,
                                       const Results& results, int64_t first, int64_t count) {
  char* base = scratch_.data();
  T* values = results.values.in(results_.data()) + first * sizes_.readouts;
  if (small_) {
    ForEach(count * sizes_.readouts * kWarp, WriteValues<T, T>, count, sizes_.string_count,
            sizes_.readouts, weights_, offsets_,
            static_cast<const T*>(scratch.string_values.in(base)), 1, values);
    return;
  }
  const int32_t threads = division.threads;
  Launch(MeasureWide<T>, dim3(static_cast<unsigned>(MeasureParts()), static_cast<unsigned>(count)),
         threads, kMeasuredAtOnce * threads / kWarp * kWideBytes, stream_, View(0),
         static_cast<const C*>(scratch.psi.in(base)), scratch.parts.in(base));
  ForEach(count * sizes_.readouts * kWarp, WriteValues<T, Wide>, count, sizes_.string_count,
          sizes_.readouts, weights_, offsets_, static_cast<const Wide*>(scratch.parts.in(base)),
          static_cast<int32_t>(MeasureParts()), values);
}

template <class T>
void TypedProgram<T>::DifferentiateChunk(const Inputs& inputs, const Scratch& scratch,
                                         const Results& results, int64_t first, int64_t count,
                                         int32_t mode, bool per_example, bool add) {
  if (sizes_.product_sums == 0) {
    if (per_example && first == 0)
      FillZero(results.per_example.in(results_.data()), results.per_example.count * kWideBytes,
               stream_);
    if (first == 0)
      FillZero(results.shared_derivatives.in(results_.data()),
               results.shared_derivatives.count * kWideBytes, stream_);
    return;
  }
  char* base = scratch_.data();
  FillZero(scratch.sequence_sums.in(base),
           scratch.sequence_sums.count * static_cast<int64_t>(sizeof(T)), stream_);
  FillZero(scratch.derivatives.in(base), scratch.derivatives.count * kWideBytes, stream_);
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

template <class T>
void TypedProgram<T>::Evaluate(const Call& call, void* values, const void* upstream,
                               const GradientResults* results_wanted) {
  const std::lock_guard<std::mutex> lock(workspace->mutex);
  UseDevice(device_);
  const bool gradient = results_wanted != nullptr;
  const int32_t mode = gradient && results_wanted->per_example_gradients ? 1 : 0;
  const Inputs inputs = StageInputs(call, static_cast<const T*>(upstream));
  const Results results = LayoutResults(call, values != nullptr, gradient);
  const Division division =
      small_ ? DivideSmall(call.size, gradient) : DivideWide(call.size, gradient);
  const Scratch scratch = LayoutScratch(division, !small_, gradient);
  ReserveScratch(scratch, "the batch");
  if (small_ && gradient)
    FillZero(scratch.unit_sums.in(scratch_.data()), scratch.unit_sums.count * kWideBytes, stream_);
  for (int64_t first = 0; first < call.size; first += division.chunk) {
    const int64_t count = std::min(division.chunk, call.size - first);
    BeginChunk(inputs, scratch, first, count, gradient);
    if (small_) {
      EvolveSmallChunk(inputs, scratch, division, count, mode, values != nullptr, gradient);
    } else {
      ForwardWide(inputs, scratch, division, count);
    }
    if (values) WriteChunkValues(scratch, division, results, first, count);
    if (!gradient) continue;
    if (!small_) {
      char* base = scratch_.data();
      Launch(ApplyStringsWide<T>,
             dim3(static_cast<unsigned>(MeasureParts()), static_cast<unsigned>(count)),
             division.threads, 0, stream_, View(mode), static_cast<const C*>(scratch.psi.in(base)),
             static_cast<const T*>(scratch.coefficients.in(base)), scratch.lambda.in(base));
      BackwardWide(inputs, scratch, division, count, mode, results, first > 0);
    }
    DifferentiateChunk(inputs, scratch, results, first, count, mode, mode == 1, first > 0);
  }
  if (small_ && gradient)
    Sum(static_cast<const Wide*>(scratch.unit_sums.in(scratch_.data())), division.units,
        sizes_.block_sums * kMatrixReals, sizes_.block_sums * kMatrixReals, false, scratch,
        results.block_sums.in(results_.data()));
  ReturnResults(results, values, results_wanted);
}

inline BitOrder MakeOrder(int32_t qubits, const int64_t* order) {
  BitOrder made = {};
  made.qubits = qubits;
  for (int32_t i = 0; i < qubits; ++i) made.order[i] = static_cast<int8_t>(order[i]);
  return made;
}

template <class T>
void TypedProgram<T>::State(const Call& call, const int64_t* order, void* states) {
  const std::lock_guard<std::mutex> lock(workspace->mutex);
  UseDevice(device_);
  const Inputs inputs = StageInputs(call, nullptr);
  const Division division = DivideWide(call.size, true);  // with a second state, in their order
  Scratch scratch = LayoutScratch(division, true, true);
  ReserveScratch(scratch, "the states");
  char* base = scratch_.data();
  for (int64_t first = 0; first < call.size; first += division.chunk) {
    const int64_t count = std::min(division.chunk, call.size - first);
    BeginChunk(inputs, scratch, first, count, false);
    ForwardWide(inputs, scratch, division, count);
    Launch(PermuteStates<T>,
           dim3(static_cast<unsigned>(MeasureParts()), static_cast<unsigned>(count)),
           division.threads, 0, stream_, MakeOrder(sizes_.qubits, order), true, T{1},
           static_cast<const C*>(scratch.psi.in(base)), scratch.lambda.in(base));
    CopyToHost(static_cast<C*>(states) + (first << sizes_.qubits), scratch.lambda.in(base),
               (count << sizes_.qubits) * static_cast<int64_t>(sizeof(C)), stream_);
    Synchronize(stream_);
  }
}

template <class T>
void TypedProgram<T>::StateGradient(const Call& call, const int64_t* order, const void* states,
                                    const void* upstream, const GradientResults& wanted) {
  const std::lock_guard<std::mutex> lock(workspace->mutex);
  UseDevice(device_);
  const int32_t mode = wanted.per_example_gradients ? 1 : 0;
  const Inputs inputs = StageInputs(call, nullptr);
  const Results results = LayoutResults(call, false, true);
  const Division division = DivideWide(call.size, true);
  Scratch scratch = LayoutScratch(division, true, true);
  const Layout::Array<C> received = scratch.layout.template Add<C>(division.chunk << sizes_.qubits);
  ReserveScratch(scratch, "the gradient of the states");
  char* base = scratch_.data();
  const BitOrder bits = MakeOrder(sizes_.qubits, order);
  for (int64_t first = 0; first < call.size; first += division.chunk) {
    const int64_t count = std::min(division.chunk, call.size - first);
    BeginChunk(inputs, scratch, first, count, false);
    const auto receive = [&](const void* from, T factor, C* to) {
      CopyToDevice(received.in(base), static_cast<const C*>(from) + (first << sizes_.qubits),
                   (count << sizes_.qubits) * static_cast<int64_t>(sizeof(C)), stream_);
      Launch(PermuteStates<T>,
             dim3(static_cast<unsigned>(MeasureParts()), static_cast<unsigned>(count)),
             division.threads, 0, stream_, bits, false, factor,
             static_cast<const C*>(received.in(base)), to);
    };
    receive(states, T{1}, scratch.psi.in(base));
    // dL = Re <upstream|d psi>, but the adjoint method expects 2 Re <lambda|d psi>.
    receive(upstream, T{0.5}, scratch.lambda.in(base));
    BackwardWide(inputs, scratch, division, count, mode, results, first > 0);
    DifferentiateChunk(inputs, scratch, results, first, count, mode, mode == 1, first > 0);
  }
  ReturnResults(results, nullptr, &wanted);
}

}  // namespace device
}  // namespace qfleet

#endif  // QFLEET_CUDA_LAUNCHES_H_
