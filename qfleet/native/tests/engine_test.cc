// Expectation values, gradients and states compared with the reference simulator.
#include <limits>

#include "circuit_case.h"
#include "tests.h"

namespace qfleet {
namespace tests {
namespace {

template <class T>
std::string Describe(const CircuitCase& test_case, const InstructionSet<T>& set, int64_t batch,
                     int64_t threads) {
  return test_case.name + ", " + set.name + (sizeof(T) == sizeof(float) ? " float" : " double") +
         ", batch " + std::to_string(batch) + ", threads " + std::to_string(threads);
}

// Compares with a used engine and with a new one.
template <class T>
void CompareAll(const CircuitCase& test_case, const std::vector<int64_t>& batches,
                const std::vector<int64_t>& threads) {
  for (const InstructionSet<T>& set : InstructionSets<T>()) {
    StateVectorEngine<T> used(test_case.program, *set.kernels);
    for (int64_t batch : batches)
      for (int64_t count : threads) {
        const std::string context = Describe(test_case, set, batch, count);
        const Results<T> first = Compare(test_case, &used, batch, count, context);
        if (batch != batches.back()) continue;
        StateVectorEngine<T> fresh(test_case.program, *set.kernels);
        CHECK(Compare(test_case, &fresh, batch, count, context) == first, context + ", repeated");
      }
  }
}

}  // namespace

void ReferenceGradients(bool) {
  Random random(1);
  for (int64_t qubits = 1; qubits <= 4; ++qubits) {
    const CircuitCase test_case(RandomCircuit({qubits}, &random), 1, &random);
    const Example& example = test_case.examples[0];
    const double step = 1e-5;
    const auto loss = [&](std::vector<double> shared, std::vector<double> per_example, size_t at,
                          double by) {
      (at < shared.size() ? shared[at] : per_example[at - shared.size()]) += by;
      const std::vector<double> values = ExpectationValues(
          test_case.circuit, State(test_case.circuit, shared.data(), per_example.data()));
      double sum = 0;
      for (size_t k = 0; k < values.size(); ++k) sum += example.upstream[k] * values[k];
      return sum;
    };
    std::vector<double> gradients = example.gradients.shared, differences;
    gradients.insert(gradients.end(), example.gradients.per_example.begin(),
                     example.gradients.per_example.end());
    for (size_t at = 0; at < gradients.size(); ++at)
      differences.push_back((loss(test_case.shared, example.per_example, at, step) -
                             loss(test_case.shared, example.per_example, at, -step)) /
                            (2 * step));
    CheckClose(gradients, differences, 1e-6, test_case.name);
  }
}

void SmallCircuits(bool light) {
  Random random(2);
  const std::vector<int64_t> batches =
      light ? std::vector<int64_t>{0, 1, 3, 17} : std::vector<int64_t>{0, 1, 2, 3, 15, 16, 17, 33};
  for (int64_t qubits = 1; qubits <= (light ? 6 : 8); ++qubits)
    for (int64_t variant = 0; variant < (light || qubits > 4 ? 1 : 2); ++variant) {
      CircuitSpec spec = {qubits};
      spec.prefix = (qubits + variant) % 2 ? 2 : 0;
      spec.window = qubits > 5 ? 5 : 0;  // force copied chunks, as for much larger states
      spec.initial = variant;
      const CircuitCase test_case(RandomCircuit(spec, &random), batches.back(), &random);
      CompareAll<float>(test_case, batches, {1, 5});
      CompareAll<double>(test_case, batches, {2});
    }
  // Many more gates, with one batch size each.
  for (int64_t more = 0; more < (light ? 20 : 100); ++more) {
    CircuitSpec spec = {1 + more % 6, 5};
    spec.window = spec.qubits == 6 ? 5 : 0;
    const CircuitCase test_case(RandomCircuit(spec, &random), 17, &random);
    CompareAll<float>(test_case, {17}, {1});
    CompareAll<double>(test_case, {1}, {1});
  }
}

void WideCircuits(bool light) {
  Random random(3);
  // Several examples and several amplitudes share the lanes.
  const CircuitCase middle(RandomCircuit({12, 6}, &random), 5, &random);
  CompareAll<float>(middle, {1, 5}, {2});
  CompareAll<double>(middle, {5}, {5});
  // The largest windows that fit into a chunk: 16 qubits in float, 15 in double.
  CircuitSpec spec = {17, 6, 2, 16};
  const CircuitCase float_case(RandomCircuit(spec, &random), 2, &random);
  CompareAll<float>(float_case, light ? std::vector<int64_t>{1} : std::vector<int64_t>{1, 2}, {5});
  if (light) return;
  spec = {16, 6, 1, 15};
  const CircuitCase narrow_windows(RandomCircuit(spec, &random), 2, &random);
  CompareAll<float>(narrow_windows, {1}, {1, 2});
  CompareAll<double>(narrow_windows, {2}, {5});
  spec = {20, 5, 1, 14};
  const CircuitCase wide(RandomCircuit(spec, &random), 1, &random);
  const InstructionSet<float> best = InstructionSets<float>().back();
  StateVectorEngine<float> engine(wide.program, *best.kernels);
  Compare(wide, &engine, 1, 2, Describe(wide, best, 1, 2));
}

void SubspaceCircuits(bool light) {
  Random random(10);
  for (int64_t qubits : light ? std::vector<int64_t>{4} : std::vector<int64_t>{4, 7, 10, 16}) {
    CircuitSpec spec = {qubits, 8, 1, qubits == 4 ? 0 : qubits == 16 ? 14 : 6};
    spec.subspace = true;
    const CircuitCase test_case(RandomCircuit(spec, &random), qubits == 16 ? 12 : 33, &random, 1);
    const auto check = [&](auto zero) {
      using T = decltype(zero);
      for (const InstructionSet<T>& set : InstructionSets<T>())
        for (int64_t threads : {1, 5}) {
          StateVectorEngine<T> engine(test_case.program, *set.kernels);
          const int64_t batch = test_case.examples.size();
          CompareSubspace(test_case, &engine, batch, threads,
                          Describe(test_case, set, batch, threads));
        }
    };
    check(0.0f);
    check(0.0);
  }
}

void HeisenbergCircuits(bool light) {
  Random random(11);
  struct Shape {
    int64_t qubits, tail, window, examples;
  };
  std::vector<Shape> shapes = {{3, 2, 0, 17}, {6, 2, 5, 33}, {7, 3, 0, 17}, {9, 5, 0, 17}};
  if (!light)
    shapes.insert(shapes.end(),
                  {{8, 4, 6, 33}, {12, 3, 0, 5}, {13, 5, 0, 4}, {16, 4, 14, 2}, {17, 2, 14, 1}});
  for (const Shape& shape : shapes)
    for (bool initial : {false, true}) {
      CircuitSpec spec = {shape.qubits, 8, initial ? 2 : 0, shape.window, initial};
      spec.tail = shape.tail;
      const CircuitCase test_case(RandomCircuit(spec, &random), shape.examples, &random);
      const auto check = [&](auto zero) {
        using T = decltype(zero);
        for (const InstructionSet<T>& set : InstructionSets<T>()) {
          bool supported = false;
          for (int64_t batch : {int64_t{1}, shape.examples})
            for (int64_t threads : {1, 5})
              supported |= CompareHeisenberg(test_case, *set.kernels, batch, threads,
                                             Describe(test_case, set, batch, threads) +
                                                 ", tail of " + std::to_string(shape.tail));
          CHECK(supported, test_case.name);
        }
      };
      check(0.0f);
      check(0.0);
    }
}

void HeisenbergChoice(bool) {
  Random random(12);
  CircuitSpec spec = {7, 8};
  spec.tail = 3;
  const CircuitCase test_case(RandomCircuit(spec, &random), 0, &random);
  StateVectorEngine<float> engine(test_case.program, BestKernels<float>());
  Batch batch = {};
  batch.threads = 1;
  batch.size = 1;
  CHECK(!engine.HeisenbergFor(batch), "one example");
  batch.size = 20000;
  CHECK(engine.HeisenbergFor(batch), "many examples");
  batch.is_stage = true;
  CHECK(!engine.HeisenbergFor(batch), "a stage");
}

void EmptyPrograms(bool) {
  Random random(4);
  const auto check = [&](const Circuit& circuit, const std::string& name) {
    CircuitCase test_case(circuit, 17, &random);
    test_case.name += ", " + name;
    CompareAll<float>(test_case, {0, 1, 17}, {1, 2});
    CompareAll<double>(test_case, {0, 1, 17}, {2});
  };
  for (int64_t qubits : {1, 5}) {
    Circuit circuit = RandomCircuit({qubits, 3}, &random);
    Circuit bare = circuit;
    bare.strings.clear();
    check(bare, "no strings");
    bare.offsets.clear();
    check(bare, "no readouts");
    bare = RandomCircuit({qubits, 0}, &random);
    check(bare, "no blocks");
    bare = RandomCircuit({qubits, 3, 3}, &random);
    bare.shared = bare.per_example = 0;
    check(bare, "no exponents");
    check(RandomCircuit({qubits, 4, 3}, &random), "one block after the prefix");
  }
}

// The results of an engine for all examples of a case, per-example gradients last.
template <class T>
std::vector<ExactBuffer<double>> Evaluate(const CircuitCase& test_case,
                                          StateVectorEngine<T>* engine, bool zeros_are_absent) {
  const int64_t size = test_case.examples.size(), width = test_case.circuit.per_example;
  const ExactBuffer<double> shared(test_case.shared);
  ExactBuffer<double> per_example(size * width), values(size * test_case.circuit.offsets.size());
  for (int64_t b = 0; b < size; ++b)
    std::copy_n(test_case.examples[b].per_example.begin(), width, &per_example[b * width]);
  Batch batch = {shared.data(), per_example.data(), size, 2, RunOnThreads(2)};
  batch.zeros_are_absent = zeros_are_absent;
  ExactBuffer<T> found(values.size()), upstream(values.size(), T{1});
  ExactBuffer<double> by_shared(test_case.circuit.shared), by_example(size * width);
  engine->Gradient(batch, upstream.data(), nullptr, 0, false, true, found.data(), by_shared.data(),
                   by_example.data());
  std::copy_n(found.data(), found.size(), values.data());
  return {values, by_shared, by_example};
}

void AbsentFactors(bool light) {
  Random random(13);
  int64_t without = 0;  // gradients that are left out
  for (int64_t qubits : {2, 5, 9})
    for (int64_t active : {0, 1, 3}) {
      CircuitSpec spec = {qubits, 12, 1, qubits == 9 ? 6 : 0};
      spec.subspace = active < 3;
      const CircuitCase test_case(RandomCircuit(spec, &random), light ? 17 : 33, &random, active);
      const auto check = [&](auto zero) {
        using T = decltype(zero);
        for (const InstructionSet<T>& set : InstructionSets<T>()) {
          StateVectorEngine<T> engine(test_case.program, *set.kernels);
          const std::string context = Describe(test_case, set, test_case.examples.size(), 2);
          const std::vector<ExactBuffer<double>> present = Evaluate(test_case, &engine, false);
          std::vector<ExactBuffer<double>> absent = Evaluate(test_case, &engine, true);
          for (size_t i = 0; i < absent[2].size(); ++i) {
            const int64_t width = test_case.circuit.per_example;
            if (test_case.examples[i / width].per_example[i % width] != 0) continue;
            without += absent[2][i] == 0 && present[2][i] != 0;
            absent[2][i] = present[2][i];
          }
          for (int i = 0; i < 3; ++i)
            CheckClose(absent[i], present[i], kTolerance<T> * 10,
                       context + ", without factors of exponents that are 0");
        }
      };
      check(0.0f);
      check(0.0);
    }
  CHECK(without > 0, "every factor has another exponent");
}

void IndependentCalls(bool) {
  Random random(5);
  for (int64_t qubits : {3, 7}) {
    CircuitSpec spec = {qubits, 8, 1, qubits == 7 ? 5 : 0};
    const CircuitCase test_case(RandomCircuit(spec, &random), 17, &random);
    for (const InstructionSet<float>& set : InstructionSets<float>())
      for (int64_t batch : {1, 17}) {
        const std::string context = Describe(test_case, set, batch, 2);
        StateVectorEngine<float> engine(test_case.program, *set.kernels);
        const Results<float> before = Compare(test_case, &engine, batch, 2, context);
        for (double invalid :
             {std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity()})
          CallAll(*test_case.program, &engine, batch, 2, invalid);
        CHECK(Compare(test_case, &engine, batch, 2, context) == before, context + ", after NaN");
      }
  }
}

void ConcurrentCalls(bool light) {
  Random random(6);
  const CircuitCase test_case(RandomCircuit({6, 6, 1, 5}, &random), 33, &random);
  const InstructionSet<float> set = InstructionSets<float>().back();
  StateVectorEngine<float> engine(test_case.program, *set.kernels);
  std::mutex mutex;
  std::string failures;
  const auto call = [&](int64_t batch) {
    std::string why;
    try {
      StateVectorEngine<float> fresh(test_case.program, *set.kernels);
      const std::string context = Describe(test_case, set, batch, 2);
      const Results<float> expected = Compare(test_case, &fresh, batch, 2, context);
      for (int repetition = 0; repetition < (light ? 2 : 10); ++repetition)
        CHECK(Compare(test_case, &engine, batch, 2, context) == expected, context);
    } catch (const CheckFailed& failed) {
      why = failed.what();
    }
    const std::lock_guard<std::mutex> lock(mutex);
    failures += why;
  };
  std::vector<std::thread> callers;
  for (int64_t batch : {1, 17, 33}) callers.emplace_back(call, batch);
  for (std::thread& caller : callers) caller.join();
  CHECK(failures.empty(), failures);
}

}  // namespace tests
}  // namespace qfleet
