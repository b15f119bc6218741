#include "noisy/device_density.h"

#include <algorithm>

#include "noisy/density_matrices.h"
#include "noisy/finite_shots.h"

namespace qfleet {
namespace {

using device::kDensityReals;

constexpr int64_t kPartExamples = 64;
constexpr int64_t kProductNanoseconds = 10000;  // of a block's matrices of one example

template <class T>
void Pack(const std::vector<double>& matrix, T* to) {
  std::transform(matrix.begin(), matrix.end(), to, [](double x) { return static_cast<T>(x); });
}

}  // namespace

// Some examples of a call, and the matrices of all blocks.
template <class T>
struct DeviceDensityEngine<T>::Part {
  Part(const DeviceDensityEngine& engine, const Batch& batch, const SharedMatrices& matrices,
       int64_t first_, int64_t count_)
      : first(first_), count(count_), exponents{batch.shared} {
    const DensityProgram& program = *engine.program_;
    exponents.per_example = batch.per_example + first * program.per_example;
    exponents.present = count;
    products.resize(program.blocks.size());
    shared.resize(engine.shared_ * kDensityReals);
    own.resize(count * engine.own_ * kDensityReals);
    batch.parallel(
        static_cast<int64_t>(products.size()), kProductNanoseconds * count, [&](int64_t b) {
          const DensityBlock& block = program.blocks[b];
          products[b] =
              ProductsOf(program, block, matrices, exponents, block.per_example ? count : 1);
          if (!block.per_example)
            return Pack(products[b][0].products.back(), &shared[engine.slots_[b] * kDensityReals]);
          for (int64_t s = 0; s < count; ++s)
            Pack(products[b][s].products.back(),
                 &own[(s * engine.own_ + engine.slots_[b]) * kDensityReals]);
        });
  }
  device::DensityCall View() const { return {count, shared.data(), own.data()}; }

