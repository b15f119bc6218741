// Hessian-vector products compared with the reference simulator and with finite differences.
#include <functional>
#include <limits>

#include "../qfleet.h"
#include "circuit_case.h"
#include "tests.h"

namespace qfleet {
namespace tests {
namespace {

using Vector = std::vector<double>;

// A circuit, examples and directions. A direction is 0 for some exponents, or for all of a kind.
struct HvpCase {
  HvpCase(const Circuit& circuit_, int64_t size_, Random* random)
      : circuit(circuit_), program(std::make_shared<Program>(circuit.Serialize())), size(size_) {
    // Exponents of 0 and 1 make a gate the identity or a permutation; its tangent is neither.
    const auto numbers = [&](int64_t count, double most) {
      Vector values(count);
      for (double& value : values) {
        value = RandomReal(random, -most, most);
        if (RandomInt(random, 0, 3) == 0) value = static_cast<double>(RandomInt(random, 0, 1));
      }
      return values;
    };
    shared = numbers(circuit.shared, 2);
    per_example = numbers(size * circuit.per_example, 2);
    shared_tangents = numbers(circuit.shared, 1);
    per_example_tangents = numbers(size * circuit.per_example, 1);
    upstream = numbers(size * circuit.offsets.size(), 1);
    for (double tangent : shared_tangents) scale += std::abs(tangent);
    for (double tangent : per_example_tangents) scale = std::max(scale, std::abs(tangent));
    double strings = 1;
    for (const Pauli& string : circuit.strings)
      for (double weight : string.weights) strings += std::abs(weight);
    // Second derivatives grow with pi squared per unit of the direction.
    scale *= 10 * strings;
  }

  // The reference for the first `count` examples; without per-example tangents if not `full`.
  HessianVectorProduct Reference(int64_t count, bool full) const {
    HessianVectorProduct sum = {{}, {Vector(circuit.shared), {}}};
    const Vector zeros(circuit.per_example);
    for (int64_t b = 0; b < count; ++b) {
      const int64_t at = b * circuit.per_example;
      const HessianVectorProduct one =
          ExpectationHvp(circuit, shared.data(), per_example.data() + at, shared_tangents.data(),
                         full ? per_example_tangents.data() + at : zeros.data(),
                         upstream.data() + b * circuit.offsets.size());
      sum.value_tangents.insert(sum.value_tangents.end(), one.value_tangents.begin(),
                                one.value_tangents.end());
      for (size_t e = 0; e < one.results.shared.size(); ++e)
        sum.results.shared[e] += one.results.shared[e];
      sum.results.per_example.insert(sum.results.per_example.end(), one.results.per_example.begin(),
                                     one.results.per_example.end());
    }
    return sum;
  }

