// qfleet.h: expectation values, states, samples and their derivatives.
#include <algorithm>
#include <vector>

#include "capi/capi_internal.h"
#include "capi/evaluation.h"
#include "cpu/aligned_array.h"
#include "state/sampling.h"

namespace qfleet {
namespace {

// States are sampled in groups of examples of at most this size, or one at a time.
constexpr int64_t kSampledBytes = int64_t{64} << 20;
constexpr int64_t kMaxMeasuredTrajectories = int64_t{1} << 30;

template <class T>
Evaluation<T> MakeEvaluation(StateVectorEngine<T>* engine, const Program& program,
                             const qfleet_batch* batch) {
  return Evaluation<T>(engine, program, MakeBatch<T>(program, batch));
}

// The same choices for an engine that keeps no states.
template <class T>
struct StatelessEvaluation {
  int64_t subspace_states() const { return 0; }
  int64_t KeptReals() const { return 0; }
  int64_t WorkspaceBytes() const { return engine->WorkspaceBytes(batch); }
  void Expectation(T* values, T*, int64_t) {
    if (program.readouts) engine->Expectation(batch, values);
  }
  void ValuesAndGradient(const T* upstream, T* values, double* shared_gradients,
                         double* per_example_gradients) {
    Expectation(values, nullptr, 0);
    Gradient(upstream, nullptr, 0, false, shared_gradients, per_example_gradients);
  }
  void Gradient(const T* upstream, T*, int64_t kept, bool, double* shared_gradients,
                double* per_example_gradients) {
    if (kept) throw std::invalid_argument("kept does not hold the states of this batch");
    std::fill_n(shared_gradients, program.shared, 0.0);
    if (per_example_gradients)
      std::fill_n(per_example_gradients, batch.size * program.per_example, 0.0);
    if (program.readouts)
      engine->Gradient(batch, upstream, shared_gradients, per_example_gradients);
  }

  const StatelessEngine<T>* engine;
  const ProgramSizes& program;
  Batch batch;
};

template <class T>
StatelessEvaluation<T> MakeEvaluation(const StatelessEngine<T>* engine, const ProgramSizes& program,
                                      const qfleet_batch* batch) {
  return {engine, program, MakeBatch<T>(program, batch)};
}

// Checks the buffers of gradients by shared and by per-example exponents.
void CheckGradients(const ProgramSizes& program, const qfleet_batch& batch,
                    const double* shared_gradients, int64_t shared_count,
                    const double* per_example_gradients, int64_t per_example_count) {
  CheckBuffer("shared_gradients", shared_gradients, shared_count, program.shared, sizeof(double));
  CheckOptional("per_example_gradients", per_example_gradients, per_example_count,
                Product(batch.size, program.per_example));
  if (per_example_gradients && batch.allow_subspace)
    throw std::invalid_argument(
        "per_example_gradients must be null if batch.allow_subspace is set");
}

template <class Evaluation>
void RequireWorkspace(const Evaluation& evaluation, const ProgramSizes& program) {
  RequireMemory(evaluation.WorkspaceBytes(), program.qubits);
}

// Both need twice the memory of a gradient: for tensors or states, and for tangents.
template <class T>
void HessianVectorProduct(StateVectorEngine<T>* engine, const Program& program, Batch batch,
                          const T* upstream, T* value_tangents, double* shared_results,
                          double* per_example_results) {
  batch.memory_limit = 0;
  batch.allow_subspace = false;
  const Evaluation<T> evaluation(engine, program, batch);
  RequireMemory(Product(2, evaluation.WorkspaceBytes()), program.qubits);
  engine->HessianVectorProduct(batch, upstream, per_example_results != nullptr, value_tangents,
                               shared_results, per_example_results);
}
template <class T>
void HessianVectorProduct(StatelessEngine<T>* engine, const ProgramSizes& program,
                          const Batch& batch, const T* upstream, T* value_tangents,
                          double* shared_results, double* per_example_results) {
  RequireMemory(Product(2, engine->WorkspaceBytes(batch)), program.qubits);
  engine->HessianVectorProduct(batch, upstream, value_tangents, shared_results,
                               per_example_results);
}

template <class T>
void SampleBatch(StateVectorEngine<T>* engine, const Program& program, Batch batch,
                 const int64_t* order, int64_t shots, uint64_t seed, int64_t* samples) {
  if (DeviceEngine* device = engine->device()) {
    std::vector<double> norms(batch.size);
    device->Sample(batch, order, shots, seed, samples, norms.data());
    for (double norm : norms) RequireNorm(norm);
    return;
  }
  const int64_t amplitudes = int64_t{1} << program.qubits, reals = 2 * amplitudes;
  const int64_t size = batch.size,
                at_once = std::min(
                    size, std::max<int64_t>(
                              1, kSampledBytes / (reals * static_cast<int64_t>(sizeof(T)))));
  RequireMemory(at_once * reals * static_cast<int64_t>(sizeof(T)), program.qubits);
  // Rounding depends on the layout of the states, which must not depend on the number of threads.
  batch.max_lane_qubits = Log2(kMaxLanes);
  std::vector<T> states(at_once * reals);
  const double* per_example = batch.per_example;
  const T* initial_states = static_cast<const T*>(batch.initial_states);
  for (int64_t first = 0; first < size; first += at_once) {
    batch.size = std::min(at_once, size - first);
    batch.per_example = per_example + first * program.per_example;
    if (initial_states) batch.initial_states = initial_states + first * reals;
    engine->State(batch, order, states.data());
    for (int64_t b = 0; b < batch.size; ++b)
      SampleState(states.data() + b * reals, amplitudes, seed, first + b, shots, batch.parallel,
                  samples + (first + b) * shots);
  }
}

}  // namespace
}  // namespace qfleet

