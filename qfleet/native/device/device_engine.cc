#include "device/device_engine.h"

#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <map>
#include <mutex>

#include "device/device_fusion.h"
#include "program/batch.h"

namespace qfleet {
namespace {

using device::kMatrixReals;

constexpr int64_t kErrorBytes = 512;

// Runs a function of the library, whose last arguments are its error and the error's size.
template <class Function, class... Arguments>
void Run(Function* function, Arguments... arguments) {
  char error[kErrorBytes] = "";
  const device::Status status = function(arguments..., error, kErrorBytes);
  if (status != device::kOk) throw DeviceFailure(error, status == device::kOutOfMemory);
}

// Libraries stay loaded until the process ends, as a device's runtime has threads of its own.
const device::Interface* LoadLibrary(const std::string& path) {
  static std::mutex mutex;
  static auto& loaded = *new std::map<std::string, const device::Interface*>();
  const std::lock_guard<std::mutex> lock(mutex);
  const device::Interface*& found = loaded[path];
  if (found) return found;
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library)
    throw DeviceFailure(std::string("the device library cannot be loaded: ") + dlerror(), false);
  using Function = const device::Interface*();
  auto* function = reinterpret_cast<Function*>(dlsym(library, "qfleet_device_interface"));
  if (!function || function()->version != device::kInterfaceVersion)
    throw DeviceFailure("the device library " + path + " is of another version: build it again",
                        false);
  return found = function();
}

}  // namespace

device::DeviceDescription DescribeDevice(const std::string& library, int32_t number) {
  device::DeviceDescription description;
  Run(LoadLibrary(library)->describe, number, &description);
  return description;
}

// The program in the device's form, and what completes its results on the host.
struct DeviceEngine::Tables {
  explicit Tables(const Program& program);

  device::ProgramTables View(const Program& program, int32_t real_bytes) const;

  std::vector<device::BlockTable> blocks;
  std::vector<device::ProductTable> products;
  std::vector<device::ItemTable> items;
  std::vector<device::FactorTable> factors;
  std::vector<int32_t> exponents, derivatives;
  std::vector<double> half_turns, factor_matrices;
  std::vector<device::PauliString> strings;
  std::vector<const Block*> combined;     // whose matrix follows those of the sequences
  std::vector<const Block*> summed;       // shared blocks, by the number of their sums
  std::vector<int64_t> summed_sequences;  // sequences in products, likewise
  int64_t product_sums = 0;

 private:
  void AddFactor(const Factor& factor);
  void AddSharedBlock(const Program& program, const Block& block, device::BlockTable* table);
  void AddProduct(const Program& program, const Block& block, device::BlockTable* table);
};

// The results of a gradient, before the host completes them.
struct DeviceEngine::Results {
  explicit Results(const Tables& tables)
      : block_sums(tables.summed.size() * kMatrixReals),
        sequence_sums(tables.summed_sequences.size() * kMatrixReals),
        shared_derivatives(tables.derivatives.size()) {}

  device::GradientResults View(double* per_example_gradients) {
    return {block_sums.data(), sequence_sums.data(), shared_derivatives.data(),
            per_example_gradients};
  }
  std::vector<double> block_sums, sequence_sums, shared_derivatives;
};

DeviceEngine::Tables::Tables(const Program& program) {
  for (const Factor& factor : program.factors) AddFactor(factor);
  for (const Block& block : program.blocks) {
    device::BlockTable table = {};
    table.kind = block.qubits == 2 ? device::kTwoQubits : device::kOneQubit;
    for (int32_t q = 0; q < block.qubits; ++q) table.bits[q] = static_cast<int32_t>(block.bits[q]);
    table.sums = -1;
    for (int mode = 0; mode < 2; ++mode) {
      table.gradient[mode] = block.needs_gradient[mode];
      table.uncompute[mode] = block.needs_uncompute[mode];
    }
    if (const auto image = PermutationOf(program, block)) {
      table.kind = device::kPermutation;
      std::copy(image->begin(), image->end(), table.entry);
    } else if (block.per_example)
      AddProduct(program, block, &table);
    else
      AddSharedBlock(program, block, &table);
    blocks.push_back(table);
  }
  for (const PauliGroup& group : program.pauli_groups)
    for (size_t s = 0; s < group.z.size(); ++s)
      strings.push_back({group.flip, group.z[s], static_cast<int32_t>(group.ys[s]), 0});
}