  Circuit circuit;
  std::shared_ptr<const Program> program;
  int64_t size;
  Vector shared, per_example, shared_tangents, per_example_tangents, upstream;
  double scale = 1;
};

template <class T>
struct HvpResults {
  ExactBuffer<T> value_tangents;
  ExactBuffer<double> shared, per_example;
  bool operator==(const HvpResults& other) const {
    return value_tangents == other.value_tangents && shared == other.shared &&
           per_example == other.per_example;
  }
};

// Computes the products of the first `size` examples. Unless `full`, per-example tangents are null
// and per-example results are not computed.
template <class T>
HvpResults<T> Compute(const HvpCase& test_case, StateVectorEngine<T>* engine, int64_t size,
                      int64_t threads, bool full, int32_t max_lane_qubits = kAnyLaneQubits) {
  const Circuit& circuit = test_case.circuit;
  const int64_t readouts = circuit.offsets.size();
  const auto rows = [&](const Vector& values, int64_t width) {
    return Vector(values.begin(), values.begin() + size * width);
  };
  const ExactBuffer<double> shared(test_case.shared), shared_tangents(test_case.shared_tangents),
      per_example(rows(test_case.per_example, circuit.per_example)),
      per_example_tangents(rows(test_case.per_example_tangents, circuit.per_example));
  const ExactBuffer<T> upstream(rows(test_case.upstream, readouts));
  Batch batch = {shared.data(), per_example.data(), size, threads, RunOnThreads(threads)};
  batch.max_lane_qubits = max_lane_qubits;
  batch.shared_tangents = shared_tangents.data();
  if (full) batch.per_example_tangents = per_example_tangents.data();
  HvpResults<T> results = {ExactBuffer<T>(size * readouts), ExactBuffer<double>(circuit.shared),
                           ExactBuffer<double>(full ? size * circuit.per_example : 0)};
  engine->HessianVectorProduct(batch, upstream.data(), full, results.value_tangents.data(),
                               results.shared.data(), full ? results.per_example.data() : nullptr);
  return results;
}

template <class T>
void Compare(const HvpCase& test_case, const HessianVectorProduct& reference,
             StateVectorEngine<T>* engine, int64_t size, int64_t threads, bool full,
             const std::string& context) {
  const HvpResults<T> results = Compute(test_case, engine, size, threads, full);
  const double tolerance = kTolerance<T> * test_case.scale;
  CheckClose(results.value_tangents, reference.value_tangents, tolerance,
             context + ", value tangents");
  CheckClose(results.shared, reference.results.shared,
             tolerance * static_cast<double>(std::max<int64_t>(size, 1)),
             context + ", shared results");
  if (full)
    CheckClose(results.per_example, reference.results.per_example, tolerance,
               context + ", per-example results");
}

template <class T>
void CompareAll(const HvpCase& test_case, const std::vector<int64_t>& sizes,
                const std::vector<int64_t>& threads) {
  for (int64_t size : sizes)
    for (bool full : {true, false}) {
      const HessianVectorProduct reference = test_case.Reference(size, full);
      for (const InstructionSet<T>& set : InstructionSets<T>()) {
        StateVectorEngine<T> engine(test_case.program, *set.kernels);
        const std::string context = std::to_string(test_case.circuit.qubits) + " qubits, " +
                                    set.name + (sizeof(T) == sizeof(float) ? " float" : " double") +
                                    ", batch " + std::to_string(size) +
                                    (full ? "" : ", shared tangents only");
        for (int64_t count : threads)
          Compare(test_case, reference, &engine, size, count, full,
                  context + ", threads " + std::to_string(count));
        // In a layout for any number of threads, all of them give the same bits.
        StateVectorEngine<T> fresh(test_case.program, *set.kernels);
        const HvpResults<T> first = Compute(test_case, &fresh, size, 1, full, Log2(kMaxLanes));
        for (int64_t count : threads)
          CHECK(Compute(test_case, &engine, size, count, full, Log2(kMaxLanes)) == first,
                context + ", threads 1 and " + std::to_string(count));
      }
    }
}

// (gradient(+step) - gradient(-step)) / (2 step) for the concatenated gradients.
Vector Differences(const HvpCase& test_case, double step,
                   const std::function<Vector(const Vector&, const Vector&)>& gradient) {
  const auto shifted = [&](double by) {
    Vector shared = test_case.shared, per_example = test_case.per_example;
    for (size_t e = 0; e < shared.size(); ++e) shared[e] += by * test_case.shared_tangents[e];
    for (size_t e = 0; e < per_example.size(); ++e)
      per_example[e] += by * test_case.per_example_tangents[e];
    return gradient(shared, per_example);
  };
  Vector differences = shifted(step);
  const Vector below = shifted(-step);
  for (size_t i = 0; i < below.size(); ++i)
    differences[i] = (differences[i] - below[i]) / (2 * step);
  return differences;
}

Vector Concatenate(const Vector& a, const Vector& b, const Vector& c) {
  Vector all = a;
  all.insert(all.end(), b.begin(), b.end());
  all.insert(all.end(), c.begin(), c.end());
  return all;
}

// A call of the C interface, without one of the optional arguments.
struct CCall {
  CCall(const HvpCase& test_case, qfleet_program program_, const std::string& without)
      : program(program_),
        shared(test_case.shared),
        per_example(test_case.per_example),
        shared_tangents(test_case.shared_tangents),
        per_example_tangents(test_case.per_example_tangents),
        upstream(test_case.upstream),
        value_tangents(without == "value_tangents" ? Vector() : test_case.upstream),
        shared_results(test_case.shared),
        per_example_results(without == "per_example_results" ? Vector() : test_case.per_example) {
    if (without == "per_example_tangents") per_example_tangents.clear();
    batch = {shared.data(),
             static_cast<int64_t>(shared.size()),
             per_example.data(),
             static_cast<int64_t>(per_example.size()),
             test_case.size,
             int64_t{1} << 30,
             1,
             1,
             nullptr};
  }

  qfleet_status operator()() {
    const auto data = [](Vector& values) { return values.empty() ? nullptr : values.data(); };
    const auto count = [](const Vector& values) { return static_cast<int64_t>(values.size()); };
    return qfleet_expectation_hvp(
        program, &batch, shared_tangents.data(), count(shared_tangents), data(per_example_tangents),
        count(per_example_tangents), upstream.data(), count(upstream), data(value_tangents),
        count(value_tangents), shared_results.data(), count(shared_results),
        data(per_example_results), count(per_example_results));
  }

