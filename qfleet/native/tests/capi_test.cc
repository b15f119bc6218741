// The C interface compared with the reference simulator, and its checks of arguments.
#include <functional>
#include <limits>

#include "../qfleet.h"
#include "circuit_case.h"
#include "tests.h"

namespace qfleet {
namespace tests {
namespace {

constexpr int64_t kMemoryLimit = int64_t{1} << 30;

// A program that is destroyed with this object.
class OwnedProgram {
 public:
  OwnedProgram(const Circuit& circuit, int32_t real_bytes) {
    const std::string bytes = circuit.Serialize();
    CHECK(qfleet_program_create(bytes.data(), bytes.size(), real_bytes, &handle_) == QFLEET_OK,
          qfleet_last_error());
  }
  OwnedProgram(const OwnedProgram&) = delete;
  ~OwnedProgram() { qfleet_program_destroy(handle_); }
  qfleet_program handle() const { return handle_; }

 private:
  qfleet_program handle_ = 0;
};

// Runs loops on new threads, as another library's pool would.
void RunOnNewThreads(void* context, int64_t count, int64_t cost, qfleet_work work, void* argument) {
  RunOnThreads (*static_cast<int64_t*>(context))(count, cost,
                                                 [&](int64_t i) { work(argument, i); });
}

// The arguments of calls for the first examples of a case.
template <class T>
struct Arguments {
  Arguments(const CircuitCase& test_case, int64_t size)
      : readouts(test_case.circuit.offsets.size()),
        reals(size * (int64_t{2} << test_case.circuit.qubits)),
        shared(test_case.shared),
        per_example(Rows(test_case, size, &Example::per_example)),
        upstream(Rows(test_case, size, &Example::upstream)),
        expected(Rows(test_case, size, &Example::values)),
        values(size * readouts),
        shared_gradients(shared.size()),
        per_example_gradients(per_example.size()) {
    batch = {shared.data(),
             static_cast<int64_t>(shared.size()),
             per_example.data(),
             static_cast<int64_t>(per_example.size()),
             size,
             kMemoryLimit,
             0,
             1,
             nullptr};
  }
  static std::vector<double> Rows(const CircuitCase& test_case, int64_t size,
                                  std::vector<double> Example::* member) {
    std::vector<double> rows;
    for (int64_t b = 0; b < size; ++b) {
      const std::vector<double>& row = test_case.examples[b].*member;
      rows.insert(rows.end(), row.begin(), row.end());
    }
    return rows;
  }

  qfleet_status Expectation(qfleet_program program, T* kept, int64_t kept_count) {
    return qfleet_expectation(program, &batch, values.data(), values.size(), kept, kept_count);
  }
  qfleet_status Gradient(qfleet_program program, T* kept, int64_t kept_count, bool is_mutable) {
    const bool each = !batch.allow_subspace;
    return qfleet_expectation_gradient(
        program, &batch, upstream.data(), upstream.size(), kept, kept_count, is_mutable,
        shared_gradients.data(), shared_gradients.size(),
        each ? per_example_gradients.data() : nullptr, each ? per_example_gradients.size() : 0);
  }

  qfleet_status ValueAndGradient(qfleet_program program) {
    const bool each = !batch.allow_subspace;
    return qfleet_value_and_gradient(
        program, &batch, upstream.data(), upstream.size(), values.data(), values.size(),
        shared_gradients.data(), shared_gradients.size(),
        each ? per_example_gradients.data() : nullptr, each ? per_example_gradients.size() : 0);
  }