void DeviceEngine::Tables::AddFactor(const Factor& factor) {
  device::FactorTable table = {};
  table.size = factor.size;
  table.spaces = factor.spaces;
  table.first_exponent = static_cast<int32_t>(exponents.size());
  table.exponents = static_cast<int32_t>(factor.exponents.size());
  table.first_half_turn = static_cast<int32_t>(half_turns.size());
  table.first_matrix = static_cast<int32_t>(factor_matrices.size() / 2);
  factors.push_back(table);
  exponents.insert(exponents.end(), factor.exponents.begin(), factor.exponents.end());
  half_turns.insert(half_turns.end(), factor.half_turns.begin(), factor.half_turns.end());
  for (const std::vector<Complex>* matrices : {&factor.projectors, &factor.generators})
    for (const Complex& entry : *matrices) {
      factor_matrices.push_back(entry.real());
      factor_matrices.push_back(entry.imag());
    }
}

void DeviceEngine::Tables::AddSharedBlock(const Program& program, const Block& block,
                                          device::BlockTable* table) {
  if (block.items.size() == 1) {
    table->matrix = static_cast<int32_t>(block.items[0]);
  } else {
    table->matrix = static_cast<int32_t>(program.sequences.size() + combined.size());
    combined.push_back(&block);
  }
  if (block.needs_gradient[1]) {
    table->sums = static_cast<int32_t>(summed.size());
    summed.push_back(&block);
  }
  if (block.qubits == 1) return;
  // Rows without an entry are those of the identity.
  int32_t rows = 0;
  for (int32_t entry = 0; entry < 16; ++entry)
    if ((block.entries | block.closure) >> entry & 1) rows |= 1 << entry / 4 | 1 << entry % 4;
  struct Half {
    int32_t rows[2], control_bit, control;
  };
  constexpr Half kHalves[] = {{{2, 3}, 0, 1}, {{0, 1}, 0, 0}, {{1, 3}, 1, 1}, {{0, 2}, 1, 0}};
  for (const Half& half : kHalves) {
    if (rows & ~(1 << half.rows[0] | 1 << half.rows[1])) continue;
    table->kind = device::kControlled;
    table->control = half.control;
    table->bits[0] = static_cast<int32_t>(block.bits[half.control_bit]);
    table->bits[1] = static_cast<int32_t>(block.bits[1 - half.control_bit]);
    for (int32_t r = 0; r < 2; ++r)
      for (int32_t j = 0; j < 2; ++j) table->entry[r * 2 + j] = half.rows[r] * 4 + half.rows[j];
    return;
  }
}

void DeviceEngine::Tables::AddProduct(const Program& program, const Block& block,
                                      device::BlockTable* table) {
  table->matrix = ~static_cast<int32_t>(products.size());
  device::ProductTable product = {};
  product.size = block.size();
  product.first_item = static_cast<int32_t>(items.size());
  product.items = static_cast<int32_t>(block.items.size());
  product.sums = -1;
  if (block.needs_gradient[1]) product.sums = table->sums = static_cast<int32_t>(product_sums++);
  for (int mode = 0; mode < 2; ++mode) product.gradient[mode] = block.needs_gradient[mode];
  bool needs_earlier[2] = {false, false};
  for (int64_t item : block.items) {
    device::ItemTable made = {static_cast<int32_t>(item), -1, -1, {}};
    std::copy_n(needs_earlier, 2, made.needs_earlier);
    if (item >= 0) {
      if (program.sequences[item].has_exponents) {
        needs_earlier[0] = needs_earlier[1] = true;
        if (product.sums >= 0) {
          made.sequence_sums = static_cast<int32_t>(summed_sequences.size());
          summed_sequences.push_back(item);
        }
      }
    } else {
      const std::vector<int64_t>& used = program.factors[~item].exponents;
      if (product.sums >= 0 && !used.empty())
        made.first_derivative = static_cast<int32_t>(derivatives.size());
      for (int64_t exponent : used) {
        needs_earlier[0] |= exponent >= 0;
        if (product.sums >= 0) derivatives.push_back(static_cast<int32_t>(exponent));
      }
      needs_earlier[1] = true;
    }
    items.push_back(made);
  }
  products.push_back(product);
}

