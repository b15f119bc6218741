#include "circuit_case.h"

#include <numeric>

#include "state/heisenberg_engine.h"

namespace qfleet {
namespace tests {
namespace {

// The numbers of the first `batch` examples, concatenated.
template <class T, class Numbers>
ExactBuffer<T> Rows(const CircuitCase& test_case, int64_t batch, const Numbers& numbers) {
  std::vector<double> rows;
  for (int64_t b = 0; b < batch; ++b) {
    const std::vector<double>& row = numbers(test_case.examples[b]);
    rows.insert(rows.end(), row.begin(), row.end());
  }
  return ExactBuffer<T>(rows);
}

std::vector<double> Reals(const Amplitudes& amplitudes) {
  std::vector<double> reals;
  for (const Complex& x : amplitudes) reals.insert(reals.end(), {x.real(), x.imag()});
  return reals;
}

Amplitudes Permuted(const Amplitudes& psi, const std::vector<int64_t>& order) {
  Amplitudes out(psi.size());
  for (int64_t x = 0; x < static_cast<int64_t>(psi.size()); ++x) {
    int64_t y = 0;
    for (size_t bit = 0; bit < order.size(); ++bit) y |= (x >> bit & 1) << order[bit];
    out[y] = psi[x];
  }
  return out;
}

std::vector<double> Sum(const CircuitCase& test_case, int64_t batch,
                        Gradients Example::* gradients) {
  std::vector<double> sum(test_case.circuit.shared);
  for (int64_t b = 0; b < batch; ++b)
    for (size_t e = 0; e < sum.size(); ++e) sum[e] += (test_case.examples[b].*gradients).shared[e];
  return sum;
}

// The scales of tolerances: sums of the strings' absolute weights, at least 1.
struct Scale {
  double strings = 1;   // largest of all readouts
  double example = 1;   // times the largest upstream gradients of an example
  double upstream = 1;  // times the upstream gradients of all examples
};

Scale ScaleOf(const CircuitCase& test_case, int64_t size) {
  Scale scale;
  for (size_t k = 0; k < test_case.circuit.offsets.size(); ++k) {
    double sum = 0;
    for (const Pauli& string : test_case.circuit.strings) sum += std::abs(string.weights[k]);
    scale.strings = std::max(scale.strings, sum);
  }
  for (int64_t b = 0; b < size; ++b) {
    double sum = 0;
    for (double value : test_case.examples[b].upstream) sum += std::abs(value) * scale.strings;
    scale.example = std::max(scale.example, sum);
    scale.upstream += sum;
  }
  return scale;
}

const auto values_of = [](const Example& example) { return example.values; };
const auto each_of = [](const Example& example) { return example.per_example; };
const auto upstream_of = [](const Example& example) { return example.upstream; };

// Compares the values and gradients of an engine with the reference. They are bit-identical with
// kept states, of which cached_reals(most) reals are cached.
template <class T, class Engine, class CachedReals>
void CompareExpectations(const CircuitCase& test_case, Engine* engine, const Batch& batch,
                         const CachedReals& cached_reals, const std::string& context,
                         ExactBuffer<T>* values, ExactBuffer<double>* shared,
                         ExactBuffer<double>* per_example) {
  const int64_t size = batch.size;
  const ExactBuffer<T> upstream = Rows<T>(test_case, size, upstream_of);
  const Scale scale = ScaleOf(test_case, size);
  const double tolerance = kTolerance<T>;

  engine->Expectation(batch, values->data(), nullptr, 0);
  CheckClose(*values, Rows<double>(test_case, size, values_of), tolerance * scale.strings,
             context + ", values");
  engine->Gradient(batch, upstream.data(), nullptr, 0, false, true, nullptr, shared->data(),
                   per_example->data());
  CheckClose(*shared, Sum(test_case, size, &Example::gradients), tolerance * scale.upstream,
             context + ", shared gradients");
  CheckClose(*per_example,
             Rows<double>(test_case, size,
                          [](const Example& example) { return example.gradients.per_example; }),
             tolerance * scale.example, context + ", per-example gradients");

  // Without per-example gradients; shared gradients are added to the output.
  ExactBuffer<double> added(test_case.circuit.shared, 1.0);
  engine->Gradient(batch, upstream.data(), nullptr, 0, false, false, nullptr, added.data(),
                   nullptr);
  for (size_t e = 0; e < added.size(); ++e) added[e] -= 1;
  CheckClose(added, *shared, tolerance * scale.upstream, context + ", shared gradients only");

  // With the values, of the same passes.
  ExactBuffer<T> same(values->size());
  ExactBuffer<double> shared_again(shared->size()), per_example_again(per_example->size());
  engine->Gradient(batch, upstream.data(), nullptr, 0, false, true, same.data(),
                   shared_again.data(), per_example_again.data());
  CheckClose(same, Rows<double>(test_case, size, values_of), tolerance * scale.strings,
             context + ", values with the gradients");
  CHECK(shared_again == *shared && per_example_again == *per_example,
        context + ", gradients with the values");

  // With cached states of all tiles, or of the last one.
  for (int64_t most : {int64_t{1} << 40, int64_t{1}}) {
    const int64_t reals = cached_reals(most);
    ExactBuffer<T> cached(reals), again(values->size());
    engine->Expectation(batch, again.data(), cached.data(), reals);
    CHECK(again == *values, context + ", caching states");
    const ExactBuffer<T> before(cached);
    for (bool is_mutable : {false, true}) {
      ExactBuffer<double> shared_gradients(test_case.circuit.shared),
          per_example_gradients(per_example->size());
      engine->Gradient(batch, upstream.data(), cached.data(), reals, is_mutable, true, nullptr,
                       shared_gradients.data(), per_example_gradients.data());
      CHECK(shared_gradients == *shared && per_example_gradients == *per_example,
            context + ", from cached states");
      CHECK(is_mutable || cached == before, context + ", cached states that are not mutable");
    }
  }
}

}  // namespace

CircuitCase::CircuitCase(const Circuit& circuit_, int64_t count, Random* random, int64_t max_active)
    : circuit(circuit_), program(std::make_shared<Program>(circuit_.Serialize())) {
  const auto random_vector = [&](int64_t size, double most) {
    std::vector<double> values(size);
    for (double& value : values) value = RandomReal(random, -most, most);
    return values;
  };
  // Some exponents are 0 or 1, which make a gate the identity or a permutation.
  const auto exponents = [&](int64_t size) {
    std::vector<double> values = random_vector(size, 2);
    for (double& value : values)
      if (RandomInt(random, 0, 2) == 0) value = static_cast<double>(RandomInt(random, 0, 1));
    return values;
  };
  shared = exponents(circuit.shared);
  order.resize(circuit.qubits);
  std::iota(order.begin(), order.end(), 0);
  std::shuffle(order.begin(), order.end(), *random);
  std::vector<int64_t> inverse(order.size());
  for (size_t bit = 0; bit < order.size(); ++bit) inverse[order[bit]] = bit;
  for (int64_t b = 0; b < count; ++b) {
    Example example;
    example.per_example = exponents(circuit.per_example);
    std::vector<int64_t> columns(circuit.per_example);
    std::iota(columns.begin(), columns.end(), 0);
    std::shuffle(columns.begin(), columns.end(), *random);
    for (int64_t e = max_active; e < circuit.per_example; ++e) example.per_example[columns[e]] = 0;
    example.upstream = random_vector(circuit.offsets.size(), 1);
    const double *own = example.per_example.data(), *all = shared.data();
    const Amplitudes psi = State(circuit, all, own);
    example.values = ExpectationValues(circuit, psi);
    example.gradients = ExpectationGradients(circuit, all, own, example.upstream.data());
    example.state = Permuted(psi, order);
    const std::vector<double> reals = random_vector(2 * psi.size(), 1 / std::sqrt(psi.size()));
    for (size_t x = 0; x < psi.size(); ++x)
      example.state_upstream.push_back(Complex(reals[2 * x], reals[2 * x + 1]));
    example.state_gradients =
        StateGradients(circuit, all, own, Permuted(example.state_upstream, inverse));
    examples.push_back(example);
  }
  name = std::to_string(circuit.qubits) + " qubits";
}

template <class T>
bool Results<T>::operator==(const Results& other) const {
  return values == other.values && states == other.states && shared == other.shared &&
         per_example == other.per_example && state_shared == other.state_shared &&
         state_each == other.state_each;
}

template <class T>
Results<T> Compare(const CircuitCase& test_case, StateVectorEngine<T>* engine, int64_t size,
                   int64_t threads, const std::string& context) {
  const Circuit& circuit = test_case.circuit;
  const int64_t readouts = circuit.offsets.size(), amplitudes = int64_t{1} << circuit.qubits;
  const ExactBuffer<double> shared(test_case.shared);
  const ExactBuffer<double> per_example = Rows<double>(test_case, size, each_of);
  const Batch batch = {shared.data(), per_example.data(), size, threads, RunOnThreads(threads)};
  Results<T> results = {
      ExactBuffer<T>(size * readouts),     ExactBuffer<T>(2 * size * amplitudes),
      ExactBuffer<double>(circuit.shared), ExactBuffer<double>(size * circuit.per_example),
      ExactBuffer<double>(circuit.shared), ExactBuffer<double>(size * circuit.per_example)};

  const double tolerance = kTolerance<T>;

  CompareExpectations(
      test_case, engine, batch,
      [&](int64_t most) { return engine->CachedReals(engine->TileLayoutFor(batch), most); },
      context, &results.values, &results.shared, &results.per_example);

  engine->State(batch, test_case.order.data(), results.states.data());
  CheckClose(
      results.states,
      Rows<double>(test_case, size, [](const Example& example) { return Reals(example.state); }),
      tolerance, context + ", states");
  const ExactBuffer<T> state_upstream = Rows<T>(
      test_case, size, [](const Example& example) { return Reals(example.state_upstream); });
  engine->StateGradient(batch, test_case.order.data(), results.states.data(), state_upstream.data(),
                        true, results.state_shared.data(), results.state_each.data());
  CheckClose(results.state_shared, Sum(test_case, size, &Example::state_gradients),
             tolerance * std::max<double>(1, size), context + ", shared gradients of states");
  CheckClose(
      results.state_each,
      Rows<double>(test_case, size,
                   [](const Example& example) { return example.state_gradients.per_example; }),
      tolerance, context + ", per-example gradients of states");
  return results;
}

template <class T>
void CompareSubspace(const CircuitCase& test_case, StateVectorEngine<T>* engine, int64_t size,
                     int64_t threads, const std::string& context) {
  const ExactBuffer<double> shared(test_case.shared),
      per_example = Rows<double>(test_case, size, each_of);
  const ExactBuffer<T> upstream = Rows<T>(test_case, size, upstream_of);
  const Batch batch = {shared.data(), per_example.data(), size, threads, RunOnThreads(threads)};
  const Subspace subspace =
      FindSubspace(*test_case.program, batch.per_example, batch.size, batch.size - 1);
  CHECK(subspace.states > 0 && subspace.states < size, context + ", no subspace");
  ExactBuffer<T> values(upstream.size()), states(engine->SubspaceReals(subspace));
  engine->SubspaceExpectation(batch, subspace, values.data(), states.data());
  const Scale scale = ScaleOf(test_case, size);
  CheckClose(values, Rows<double>(test_case, size, values_of), kTolerance<T> * scale.strings,
             context + ", values in the subspace");
  const ExactBuffer<T> before(states);
  ExactBuffer<double> gradients(test_case.circuit.shared);
  engine->SubspaceGradient(batch, subspace, upstream.data(), states.data(), gradients.data());
  CheckClose(gradients, Sum(test_case, size, &Example::gradients), kTolerance<T> * scale.upstream,
             context + ", gradients in the subspace");
  CHECK(states == before, context + ", states of the subspace");
  ExactBuffer<double> repeated(test_case.circuit.shared);
  engine->SubspaceGradient(batch, subspace, upstream.data(), states.data(), repeated.data());
  CHECK(repeated == gradients, context + ", gradients in the subspace, repeated");
}

template <class T>
bool CompareHeisenberg(const CircuitCase& test_case, const Kernels<T>& kernels, int64_t size,
                       int64_t threads, const std::string& context) {
  const Circuit& circuit = test_case.circuit;
  const HeisenbergCut cut = FindHeisenbergCut(*test_case.program);
  CHECK(cut.head > 0, context + ", no cut");
  HeisenbergEngine<T> engine(*test_case.program, cut, kernels);
  const ExactBuffer<double> shared(test_case.shared),
      per_example = Rows<double>(test_case, size, each_of);
  const Batch batch = {shared.data(), per_example.data(), size, threads, RunOnThreads(threads)};
  if (!engine.Supports(batch)) return false;
  ExactBuffer<T> values(size * circuit.offsets.size());
  ExactBuffer<double> gradients(circuit.shared), each(size * circuit.per_example);
  CompareExpectations(
      test_case, &engine, batch, [&](int64_t most) { return engine.CachedReals(batch, most); },
      context, &values, &gradients, &each);
  return true;
}

template <class T>
void CallAll(const Program& program, StateVectorEngine<T>* engine, int64_t size, int64_t threads,
             double exponent) {
  const ExactBuffer<double> shared(program.shared, exponent),
      per_example(size * program.per_example, exponent);
  const Batch batch = {shared.data(), per_example.data(), size, threads, RunOnThreads(threads)};
  ExactBuffer<T> values(size * program.readouts), upstream(size * program.readouts, T{1});
  ExactBuffer<T> states(size * (int64_t{2} << program.qubits));
  ExactBuffer<double> shared_gradients(program.shared),
      per_example_gradients(size * program.per_example);
  std::vector<int64_t> order(program.qubits);
  std::iota(order.begin(), order.end(), 0);
  engine->Expectation(batch, values.data(), nullptr, 0);
  engine->Gradient(batch, upstream.data(), nullptr, 0, false, true, nullptr,
                   shared_gradients.data(), per_example_gradients.data());
  engine->State(batch, order.data(), states.data());
  engine->StateGradient(batch, order.data(), states.data(), states.data(), true,
                        shared_gradients.data(), per_example_gradients.data());
}

template struct Results<float>;
template struct Results<double>;
template Results<float> Compare(const CircuitCase&, StateVectorEngine<float>*, int64_t, int64_t,
                                const std::string&);
template Results<double> Compare(const CircuitCase&, StateVectorEngine<double>*, int64_t, int64_t,
                                 const std::string&);
template void CompareSubspace(const CircuitCase&, StateVectorEngine<float>*, int64_t, int64_t,
                              const std::string&);
template void CompareSubspace(const CircuitCase&, StateVectorEngine<double>*, int64_t, int64_t,
                              const std::string&);
template bool CompareHeisenberg(const CircuitCase&, const Kernels<float>&, int64_t, int64_t,
                                const std::string&);
template bool CompareHeisenberg(const CircuitCase&, const Kernels<double>&, int64_t, int64_t,
                                const std::string&);
template void CallAll(const Program&, StateVectorEngine<float>*, int64_t, int64_t, double);
template void CallAll(const Program&, StateVectorEngine<double>*, int64_t, int64_t, double);

}  // namespace tests
}  // namespace qfleet