  qfleet_program program;
  Vector shared, per_example, shared_tangents, per_example_tangents, upstream, value_tangents,
      shared_results, per_example_results;
  qfleet_batch batch;
};

}  // namespace

void CInterfaceHvps(bool) {
  Random random(26);
  for (int64_t qubits : {1, 5, 8}) {
    const HvpCase test_case(RandomCircuit({qubits, 8, 1}, &random), 17, &random);
    const std::string bytes = test_case.circuit.Serialize();
    qfleet_program program = 0;
    CHECK(qfleet_program_create(bytes.data(), bytes.size(), sizeof(double), &program) == QFLEET_OK,
          qfleet_last_error());
    for (const std::string without :
         {"", "value_tangents", "per_example_tangents", "per_example_results"}) {
      CCall call(test_case, program, without);
      CHECK(call() == QFLEET_OK, qfleet_last_error());
      const HessianVectorProduct reference =
          test_case.Reference(17, without != "per_example_tangents");
      const double tolerance = kTolerance<double> * test_case.scale * 17;
      const std::string context = "without " + without;
      if (without != "value_tangents")
        CheckClose(call.value_tangents, reference.value_tangents, tolerance, context);
      CheckClose(call.shared_results, reference.results.shared, tolerance, context);
      if (without != "per_example_results")
        CheckClose(call.per_example_results, reference.results.per_example, tolerance, context);
    }
    // Every buffer is checked.
    for (Vector CCall::* buffer :
         {&CCall::shared_tangents, &CCall::per_example_tangents, &CCall::upstream,
          &CCall::value_tangents, &CCall::shared_results, &CCall::per_example_results}) {
      CCall call(test_case, program, "");
      (call.*buffer).push_back(0);
      CHECK(call() == QFLEET_INVALID_ARGUMENT, "a buffer that is too long");
    }
    qfleet_program_destroy(program);
    CHECK(CCall(test_case, program, "")() == QFLEET_INVALID_ARGUMENT, "an unknown program");
  }
}

void ReferenceHvps(bool) {
  Random random(20);
  for (int64_t qubits = 1; qubits <= 4; ++qubits) {
    CircuitSpec spec = {qubits};
    spec.initial = qubits % 2;
    const HvpCase test_case(RandomCircuit(spec, &random), 1, &random);
    const HessianVectorProduct found = test_case.Reference(1, true);
    const Vector expected =
        Differences(test_case, 1e-5, [&](const Vector& shared, const Vector& per_example) {
          const Circuit& circuit = test_case.circuit;
          const Gradients gradients = ExpectationGradients(
              circuit, shared.data(), per_example.data(), test_case.upstream.data());
          return Concatenate(
              ExpectationValues(circuit, State(circuit, shared.data(), per_example.data())),
              gradients.shared, gradients.per_example);
        });
    CheckClose(Concatenate(found.value_tangents, found.results.shared, found.results.per_example),
               expected, 1e-7 * test_case.scale, std::to_string(qubits) + " qubits");
  }
}

void SmallHvps(bool light) {
  Random random(21);
  const std::vector<int64_t> sizes =
      light ? std::vector<int64_t>{0, 1, 17} : std::vector<int64_t>{0, 1, 2, 3, 16, 17, 40};
  for (int64_t qubits = 1; qubits <= (light ? 6 : 9); ++qubits) {
    CircuitSpec spec = {qubits};
    spec.prefix = qubits % 3 == 1 ? 2 : 0;
    spec.window = qubits > 5 ? 5 : 0;  // force copied chunks, as for much larger states
    spec.initial = qubits % 2;
    const HvpCase test_case(RandomCircuit(spec, &random), sizes.back(), &random);
    CompareAll<float>(test_case, sizes, {1, 2, 8});
    CompareAll<double>(test_case, sizes, {1, 8});
  }
  // Many more gates, with one batch size each.
  for (int64_t more = 0; more < (light ? 20 : 100); ++more) {
    CircuitSpec spec = {1 + more % 6, 5};
    spec.window = spec.qubits == 6 ? 5 : 0;
    const HvpCase test_case(RandomCircuit(spec, &random), 17, &random);
    CompareAll<float>(test_case, {17}, {1});
    CompareAll<double>(test_case, {1}, {1});
  }
}

void WideHvps(bool light) {
  Random random(22);
  // Several examples and several amplitudes share the lanes.
  const HvpCase middle(RandomCircuit({12, 6, 1}, &random), 5, &random);
  CompareAll<float>(middle, {1, 5}, {2});
  CompareAll<double>(middle, {5}, {1, 8});
  CircuitSpec spec = {16, 6, 2, 15};
  const HvpCase float_case(RandomCircuit(spec, &random), 2, &random);
  CompareAll<float>(float_case, {1}, {5});
  if (light) return;
  spec = {16, 6, 0, 14};
  const HvpCase narrow_windows(RandomCircuit(spec, &random), 2, &random);
  CompareAll<float>(narrow_windows, {2}, {1, 8});
  CompareAll<double>(narrow_windows, {1}, {8});
  spec = {18, 5, 1, 14};
  const HvpCase wide(RandomCircuit(spec, &random), 1, &random);
  CompareAll<float>(wide, {1}, {2});
}

void EmptyHvps(bool) {
  Random random(23);
  const auto check = [&](const Circuit& circuit) {
    const HvpCase test_case(circuit, 17, &random);
    CompareAll<float>(test_case, {0, 1, 17}, {1, 2});
    CompareAll<double>(test_case, {17}, {2});
    // Without any tangents all results are 0, and are added to the outputs.
    StateVectorEngine<double> engine(test_case.program, *InstructionSets<double>()[0].kernels);
    const ExactBuffer<double> shared(test_case.shared), per_example(test_case.per_example),
        upstream(test_case.upstream);
    const Batch batch = {shared.data(), per_example.data(), 17, 1, RunOnThreads(1)};
    ExactBuffer<double> results(circuit.shared, 1.0),
        per_example_results(17 * circuit.per_example, 1.0);
    engine.HessianVectorProduct(batch, upstream.data(), true, nullptr, results.data(),
                                per_example_results.data());
    CHECK(results == ExactBuffer<double>(circuit.shared, 1.0), "no tangents, shared results");
    CHECK(per_example_results == ExactBuffer<double>(17 * circuit.per_example, 1.0),
          "no tangents, per-example results");
  };
  for (int64_t qubits : {1, 5}) {
    Circuit circuit = RandomCircuit({qubits, 3}, &random);
    check(circuit);
    circuit.strings.clear();
    check(circuit);
    circuit.offsets.clear();
    check(circuit);
    check(RandomCircuit({qubits, 0}, &random));
    circuit = RandomCircuit({qubits, 3, 3}, &random);
    circuit.shared = circuit.per_example = 0;
    check(circuit);
  }
}

void HvpsEqualDifferences(bool light) {
  Random random(24);
  for (int64_t qubits : light ? std::vector<int64_t>{3, 6} : std::vector<int64_t>{3, 6, 9, 15}) {
    CircuitSpec spec = {qubits, 12, 1, qubits == 6 ? 5 : qubits == 15 ? 14 : 0};
    const int64_t size = qubits == 15 ? 2 : 9;
    const HvpCase test_case(RandomCircuit(spec, &random), size, &random);
    for (const InstructionSet<double>& set : InstructionSets<double>()) {
      StateVectorEngine<double> engine(test_case.program, *set.kernels);
      const HvpResults<double> found = Compute(test_case, &engine, size, 2, true);
      const auto gradient = [&](const Vector& shared, const Vector& per_example) {
        const Batch batch = {shared.data(), per_example.data(), size, 2, RunOnThreads(2)};
        Vector values(test_case.upstream.size()), by_shared(shared.size()),
            by_example(per_example.size());
        engine.Expectation(batch, values.data(), nullptr, 0);
        engine.Gradient(batch, test_case.upstream.data(), nullptr, 0, false, true, nullptr,
                        by_shared.data(), by_example.data());
        return Concatenate(values, by_shared, by_example);
      };
      const auto vector = [](const ExactBuffer<double>& buffer) {
        return Vector(buffer.data(), buffer.data() + buffer.size());
      };
      CheckClose(Concatenate(vector(found.value_tangents), vector(found.shared),
                             vector(found.per_example)),
                 Differences(test_case, 1e-5, gradient),
                 1e-7 * test_case.scale * static_cast<double>(size),
                 std::to_string(qubits) + " qubits, " + set.name);
    }
  }
}

void ConcurrentHvps(bool light) {
  Random random(25);
  const HvpCase test_case(RandomCircuit({6, 6, 1, 5}, &random), 33, &random);
  const InstructionSet<float> set = InstructionSets<float>().back();
  StateVectorEngine<float> engine(test_case.program, *set.kernels);
  std::atomic<int> different{0};
  const auto call = [&](int64_t size) {
    StateVectorEngine<float> fresh(test_case.program, *set.kernels);
    const HvpResults<float> expected = Compute(test_case, &fresh, size, 2, true);
    for (int repetition = 0; repetition < (light ? 2 : 10); ++repetition)
      different += !(Compute(test_case, &engine, size, 2, true) == expected);
  };
  std::vector<std::thread> callers;
  for (int64_t size : {1, 17, 33}) callers.emplace_back(call, size);
  for (std::thread& caller : callers) caller.join();
  CHECK(different == 0, "calls at the same time");
}

}  // namespace tests
}  // namespace qfleet