device::ProgramTables DeviceEngine::Tables::View(const Program& program, int32_t real_bytes) const {
  device::ProgramTables view = {};
  view.qubits = program.qubits;
  view.real_bytes = real_bytes;
  view.shared = program.shared;
  view.per_example = program.per_example;
  view.readouts = program.readouts;
  const auto list = [](const auto& from, int64_t* count) {
    *count = static_cast<int64_t>(from.size());
    return from.data();
  };
  view.blocks = list(blocks, &view.block_count);
  view.matrix_count = static_cast<int64_t>(program.sequences.size() + combined.size());
  view.block_sums = static_cast<int64_t>(summed.size());
  view.products = list(products, &view.product_count);
  view.product_sums = product_sums;
  view.items = list(items, &view.item_count);
  view.sequence_sums = static_cast<int64_t>(summed_sequences.size());
  view.factors = list(factors, &view.factor_count);
  view.exponents = list(exponents, &view.exponent_count);
  view.half_turns = list(half_turns, &view.half_turn_count);
  view.factor_matrices = list(factor_matrices, &view.factor_reals);
  view.derivatives = list(derivatives, &view.derivative_count);
  view.strings = list(strings, &view.string_count);
  view.weights = program.weights.data();
  view.offsets = program.offsets.data();
  view.initial = program.initial.empty() ? nullptr : program.initial.data();
  return view;
}

DeviceEngine::DeviceEngine(const std::string& library, int32_t number, const Program& program,
                           int32_t real_bytes)
    : source_(FuseForDevice(program)),
      interface_(LoadLibrary(library)),
      tables_(std::make_unique<Tables>(source_)) {
  const device::ProgramTables view = tables_->View(source_, real_bytes);
  Run(interface_->create, number, &view, &program_);
}

DeviceEngine::~DeviceEngine() {
  if (program_) interface_->destroy(program_);
}

std::shared_ptr<const SharedMatrices> DeviceEngine::MatricesOf(const Batch& batch) {
  const std::vector<double> shared(batch.shared, batch.shared + source_.shared);
  const std::lock_guard<std::mutex> lock(matrices_mutex_);
  if (!last_matrices_ || last_shared_ != shared) {
    last_matrices_ = std::make_shared<const SharedMatrices>(source_, Exponents{shared.data()});
    last_shared_ = shared;
  }
  return last_matrices_;
}

// A call, and what it refers to.
struct DeviceEngine::PreparedCall {
  std::shared_ptr<const SharedMatrices> matrices;
  std::vector<double> packed;  // [matrices][kMatrixReals]
  device::Call call;
};

void DeviceEngine::Prepare(const Batch& batch, PreparedCall* prepared) {
  prepared->matrices = MatricesOf(batch);
  const SharedMatrices& matrices = *prepared->matrices;
  prepared->packed.assign((matrices.products.size() + tables_->combined.size()) * kMatrixReals,
                          0.0);
  double* to = prepared->packed.data();
  for (const std::vector<double>& matrix : matrices.products) {
    std::copy(matrix.begin(), matrix.end(), to);
    to += kMatrixReals;
  }
  std::vector<double> matrix, tangents;
  for (const Block* block : tables_->combined) {
    BlockMatrices(source_, *block, matrices, {batch.shared}, 1, &matrix, &tangents);
    std::copy(matrix.begin(), matrix.end(), to);
    to += kMatrixReals;
  }
  prepared->call = {batch.size, batch.shared, batch.per_example, prepared->packed.data()};
}