  int64_t first, count;
  Exponents exponents;
  std::vector<std::vector<BlockProducts>> products;
  std::vector<T> shared, own;
};

template <class T>
DeviceDensityEngine<T>::DeviceDensityEngine(const std::string& library, int32_t number,
                                            std::shared_ptr<const DensityProgram> program)
    : program_(std::move(program)), interface_(LoadDeviceLibrary(library)) {
  std::vector<device::DensityBlockTable> blocks;
  for (const DensityBlock& block : program_->blocks) {
    slots_.push_back(block.per_example ? own_++ : shared_++);
    const int32_t slot = static_cast<int32_t>(slots_.back());
    device::DensityBlockTable table = {};
    table.size = block.size();
    for (int32_t q = 0; q < block.qubits; ++q)
      table.digits[q] = static_cast<int32_t>(block.digits[q]);
    table.live = static_cast<int32_t>(block.live);
    table.matrix = block.per_example ? ~slot : slot;
    std::copy_n(block.needs_gradient, 2, table.gradient);
    blocks.push_back(table);
  }
  device::DensityTables tables = {};
  tables.qubits = program_->qubits;
  tables.real_bytes = sizeof(T);
  tables.shared = shared_;
  tables.per_example = own_;
  tables.block_count = static_cast<int64_t>(blocks.size());
  tables.blocks = blocks.data();
  tables.string_count = static_cast<int64_t>(program_->strings.size());
  tables.strings = program_->strings.data();
  RunOnDevice(interface_->create_density, number, &tables, &on_device_);
}

template <class T>
DeviceDensityEngine<T>::~DeviceDensityEngine() {
  if (on_device_ && !DevicesAreOfParent()) interface_->destroy_density(on_device_);
}

template <class T>
int64_t DeviceDensityEngine<T>::WorkspaceBytes(const Batch& batch) const {
  int64_t entries = 0;  // of the matrices of items, their products and their derivatives
  for (const DensityBlock& block : program_->blocks)
    entries += (2 * static_cast<int64_t>(block.items.size()) + 2) * kDensityReals *
               (block.per_example ? std::min(batch.size, kPartExamples) : 1);
  return entries * static_cast<int64_t>(sizeof(double));
}

template <class T>
template <class Visit>
void DeviceDensityEngine<T>::ForEachPart(const Batch& batch, const SharedMatrices& matrices,
                                         const Visit& visit) const {
  for (int64_t first = 0; first < batch.size; first += kPartExamples)
    visit(Part(*this, batch, matrices, first, std::min(kPartExamples, batch.size - first)));
}

template <class T>
void DeviceDensityEngine<T>::Expectation(const Batch& batch, T* values) const {
  const int64_t strings = static_cast<int64_t>(program_->strings.size());
  const SharedMatrices matrices(*program_, Exponents{batch.shared});
  ForEachPart(batch, matrices, [&](const Part& part) {
    const device::DensityCall call = part.View();
    const device::DensityGradient* no_gradient = nullptr;
    std::vector<double> means(part.count * strings);
    RunOnDevice(interface_->evaluate_density, on_device_, &call, means.data(), no_gradient);
    for (int64_t s = 0; s < part.count; ++s) {
      Exponents exponents = part.exponents;
      exponents.per_example += s * program_->per_example;
      const auto from = means.begin() + s * strings;
      const std::vector<double> readouts = Readouts(*program_, exponents, {from, from + strings});
      std::copy(readouts.begin(), readouts.end(), values + (part.first + s) * program_->readouts);
    }
  });
}

template <class T>
void DeviceDensityEngine<T>::Gradient(const Batch& batch, const T* upstream,
                                      double* shared_gradients,
                                      double* per_example_gradients) const {
  const DensityProgram& program = *program_;
  const bool by_inputs = per_example_gradients != nullptr;
  if (program.first_needed[by_inputs] == program.blocks.size()) return;
  const int64_t strings = static_cast<int64_t>(program.strings.size());
  const SharedMatrices matrices(program, Exponents{batch.shared});
  GradientSums sums(program);
  ForEachPart(batch, matrices, [&](const Part& part) {
    std::vector<double> means(part.count * strings), weights;
    for (int64_t s = 0; s < part.count; ++s) {
      const T* row = upstream + (part.first + s) * program.readouts;
      const std::vector<double> one = StringWeights(program, {row, row + program.readouts});
      weights.insert(weights.end(), one.begin(), one.end());
    }
    std::vector<double> shared(part.shared.size()), own(part.own.size());
    const device::DensityCall call = part.View();
    const device::DensityGradient gradient = {weights.data(), by_inputs, shared.data(), own.data()};
    RunOnDevice(interface_->evaluate_density, on_device_, &call, means.data(), &gradient);
    for (size_t b = 0; b < program.blocks.size(); ++b) {
      const DensityBlock& block = program.blocks[b];
      if (!block.needs_gradient[by_inputs]) continue;
      std::vector<std::vector<double>> derivatives;
      for (int64_t s = 0; s < (block.per_example ? part.count : 1); ++s) {
        const auto from = block.per_example ? own.begin() + (s * own_ + slots_[b]) * kDensityReals
                                            : shared.begin() + slots_[b] * kDensityReals;
        derivatives.emplace_back(from, from + block.size() * block.size());
      }
      double* const to = by_inputs && block.per_example
                             ? per_example_gradients + part.first * program.per_example
                             : nullptr;
      DensityBlockGradients(program, block, matrices, part.exponents, part.products[b], by_inputs,
                            &derivatives, &sums.sequences, sums.shared.data(), to);
    }
  });
  for (int64_t e = 0; e < program.shared; ++e) shared_gradients[e] += sums.shared[e];
  ParameterGradients(program, matrices, sums.sequences, false, shared_gradients);
}

template class DeviceDensityEngine<float>;
template class DeviceDensityEngine<double>;

}  // namespace qfleet
