// Programs that evolve density matrices.
#include "density_kernels.h"
#include "device_program.h"
#include "gate_kernels.h"
#include "typed_program.h"

namespace qfleet {
namespace device {
namespace {

// Of the examples that are computed at once: fewer of them stay in the second-level cache.
constexpr int64_t kDensityBytes = kIsHostExecutor ? 1 << 16 : int64_t{4} << 30;

template <class T>
class TypedDensityProgram : public DensityProgram {
 public:
  TypedDensityProgram(int32_t device, const DensityTables& tables)
      : device_(device),
        sizes_(tables),
        workspace_(device),
        blocks_(tables.blocks, tables.blocks + tables.block_count),
        block_table_(tables_.Add(blocks_, workspace_.stream)),
        strings_(tables_.Add(tables.strings, tables.string_count, workspace_.stream)) {}

  ~TypedDensityProgram() override {
    try {
      UseDevice(device_);  // for the memory that is freed
    } catch (const DeviceError&) {
      // The device is lost, and its memory with it.
    }
  }

  void Evaluate(const DensityCall& call, double* means, const DensityGradient* gradient) override {
    const std::lock_guard<std::mutex> lock(workspace_.mutex);
    UseDevice(device_);
    DensityView<T> view = View(gradient);
    const int64_t chunk = Chunk(call.size, view.slots);
    const Arrays arrays = LayoutArrays(chunk, view.slots);
    char* const base = workspace_.Reserve(&workspace_.scratch, arrays.layout.bytes());
    const Stream stream = workspace_.stream;
    Place(arrays, base, gradient != nullptr, &view);
    CopyToDevice(arrays.shared.in(base), call.shared, arrays.shared.bytes(), stream);
    const int64_t own = sizes_.per_example * kDensityReals, strings = sizes_.string_count;
    const int64_t width = sizes_.shared * kDensityReals;
    for (int64_t first = 0; first < call.size; first += chunk) {
      const int64_t count = std::min(chunk, call.size - first);
      CopyToDevice(arrays.own.in(base), static_cast<const T*>(call.per_example) + first * own,
                   count * own * static_cast<int64_t>(sizeof(T)), stream);
      if (gradient) {
        CopyToDevice(arrays.weights.in(base), gradient->weights + first * strings,
                     count * strings * kDoubleBytes, stream);
        FillZero(view.shared_sums, arrays.shared_sums.bytes(), stream);
        FillZero(view.own_derivatives, arrays.own_derivatives.bytes(), stream);
      }
      Launch(EvolveDensity<T>, dim3(static_cast<unsigned>(count)), kDensityThreads,
             kDensityThreads * kDoubleBytes + kDensityReals * static_cast<int64_t>(sizeof(T)),
             stream, view);
      CopyToHost(means + first * strings, view.means, count * strings * kDoubleBytes, stream);
      if (gradient) {
        if (width > 0)
          Launch(SumRows<double, double>, dim3(static_cast<unsigned>(DivideUp(width, kSumColumns))),
                 kSumThreads, kSumThreads * kDoubleBytes, stream,
                 static_cast<const double*>(view.shared_sums), count, width, width, first > 0,
                 arrays.totals.in(base));
        CopyToHost(gradient->example_derivatives + first * own, view.own_derivatives,
                   count * own * kDoubleBytes, stream);
      }
      Synchronize(stream);
    }
    if (!gradient) return;
    CopyToHost(gradient->shared_derivatives, arrays.totals.in(base), width * kDoubleBytes, stream);
    Synchronize(stream);
  }

 private:
  static constexpr int64_t kDoubleBytes = sizeof(double);

  struct Arrays {
    Layout layout;
    Layout::Array<T> shared, own, states, lambdas;
    Layout::Array<double> means, weights, shared_sums, own_derivatives, totals;
  };
  DensityView<T> View(const DensityGradient* gradient) const {
    DensityView<T> view = {};
    view.coefficients = int64_t{1} << 2 * sizes_.qubits;
    view.shared = sizes_.shared;
    view.per_example = sizes_.per_example;
    view.block_count = view.first = static_cast<int32_t>(sizes_.block_count);
    view.string_count = static_cast<int32_t>(sizes_.string_count);
    view.blocks = block_table_;
    view.strings = strings_;
    view.mode = gradient ? gradient->mode : 0;
    view.slots = 1;
    for (int32_t b = view.block_count; gradient && b-- > 0;)
      if (blocks_[b].gradient[view.mode]) {
        view.first = b;
        ++view.slots;
      }
    return view;
  }

  Arrays LayoutArrays(int64_t chunk, int64_t slots) const {
    Arrays arrays;
    Layout& layout = arrays.layout;
    const int64_t coefficients = int64_t{1} << 2 * sizes_.qubits;
    arrays.shared = layout.Add<T>(sizes_.shared * kDensityReals);
    arrays.own = layout.Add<T>(chunk * sizes_.per_example * kDensityReals);
    arrays.states = layout.Add<T>(chunk * slots * coefficients);
    arrays.lambdas = layout.Add<T>(chunk * coefficients);
    arrays.means = layout.Add<double>(chunk * sizes_.string_count);
    arrays.weights = layout.Add<double>(chunk * sizes_.string_count);
    arrays.shared_sums = layout.Add<double>(chunk * sizes_.shared * kDensityReals);
    arrays.own_derivatives = layout.Add<double>(chunk * sizes_.per_example * kDensityReals);
    arrays.totals = layout.Add<double>(sizes_.shared * kDensityReals);
    return arrays;
  }

  // Examples that are computed at once.
  int64_t Chunk(int64_t size, int64_t slots) {
    const int64_t usable = workspace_.UsableBytes(workspace_.scratch);
    const int64_t needed = LayoutArrays(1, slots).layout.bytes();
    int32_t fitting = sizes_.qubits;
    for (int64_t bytes = needed; fitting > 0 && bytes > usable; bytes /= 4) --fitting;
    if (needed > usable)
      throw DeviceError("a density matrix of " + std::to_string(sizes_.qubits) + " qubits needs " +
                            Shortage(needed, usable) + std::to_string(fitting) + " qubits" +
                            kFewerQubits,
                        true);
    return std::clamp<int64_t>(std::min(usable, kDensityBytes) / needed, 1, size);
  }

  static void Place(const Arrays& arrays, char* base, bool gradient, DensityView<T>* view) {
    view->shared_matrices = arrays.shared.in(base);
    view->own_matrices = arrays.own.in(base);
    view->states = arrays.states.in(base);
    view->lambdas = arrays.lambdas.in(base);
    view->means = arrays.means.in(base);
    if (gradient) view->weights = arrays.weights.in(base);
    view->shared_sums = arrays.shared_sums.in(base);
    view->own_derivatives = arrays.own_derivatives.in(base);
  }

  const int32_t device_;
  const DensityTables sizes_;  // its pointers are the caller's, and not used
  Workspace workspace_;
  DeviceTables tables_;
  const std::vector<DensityBlockTable> blocks_;
  const DensityBlockTable* block_table_;
  const int64_t* strings_;
};

}  // namespace

std::unique_ptr<DensityProgram> MakeDensityProgram(int32_t device, const DensityTables& tables) {
  if (tables.real_bytes == sizeof(float))
    return std::make_unique<TypedDensityProgram<float>>(device, tables);
  return std::make_unique<TypedDensityProgram<double>>(device, tables);
}

}  // namespace device
}  // namespace qfleet