using namespace qfleet;  // NOLINT: the functions of this file are in the global namespace

qfleet_status qfleet_plan_batch(qfleet_program program, const qfleet_batch* batch,
                                qfleet_plan* plan) {
  return WithEngine(__func__, program, [&](auto* engine, const auto& loaded) {
    if (!plan) throw std::invalid_argument("plan must not be null");
    const auto evaluation = MakeEvaluation(engine, loaded, batch);
    plan->subspace_states = evaluation.subspace_states();
    plan->kept_reals = evaluation.KeptReals();
    plan->workspace_bytes = evaluation.WorkspaceBytes();
  });
}

qfleet_status qfleet_expectation(qfleet_program program, const qfleet_batch* batch, void* values,
                                 int64_t value_count, void* kept, int64_t kept_count) {
  return WithEngine(__func__, program, [&](auto* engine, const auto& loaded) {
    using T = RealOf<decltype(engine)>;
    auto evaluation = MakeEvaluation(engine, loaded, batch);
    T* out = Checked<T>("values", values, value_count, Product(batch->size, loaded.readouts));
    T* states = Checked<T>("kept", kept, kept_count, kept_count ? evaluation.KeptReals() : 0);
    RequireWorkspace(evaluation, loaded);
    evaluation.Expectation(out, states, kept_count);
  });
}

qfleet_status qfleet_expectation_gradient(qfleet_program program, const qfleet_batch* batch,
                                          const void* upstream, int64_t upstream_count, void* kept,
                                          int64_t kept_count, int32_t kept_is_mutable,
                                          double* shared_gradients, int64_t shared_gradient_count,
                                          double* per_example_gradients,
                                          int64_t per_example_gradient_count) {
  return WithEngine(__func__, program, [&](auto* engine, const auto& loaded) {
    using T = RealOf<decltype(engine)>;
    auto evaluation = MakeEvaluation(engine, loaded, batch);
    const T* in =
        Checked<T>("upstream", upstream, upstream_count, Product(batch->size, loaded.readouts));
    T* states = Checked<T>("kept", kept, kept_count, std::max<int64_t>(kept_count, 0));
    CheckGradients(loaded, *batch, shared_gradients, shared_gradient_count, per_example_gradients,
                   per_example_gradient_count);
    RequireWorkspace(evaluation, loaded);
    evaluation.Gradient(in, states, kept_count, kept_is_mutable != 0, shared_gradients,
                        per_example_gradients);
  });
}

qfleet_status qfleet_value_and_gradient(qfleet_program program, const qfleet_batch* batch,
                                        const void* upstream, int64_t upstream_count, void* values,
                                        int64_t value_count, double* shared_gradients,
                                        int64_t shared_gradient_count,
                                        double* per_example_gradients,
                                        int64_t per_example_gradient_count) {
  return WithEngine(__func__, program, [&](auto* engine, const auto& loaded) {
    using T = RealOf<decltype(engine)>;
    auto evaluation = MakeEvaluation(engine, loaded, batch);
    const int64_t count = Product(batch->size, loaded.readouts);
    const T* in = Checked<T>("upstream", upstream, upstream_count, count);
    T* out = Checked<T>("values", values, value_count, count);
    CheckGradients(loaded, *batch, shared_gradients, shared_gradient_count, per_example_gradients,
                   per_example_gradient_count);
    RequireWorkspace(evaluation, loaded);
    evaluation.ValuesAndGradient(in, out, shared_gradients, per_example_gradients);
  });
}

qfleet_status qfleet_expectation_hvp(qfleet_program program, const qfleet_batch* batch,
                                     const double* shared_tangents, int64_t shared_tangent_count,
                                     const double* per_example_tangents,
                                     int64_t per_example_tangent_count, const void* upstream,
                                     int64_t upstream_count, void* value_tangents,
                                     int64_t value_tangent_count, double* shared_results,
                                     int64_t shared_result_count, double* per_example_results,
                                     int64_t per_example_result_count) {
  return WithEngine(__func__, program, [&](auto* engine, const auto& loaded) {
    using T = RealOf<decltype(engine)>;
    Batch checked = MakeBatch<T>(loaded, batch);
    const int64_t values = Product(checked.size, loaded.readouts);
    const int64_t exponents = Product(checked.size, loaded.per_example);
    CheckBuffer("shared_tangents", shared_tangents, shared_tangent_count, loaded.shared,
                sizeof(double));
    CheckOptional("per_example_tangents", per_example_tangents, per_example_tangent_count,
                  exponents);
    const T* in = Checked<T>("upstream", upstream, upstream_count, values);
    CheckBuffer("value_tangents", value_tangents, value_tangent_count, value_tangents ? values : 0,
                sizeof(T));
    CheckBuffer("shared_results", shared_results, shared_result_count, loaded.shared,
                sizeof(double));
    CheckOptional("per_example_results", per_example_results, per_example_result_count, exponents);
    std::fill_n(shared_results, loaded.shared, 0.0);
    if (per_example_results) std::fill_n(per_example_results, exponents, 0.0);
    if (loaded.readouts == 0) return;  // then no buffer bounds the number of examples
    checked.shared_tangents = shared_tangents;
    checked.per_example_tangents = per_example_tangents;
    HessianVectorProduct(engine, loaded, checked, in, static_cast<T*>(value_tangents),
                         shared_results, per_example_results);
  });
}