  int64_t readouts, reals;
  ExactBuffer<double> shared, per_example;
  ExactBuffer<T> upstream;
  ExactBuffer<double> expected;
  ExactBuffer<T> values;
  ExactBuffer<double> shared_gradients, per_example_gradients;
  qfleet_batch batch;
};

std::vector<double> SumOfGradients(const CircuitCase& test_case, int64_t size) {
  std::vector<double> sum(test_case.circuit.shared);
  for (int64_t b = 0; b < size; ++b)
    for (size_t e = 0; e < sum.size(); ++e) sum[e] += test_case.examples[b].gradients.shared[e];
  return sum;
}

#define CHECK_OK(call, context) \
  CHECK((call) == QFLEET_OK, std::string(context) + ": " + qfleet_last_error())

// Expectation values and gradients, with and without kept states, in all alignments of `kept`.
template <class T>
void CompareGradients(const CircuitCase& test_case, int64_t size, bool subspace,
                      const qfleet_executor* executor) {
  const OwnedProgram program(test_case.circuit, sizeof(T));
  Arguments<T> arguments(test_case, size);
  arguments.batch.executor = executor;
  arguments.batch.allow_subspace = subspace;
  const double tolerance = kTolerance<T> * 100;
  const std::string context = test_case.name + (subspace ? ", subspace" : "");
  qfleet_plan plan;
  CHECK_OK(qfleet_plan_batch(program.handle(), &arguments.batch, &plan), context);
  CHECK((plan.subspace_states > 0) == subspace, context);
  CHECK_OK(arguments.Expectation(program.handle(), nullptr, 0), context);
  CheckClose(arguments.values, arguments.expected, tolerance, context);
  CHECK_OK(arguments.Gradient(program.handle(), nullptr, 0, false), context);
  CheckClose(arguments.shared_gradients, SumOfGradients(test_case, size), tolerance * size,
             context);
  const ExactBuffer<double> shared(arguments.shared_gradients),
      each(arguments.per_example_gradients);
  const int64_t step = 16 / sizeof(T);  // reals between possible alignments
  for (int64_t shift = 0; shift < 2 * step; ++shift) {
    ExactBuffer<T> kept(plan.kept_reals + shift), copy(plan.kept_reals + step);
    CHECK_OK(arguments.Expectation(program.handle(), kept.data() + shift, plan.kept_reals),
             context);
    std::copy_n(kept.data() + shift, plan.kept_reals, copy.data() + step);
    for (T* states : {kept.data() + shift, copy.data() + step})
      for (bool is_mutable : {false, true}) {
        CHECK_OK(arguments.Gradient(program.handle(), states, plan.kept_reals, is_mutable),
                 context);
        CHECK(arguments.shared_gradients == shared && arguments.per_example_gradients == each,
              context + ", from kept states");
      }
  }
  const ExactBuffer<T> values(arguments.values);
  std::fill_n(arguments.values.data(), arguments.values.size(), T{0});
  CHECK_OK(arguments.ValueAndGradient(program.handle()), context);
  CHECK(arguments.values == values && arguments.shared_gradients == shared &&
            arguments.per_example_gradients == each,
        context + ", in one call");
}

// States kept with another number of threads, whose layout differs.
template <class T>
void CompareThreadCounts(const CircuitCase& test_case) {
  const OwnedProgram program(test_case.circuit, sizeof(T));
  Arguments<T> arguments(test_case, test_case.examples.size());
  const int32_t before = qfleet_thread_count();
  CHECK_OK(qfleet_set_thread_count(4), "4 threads");
  qfleet_plan plan;
  CHECK_OK(qfleet_plan_batch(program.handle(), &arguments.batch, &plan), "plan");
  ExactBuffer<T> kept(plan.kept_reals);
  CHECK_OK(arguments.Expectation(program.handle(), kept.data(), plan.kept_reals), "values");
  CHECK_OK(arguments.Gradient(program.handle(), kept.data(), plan.kept_reals, false), "gradient");
  const ExactBuffer<double> shared(arguments.shared_gradients);
  CHECK_OK(qfleet_set_thread_count(1), "1 thread");
  CHECK_OK(arguments.Gradient(program.handle(), kept.data(), plan.kept_reals, false), "gradient");
  CHECK(arguments.shared_gradients == shared, "gradient with fewer threads");
  CHECK_OK(qfleet_set_thread_count(before), "threads");
}

// Samples have the distribution of the state, whatever the number of threads.
template <class T>
void CompareSamples(const CircuitCase& test_case, int64_t shots) {
  const OwnedProgram program(test_case.circuit, sizeof(T));
  const int64_t size = test_case.examples.size(),
                amplitudes = int64_t{1} << test_case.circuit.qubits;
  const Arguments<T> arguments(test_case, size);
  ExactBuffer<int64_t> samples(size * shots);
  const auto sample = [&](uint64_t seed) {
    CHECK_OK(qfleet_sample(program.handle(), &arguments.batch, test_case.order.data(),
                           test_case.order.size(), shots, seed, samples.data(), samples.size()),
             "samples");
  };
  sample(7);
  const ExactBuffer<int64_t> first(samples);
  const int32_t before = qfleet_thread_count();
  for (int32_t threads : {1, 5}) {
    CHECK_OK(qfleet_set_thread_count(threads), "threads");
    sample(7);
    CHECK(samples == first, "samples with " + std::to_string(threads) + " threads");
  }
  CHECK_OK(qfleet_set_thread_count(before), "threads");
  sample(8);
  CHECK(!(samples == first), "samples with another seed");
  for (int64_t b = 0; b < size; ++b) {
    std::vector<double> frequencies(amplitudes), probabilities(amplitudes);
    for (int64_t shot = 0; shot < shots; ++shot) {
      CHECK(samples[b * shots + shot] >= 0 && samples[b * shots + shot] < amplitudes, "range");
      frequencies[samples[b * shots + shot]] += 1.0 / shots;
    }
    for (int64_t i = 0; i < amplitudes; ++i)
      probabilities[i] = std::norm(test_case.examples[b].state[i]);
    CheckClose(frequencies, probabilities, 6 * 0.5 / std::sqrt(shots), "frequencies");
  }
}

// A circuit whose initial state each call passes: the results of the circuit that has it.
template <class T>
void CompareInitialStates(const CircuitCase& test_case, int64_t size) {
  Circuit circuit = test_case.circuit;
  circuit.takes_states = true;
  const OwnedProgram program(circuit, sizeof(T));
  qfleet_program_info info;
  CHECK_OK(qfleet_program_describe(program.handle(), &info), "program");
  CHECK(info.takes_states == 1, "takes_states");
  Arguments<T> arguments(test_case, size);
  const std::string context = test_case.name + ", initial states";
  const double tolerance = kTolerance<T> * 100;
  CHECK(arguments.Expectation(program.handle(), nullptr, 0) == QFLEET_INVALID_ARGUMENT, "missing");
  const int64_t amplitudes = int64_t{1} << circuit.qubits;
  ExactBuffer<T> states(arguments.reals), gradients(arguments.reals);
  for (int64_t b = 0; b < size; ++b)
    for (int64_t x = 0; x < amplitudes; ++x) {
      int64_t y = 0;
      for (int64_t bit = 0; bit < circuit.qubits; ++bit)
        y |= (x >> bit & 1) << test_case.order[bit];
      states[2 * (b * amplitudes + y)] = static_cast<T>(circuit.initial[x].real());
      states[2 * (b * amplitudes + y) + 1] = static_cast<T>(circuit.initial[x].imag());
    }
  qfleet_batch& batch = arguments.batch;
  batch.initial_states = states.data();
  batch.initial_state_count = states.size();
  batch.initial_order = test_case.order.data();
  batch.initial_order_count = test_case.order.size();
  batch.initial_gradients = gradients.data();
  batch.initial_gradient_count = gradients.size();
  CHECK(arguments.Expectation(program.handle(), nullptr, 0) == QFLEET_INVALID_ARGUMENT, "norm");
  batch.check_finite = 0;
  CHECK_OK(arguments.ValueAndGradient(program.handle()), context);
  CheckClose(arguments.values, arguments.expected, tolerance, context);
  CheckClose(arguments.shared_gradients, SumOfGradients(test_case, size), tolerance * size,
             context);
  // L is quadratic in the states but for the offsets, so that Re <dL/dpsi|psi> = 2 L.
  for (int64_t b = 0; b < size; ++b) {
    double found = 0, expected = 0;
    for (int64_t i = 2 * b * amplitudes; i < 2 * (b + 1) * amplitudes; ++i)
      found += static_cast<double>(gradients[i]) * static_cast<double>(states[i]);
    for (int64_t k = 0; k < arguments.readouts; ++k) {
      const int64_t at = b * arguments.readouts + k;
      expected += 2 * static_cast<double>(arguments.upstream[at]) *
                  (arguments.expected[at] - circuit.offsets[k]);
    }
    CHECK(std::abs(found - expected) < 10 * tolerance, context + ", gradient by the states");
  }
  const OwnedProgram plain(test_case.circuit, sizeof(T));
  CHECK(arguments.Expectation(plain.handle(), nullptr, 0) == QFLEET_INVALID_ARGUMENT, "not taken");
}

// Calls from several threads, while programs are created and destroyed.
void CallConcurrently(const CircuitCase& test_case) {
  const OwnedProgram program(test_case.circuit, sizeof(float));
  std::atomic<int> wrong{0};
  const auto call = [&] {
    Arguments<float> own(test_case, test_case.examples.size());
    for (int repetition = 0; repetition < 20; ++repetition) {
      const OwnedProgram other(test_case.circuit, sizeof(float));
      wrong += own.Expectation(repetition % 2 ? program.handle() : other.handle(), nullptr, 0) != 0;
      for (size_t i = 0; i < own.values.size(); ++i)
        wrong += !(std::abs(own.values[i] - own.expected[i]) < 1e-3);
    }
  };
  std::vector<std::thread> callers;
  for (int i = 0; i < 3; ++i) callers.emplace_back(call);
  for (std::thread& caller : callers) caller.join();
  CHECK(wrong == 0, std::to_string(wrong) + " wrong results");
}

// Devices whose library is missing; tests in Python cover those that exist.
void RejectMissingDevices(const CircuitCase& test_case) {
  const std::string bytes = test_case.circuit.Serialize();
  const auto create = [&](const char* library) {
    qfleet_program program = 7;
    const qfleet_status status =
        qfleet_program_create_on(bytes.data(), bytes.size(), sizeof(float), library, 0, &program);
    CHECK(program == 0, "a failed call leaves no handle");
    return status;
  };
  CHECK(create(nullptr) == QFLEET_INVALID_ARGUMENT, "no library");
  CHECK(create("/nowhere/libqfleet_cuda.so") == QFLEET_DEVICE_FAILED, "a missing library");
  qfleet_device_info info;
  CHECK(qfleet_device_describe("/nowhere/libqfleet_cuda.so", 0, &info) == QFLEET_DEVICE_FAILED,
        "a missing library");
}

}  // namespace

void CInterface(bool light) {
  Random random(12);
  int64_t threads = 3;
  const qfleet_executor executor = {RunOnNewThreads, &threads, 3};
  const qfleet_executor* const executors[] = {nullptr, &executor};
  for (int64_t qubits : light ? std::vector<int64_t>{3, 6} : std::vector<int64_t>{1, 3, 6, 9}) {
    const CircuitCase test_case(RandomCircuit({qubits, 6, 1}, &random), 17, &random);
    for (const qfleet_executor* pool : executors) {
      CompareGradients<float>(test_case, 17, false, pool);
      CompareGradients<double>(test_case, 3, false, pool);
    }
    CompareThreadCounts<float>(test_case);
    CompareThreadCounts<double>(test_case);
  }
  for (int64_t qubits : {1, 3, 6, 9}) {
    CircuitSpec from_states = {qubits, 6, 0, qubits > 6 ? 5 : 0};
    from_states.initial = true;
    const CircuitCase test_case(RandomCircuit(from_states, &random), 17, &random);
    CompareInitialStates<float>(test_case, 17);
    CompareInitialStates<double>(test_case, 3);
  }
  CircuitSpec spec = {10, 30, 1, 6};  // long enough for the subspace method to be chosen
  spec.subspace = true;
  const CircuitCase spanned(RandomCircuit(spec, &random), 40, &random, 1);
  CompareGradients<float>(spanned, 40, true, nullptr);
  CompareGradients<double>(spanned, 40, true, &executor);
  CompareSamples<float>(CircuitCase(RandomCircuit({3, 6}, &random), 3, &random), 10000);
  CompareSamples<double>(CircuitCase(RandomCircuit({10, 6}, &random), 1, &random), 10000);
  RejectMissingDevices(CircuitCase(RandomCircuit({3, 6}, &random), 1, &random));
  CallConcurrently(CircuitCase(RandomCircuit({6, 6}, &random), 17, &random));
}

}  // namespace tests
}  // namespace qfleet