template <class Function>
void DeviceEngine::ComputeGradient(const Batch& batch, double* shared_gradients,
                                   double* per_example_gradients, const Function& run) {
  PreparedCall prepared;
  Prepare(batch, &prepared);
  Results results(*tables_);
  const device::GradientResults view = results.View(per_example_gradients);
  run(&prepared.call, &view);
  Complete(batch, *prepared.matrices, results, per_example_gradients != nullptr, shared_gradients);
}

void DeviceEngine::Expectation(const Batch& batch, void* values) {
  if (batch.size == 0) return;
  PreparedCall prepared;
  Prepare(batch, &prepared);
  const void* no_upstream = nullptr;
  const device::GradientResults* no_results = nullptr;
  Run(interface_->evaluate, program_, &prepared.call, values, no_upstream, no_results);
}

void DeviceEngine::Gradient(const Batch& batch, const void* upstream, double* shared_gradients,
                            double* per_example_gradients) {
  ValuesAndGradient(batch, upstream, nullptr, shared_gradients, per_example_gradients);
}

void DeviceEngine::ValuesAndGradient(const Batch& batch, const void* upstream, void* values,
                                     double* shared_gradients, double* per_example_gradients) {
  std::fill_n(shared_gradients, source_.shared, 0.0);
  if (batch.size == 0) return;
  ComputeGradient(batch, shared_gradients, per_example_gradients,
                  [&](const device::Call* call, const device::GradientResults* results) {
                    Run(interface_->evaluate, program_, call, values, upstream, results);
                  });
}

void DeviceEngine::State(const Batch& batch, const int64_t* order, void* states) {
  if (batch.size == 0) return;
  PreparedCall prepared;
  Prepare(batch, &prepared);
  Run(interface_->state, program_, &prepared.call, order, states);
}

void DeviceEngine::StateGradient(const Batch& batch, const int64_t* order, const void* states,
                                 const void* upstream, double* shared_gradients,
                                 double* per_example_gradients) {
  if (batch.size == 0) return;
  ComputeGradient(batch, shared_gradients, per_example_gradients,
                  [&](const device::Call* call, const device::GradientResults* results) {
                    Run(interface_->state_gradient, program_, call, order, states, upstream,
                        results);
                  });
}

void DeviceEngine::Complete(const Batch& batch, const SharedMatrices& matrices,
                            const Results& results, bool want_per_example,
                            double* shared_gradients) const {
  GradientSums sums(source_);
  for (size_t i = 0; i < tables_->summed.size(); ++i)
    if (tables_->summed[i]->needs_gradient[want_per_example])
      BlockGradients(source_, *tables_->summed[i], matrices, {batch.shared}, 1, want_per_example,
                     &results.block_sums[i * kMatrixReals], nullptr, &sums.sequences,
                     sums.shared.data(), nullptr);
  for (size_t i = 0; i < tables_->summed_sequences.size(); ++i) {
    std::vector<double>& to = sums.sequences[tables_->summed_sequences[i]];
    for (size_t j = 0; j < to.size(); ++j) to[j] += results.sequence_sums[i * kMatrixReals + j];
  }
  for (size_t i = 0; i < tables_->derivatives.size(); ++i)
    if (tables_->derivatives[i] >= 0)
      sums.shared[tables_->derivatives[i]] += results.shared_derivatives[i];
  for (int64_t e = 0; e < source_.shared; ++e) shared_gradients[e] += sums.shared[e];
  ParameterGradients(source_, matrices, sums.sequences, false, shared_gradients);
}

}  // namespace qfleet
