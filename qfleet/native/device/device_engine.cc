#include "device/device_engine.h"

#include <algorithm>
#include <mutex>

#include "device/device_fusion.h"
#include "device/device_tables.h"
#include "program/batch.h"

namespace qfleet {
namespace {

using device::kMatrixReals;

}  // namespace

// The results of a gradient, before the host completes them.
struct DeviceEngine::Results {
  Results(const Tables& tables, size_t reals)  // of a number: 2 with tangents
      : block_sums(tables.summed.size() * kMatrixReals * reals),
        sequence_sums(tables.summed_sequences.size() * kMatrixReals * reals),
        shared_derivatives(tables.derivatives.size() * reals) {}

  device::GradientResults View(double* per_example_gradients, void* initial_gradients) {
    return {block_sums.data(), sequence_sums.data(), shared_derivatives.data(),
            per_example_gradients, initial_gradients};
  }
  std::vector<double> block_sums, sequence_sums, shared_derivatives;
};

namespace {

// Numbers and their tangents in turns, as a program with tangents has them. Null tangents are 0.
template <class T>
std::vector<T> Pairs(const T* values, const T* tangents, int64_t count) {
  std::vector<T> pairs(2 * count);
  for (int64_t i = 0; i < count; ++i) {
    pairs[2 * i] = values[i];
    if (tangents) pairs[2 * i + 1] = tangents[i];
  }
  return pairs;
}

// Writes the values or the tangents of pairs.
template <class T>
void Unpair(const std::vector<T>& pairs, bool tangents, T* to) {
  for (size_t i = 0; i < pairs.size() / 2; ++i) to[i] = pairs[2 * i + tangents];
}

}  // namespace

DeviceEngine::DeviceEngine(const std::string& library, int32_t number, const Program& program,
                           int32_t real_bytes)
    : source_(FuseForDevice(program)),
      number_(number),
      real_bytes_(real_bytes),
      interface_(LoadDeviceLibrary(library)),
      tables_(std::make_unique<Tables>(source_)) {
  const device::ProgramTables view = tables_->View(source_, real_bytes, false);
  const device::Program* no_lender = nullptr;
  RunOnDevice(interface_->create, number, &view, no_lender, &program_);
}

DeviceEngine::~DeviceEngine() {
  if (DevicesAreOfParent()) return;
  for (device::Program* program : {program_, program_with_tangents_})
    if (program) interface_->destroy(program);
}

std::shared_ptr<const SharedMatrices> DeviceEngine::MatricesOf(const Batch& batch) {
  if (batch.shared_tangents)
    return std::make_shared<const SharedMatrices>(source_,
                                                  Exponents{batch.shared, batch.shared_tangents});
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
  std::vector<double> packed, packed_tangents;  // [matrices][kMatrixReals]
  device::Call call;
};

void DeviceEngine::Prepare(const Batch& batch, PreparedCall* prepared) {
  RequireOwnDevices();  // before a lock that another thread may have held
  prepared->matrices = MatricesOf(batch);
  const SharedMatrices& matrices = *prepared->matrices;
  const size_t count = source_.sequences.size() + tables_->combined.size();
  prepared->packed.assign(count * kMatrixReals, 0.0);
  prepared->packed_tangents.assign(batch.shared_tangents ? count * kMatrixReals : 0, 0.0);
  size_t at = 0;
  const auto pack = [&](int32_t size, const double* matrix, const double* tangent) {
    std::copy_n(matrix, 2 * size * size, &prepared->packed[at]);
    if (tangent) std::copy_n(tangent, 2 * size * size, &prepared->packed_tangents[at]);
    at += kMatrixReals;
  };
  for (size_t s = 0; s < source_.sequences.size(); ++s)
    pack(source_.sequences[s].size, matrices.product(s), matrices.product_tangent(s));
  std::vector<double> matrix, tangent;
  for (const Block* block : tables_->combined) {
    BlockMatrices(source_, *block, matrices, {batch.shared, batch.shared_tangents}, 1, &matrix,
                  &tangent);
    pack(block->size(), matrix.data(), tangent.empty() ? nullptr : tangent.data());
  }
  prepared->call = {batch.size,           batch.shared,
                    batch.per_example,    prepared->packed.data(),
                    batch.initial_states, batch.initial_order};
}

template <class Function>
void DeviceEngine::ComputeGradient(const Batch& batch, double* shared_gradients,
                                   double* per_example_gradients, const Function& run) {
  PreparedCall prepared;
  Prepare(batch, &prepared);
  Results results(*tables_, 1);
  const device::GradientResults view = results.View(per_example_gradients, batch.initial_gradients);
  run(&prepared.call, &view);
  Complete(batch, *prepared.matrices, results, nullptr, per_example_gradients != nullptr,
           shared_gradients);
}

void DeviceEngine::Expectation(const Batch& batch, void* values) {
  if (batch.size == 0) return;
  PreparedCall prepared;
  Prepare(batch, &prepared);
  const void* no_upstream = nullptr;
  const device::GradientResults* no_results = nullptr;
  RunOnDevice(interface_->evaluate, program_, &prepared.call, values, no_upstream, no_results);
}

void DeviceEngine::ValuesAndGradient(const Batch& batch, const void* upstream, void* values,
                                     double* shared_gradients, double* per_example_gradients) {
  std::fill_n(shared_gradients, source_.shared, 0.0);
  if (batch.size == 0) return;
  ComputeGradient(batch, shared_gradients, per_example_gradients,
                  [&](const device::Call* call, const device::GradientResults* results) {
                    RunOnDevice(interface_->evaluate, program_, call, values, upstream, results);
                  });
}

device::Program* DeviceEngine::ProgramWithTangents() {
  const std::lock_guard<std::mutex> lock(tangents_mutex_);
  if (!program_with_tangents_) {
    const device::ProgramTables view = tables_->View(source_, real_bytes_, true);
    RunOnDevice(interface_->create, number_, &view, program_, &program_with_tangents_);
  }
  return program_with_tangents_;
}

void DeviceEngine::HessianVectorProduct(const Batch& batch, const void* upstream,
                                        void* value_tangents, double* shared_results,
                                        double* per_example_results) {
  if (batch.size == 0) return;
  const auto multiply = [&](auto real) {
    using T = decltype(real);
    MultiplyHessian(batch, static_cast<const T*>(upstream), static_cast<T*>(value_tangents),
                    shared_results, per_example_results);
  };
  if (real_bytes_ == sizeof(float))
    multiply(float{});
  else
    multiply(double{});
}

template <class T>
void DeviceEngine::MultiplyHessian(Batch batch, const T* upstream, T* value_tangents,
                                   double* shared_results, double* per_example_results) {
  const std::vector<double> zeros(source_.shared + 1);
  if (!batch.shared_tangents) batch.shared_tangents = zeros.data();
  PreparedCall prepared;
  Prepare(batch, &prepared);
  const int64_t value_count = value_tangents ? batch.size * source_.readouts : 0;
  const int64_t exponents = batch.size * source_.per_example;
  const auto matrices = Pairs(prepared.packed.data(), prepared.packed_tangents.data(),
                              static_cast<int64_t>(prepared.packed.size()));
  const auto shared = Pairs(batch.shared, batch.shared_tangents, source_.shared);
  const auto per_example = Pairs(batch.per_example, batch.per_example_tangents, exponents);
  const auto upstream_pairs =
      Pairs<T>(upstream, nullptr, batch.size * source_.readouts);  // which is constant
  const auto states = Pairs<T>(static_cast<const T*>(batch.initial_states), nullptr,
                               batch.initial_states ? (2 * batch.size) << source_.qubits : 0);
  prepared.call = {batch.size,      shared.data(), per_example.data(),
                   matrices.data(), states.data(), batch.initial_order};

  std::vector<T> value_pairs(2 * value_count);
  std::vector<double> example_pairs(per_example_results ? 2 * exponents : 0);
  Results pairs(*tables_, 2), values(*tables_, 1), tangents(*tables_, 1);
  const device::GradientResults view =
      pairs.View(per_example_results ? example_pairs.data() : nullptr, nullptr);
  RunOnDevice(interface_->evaluate, ProgramWithTangents(), &prepared.call,
              value_tangents ? static_cast<void*>(value_pairs.data()) : nullptr,
              upstream_pairs.data(), &view);
  Unpair(value_pairs, true, value_tangents);
  Unpair(example_pairs, true, per_example_results);
  for (bool is_tangent : {false, true}) {
    Results& to = is_tangent ? tangents : values;
    Unpair(pairs.block_sums, is_tangent, to.block_sums.data());
    Unpair(pairs.sequence_sums, is_tangent, to.sequence_sums.data());
    Unpair(pairs.shared_derivatives, is_tangent, to.shared_derivatives.data());
  }
  Complete(batch, *prepared.matrices, values, &tangents, per_example_results != nullptr,
           shared_results);
}

void DeviceEngine::State(const Batch& batch, const int64_t* order, void* states) {
  if (batch.size == 0) return;
  PreparedCall prepared;
  Prepare(batch, &prepared);
  RunOnDevice(interface_->state, program_, &prepared.call, order, states);
}

void DeviceEngine::StateGradient(const Batch& batch, const int64_t* order, const void* states,
                                 const void* upstream, double* shared_gradients,
                                 double* per_example_gradients) {
  if (batch.size == 0) return;
  ComputeGradient(batch, shared_gradients, per_example_gradients,
                  [&](const device::Call* call, const device::GradientResults* results) {
                    RunOnDevice(interface_->state_gradient, program_, call, order, states, upstream,
                                results);
                  });
}

void DeviceEngine::Sample(const Batch& batch, const int64_t* order, int64_t shots, uint64_t seed,
                          int64_t* samples, double* norms) {
  PreparedCall prepared;
  Prepare(batch, &prepared);
  RunOnDevice(interface_->sample, program_, &prepared.call, order, shots, seed, samples, norms);
}

void DeviceEngine::Complete(const Batch& batch, const SharedMatrices& matrices,
                            const Results& results, const Results* tangents, bool want_per_example,
                            double* shared_gradients) const {
  GradientSums sums(source_);
  if (tangents)
    for (std::vector<double>& of_sequence : sums.sequences)
      of_sequence.resize(2 * of_sequence.size());
  for (size_t i = 0; i < tables_->summed.size(); ++i)
    if (tables_->summed[i]->needs_gradient[want_per_example])
      BlockGradients(source_, *tables_->summed[i], matrices, {batch.shared, batch.shared_tangents},
                     1, want_per_example, &results.block_sums[i * kMatrixReals],
                     tangents ? &tangents->block_sums[i * kMatrixReals] : nullptr, &sums.sequences,
                     sums.shared.data(), nullptr);
  for (size_t i = 0; i < tables_->summed_sequences.size(); ++i) {
    const int64_t sequence = tables_->summed_sequences[i];
    const int64_t reals = 2 * source_.sequences[sequence].size * source_.sequences[sequence].size;
    double* to = sums.sequences[sequence].data();
    for (int64_t j = 0; j < reals; ++j) {
      to[j] += results.sequence_sums[i * kMatrixReals + j];
      if (tangents) to[reals + j] += tangents->sequence_sums[i * kMatrixReals + j];
    }
  }
  const Results& differentiated = tangents ? *tangents : results;
  for (size_t i = 0; i < tables_->derivatives.size(); ++i)
    if (tables_->derivatives[i] >= 0)
      sums.shared[tables_->derivatives[i]] += differentiated.shared_derivatives[i];
  for (int64_t e = 0; e < source_.shared; ++e) shared_gradients[e] += sums.shared[e];
  ParameterGradients(source_, matrices, sums.sequences, tangents != nullptr, shared_gradients);
}

}  // namespace qfleet