qfleet_status qfleet_state(qfleet_program program, const qfleet_batch* batch, const int64_t* order,
                           int64_t order_count, void* states, int64_t state_count) {
  return WithStateEngine(__func__, program, [&](auto* engine, const Program& loaded) {
    using T = RealOf<decltype(engine)>;
    const Batch checked = MakeBatch<T>(loaded, batch);
    CheckedOrder("order", loaded, order, order_count);
    T* out = Checked<T>("states", states, state_count, StateReals(loaded, checked.size));
    engine->State(checked, order, out);
  });
}

qfleet_status qfleet_state_gradient(qfleet_program program, const qfleet_batch* batch,
                                    const int64_t* order, int64_t order_count, const void* states,
                                    int64_t state_count, const void* upstream,
                                    int64_t upstream_count, double* shared_gradients,
                                    int64_t shared_gradient_count, double* per_example_gradients,
                                    int64_t per_example_gradient_count) {
  return WithStateEngine(__func__, program, [&](auto* engine, const Program& loaded) {
    using T = RealOf<decltype(engine)>;
    const Batch checked = MakeBatch<T>(loaded, batch);
    CheckedOrder("order", loaded, order, order_count);
    const int64_t reals = StateReals(loaded, checked.size);
    const T* from = Checked<T>("states", states, state_count, reals);
    const T* in = Checked<T>("upstream", upstream, upstream_count, reals);
    const int64_t exponents = Product(checked.size, loaded.per_example);
    CheckBuffer("shared_gradients", shared_gradients, shared_gradient_count, loaded.shared,
                sizeof(double));
    CheckOptional("per_example_gradients", per_example_gradients, per_example_gradient_count,
                  exponents);
    std::fill_n(shared_gradients, loaded.shared, 0.0);
    if (per_example_gradients) std::fill_n(per_example_gradients, exponents, 0.0);
    engine->StateGradient(checked, order, from, in, per_example_gradients != nullptr,
                          shared_gradients, per_example_gradients);
  });
}

qfleet_status qfleet_sample(qfleet_program program, const qfleet_batch* batch, const int64_t* order,
                            int64_t order_count, int64_t shots, uint64_t seed, int64_t* samples,
                            int64_t sample_count) {
  return WithStateEngine(__func__, program, [&](auto* engine, const Program& loaded) {
    using T = RealOf<decltype(engine)>;
    const Batch checked = MakeBatch<T>(loaded, batch);
    CheckedOrder("order", loaded, order, order_count);
    if (shots < 0) throw std::invalid_argument("shots must not be negative");
    CheckBuffer("samples", samples, sample_count, Product(checked.size, shots), sizeof(int64_t));
    if (sample_count == 0) return;
    SampleBatch<T>(engine, loaded, checked, order, shots, seed, samples);
  });
}

qfleet_status qfleet_measure(qfleet_program program, const qfleet_batch* batch,
                             const int64_t* order, int64_t order_count, int64_t trajectories,
                             uint64_t seed, uint8_t* records, int64_t record_count,
                             int64_t* samples, int64_t sample_count, void* states,
                             int64_t state_count) {
  return WithEngine(__func__, program, [&](auto* engine, const auto& loaded) {
    using T = RealOf<decltype(engine)>;
    if constexpr (kHasStates<std::remove_pointer_t<decltype(engine)>>) {
      throw std::invalid_argument("only programs of trajectories have measurements");
    } else {
      const Batch checked = MakeBatch<T>(loaded, batch);
      CheckedOrder("order", loaded, order, order_count);
      if (trajectories < 0 || trajectories > kMaxMeasuredTrajectories)
        throw std::invalid_argument("trajectories must be 0 to 2**30");
      const int64_t count = Product(checked.size, trajectories);
      CheckBuffer("records", records, record_count, Product(count, loaded.records), 1);
      CheckOptional("samples", samples, sample_count, count, sizeof(int64_t));
      Measured<T> results = {records, samples, nullptr};
      if (states)
        results.states =
            Checked<T>("states", states, state_count, Product(count, StateReals(loaded, 1)));
      RequireMemory(engine->MeasurementBytes(checked, trajectories), loaded.qubits);
      engine->Measure(checked, order, trajectories, seed, results);
    }
  });
}
