#include "case.h"

#include <numeric>

namespace qfleet {
namespace tests {
namespace {

// The numbers of the first `batch` examples, one after the other.
template <class T, class Numbers>
Exact<T> Rows(const Case& one, int64_t batch, const Numbers& numbers) {
  std::vector<double> rows;
  for (int64_t b = 0; b < batch; ++b) {
    const std::vector<double>& row = numbers(one.examples[b]);
    rows.insert(rows.end(), row.begin(), row.end());
  }
  return Exact<T>(rows);
}

std::vector<double> Parts(const Amplitudes& amplitudes) {
  std::vector<double> parts;
  for (const Complex& x : amplitudes) parts.insert(parts.end(), {x.real(), x.imag()});
  return parts;
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

std::vector<double> Sum(const Case& one, int64_t batch, Slopes Example::* slopes) {
  std::vector<double> sum(one.circuit.shared);
  for (int64_t b = 0; b < batch; ++b)
    for (size_t e = 0; e < sum.size(); ++e) sum[e] += (one.examples[b].*slopes).shared[e];
  return sum;
}

// Sums of the strings' weights, 1 at least: what the tolerances are relative to.
struct Scale {
  double strings = 1;   // of any readout
  double example = 1;   // times any example's upstream gradients
  double upstream = 1;  // times all of them
};

Scale ScaleOf(const Case& one, int64_t size) {
  Scale scale;
  for (size_t k = 0; k < one.circuit.offsets.size(); ++k) {
    double sum = 0;
    for (const Pauli& string : one.circuit.strings) sum += std::abs(string.weights[k]);
    scale.strings = std::max(scale.strings, sum);
  }
  for (int64_t b = 0; b < size; ++b) {
    double sum = 0;
    for (double value : one.examples[b].upstream) sum += std::abs(value) * scale.strings;
    scale.example = std::max(scale.example, sum);
    scale.upstream += sum;
  }
  return scale;
}

const auto values_of = [](const Example& example) { return example.values; };
const auto each_of = [](const Example& example) { return example.each; };
const auto upstream_of = [](const Example& example) { return example.upstream; };

}  // namespace

Case::Case(const Circuit& circuit_, int64_t count, Random* random, int64_t turned)
    : circuit(circuit_), program(std::make_shared<Program>(circuit_.Written())) {
  const auto draw = [&](int64_t size, double most) {
    std::vector<double> values(size);
    for (double& value : values) value = Uniform(random, -most, most);
    return values;
  };
  // Some are 0 or 1, where a gate is the identity or a permutation.
  const auto exponents = [&](int64_t size) {
    std::vector<double> values = draw(size, 2);
    for (double& value : values)
      if (Draw(random, 0, 2) == 0) value = static_cast<double>(Draw(random, 0, 1));
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
    example.each = exponents(circuit.each);
    std::vector<int64_t> columns(circuit.each);
    std::iota(columns.begin(), columns.end(), 0);
    std::shuffle(columns.begin(), columns.end(), *random);
    for (int64_t e = turned; e < circuit.each; ++e) example.each[columns[e]] = 0;
    example.upstream = draw(circuit.offsets.size(), 1);
    const double *own = example.each.data(), *all = shared.data();
    const Amplitudes psi = State(circuit, all, own);
    example.values = Values(circuit, psi);
    example.slopes = ValueSlopes(circuit, all, own, example.upstream.data());
    example.state = Permuted(psi, order);
    const std::vector<double> parts = draw(2 * psi.size(), 1 / std::sqrt(psi.size()));
    for (size_t x = 0; x < psi.size(); ++x)
      example.state_upstream.push_back(Complex(parts[2 * x], parts[2 * x + 1]));
    example.state_slopes =
        StateSlopes(circuit, all, own, Permuted(example.state_upstream, inverse));
    examples.push_back(example);
  }
  name = std::to_string(circuit.qubits) + " qubits";
}

template <class T>
bool Found<T>::operator==(const Found& other) const {
  return values == other.values && states == other.states && shared == other.shared &&
         each == other.each && state_shared == other.state_shared && state_each == other.state_each;
}

template <class T>
Found<T> Compare(const Case& one, Sweep<T>* sweep, int64_t size, int64_t threads,
                 const std::string& where) {
  const Circuit& circuit = one.circuit;
  const int64_t readouts = circuit.offsets.size(), amplitudes = int64_t{1} << circuit.qubits;
  const Exact<double> shared(one.shared);
  const Exact<double> each = Rows<double>(one, size, each_of);
  const Exact<T> upstream = Rows<T>(one, size, upstream_of);
  const Batch batch = {shared.data(), each.data(), size, threads, Threads(threads)};
  Found<T> found = {Exact<T>(size * readouts),     Exact<T>(2 * size * amplitudes),
                    Exact<double>(circuit.shared), Exact<double>(size * circuit.each),
                    Exact<double>(circuit.shared), Exact<double>(size * circuit.each)};

  const Scale scale = ScaleOf(one, size);
  const double tolerance = kTolerance<T>;

  sweep->Expectation(batch, found.values.data(), nullptr, 0);
  CheckClose(found.values, Rows<double>(one, size, values_of), tolerance * scale.strings,
             where + ", values");
  sweep->Gradient(batch, upstream.data(), nullptr, 0, false, true, found.shared.data(),
                  found.each.data());
  CheckClose(found.shared, Sum(one, size, &Example::slopes), tolerance * scale.upstream,
             where + ", slopes by shared exponents");
  CheckClose(found.each,
             Rows<double>(one, size, [](const Example& example) { return example.slopes.each; }),
             tolerance * scale.example, where + ", slopes by each example's exponents");

  // Without the gradient by each example's exponents; and what is there already is added to.
  Exact<double> added(circuit.shared, 1.0);
  sweep->Gradient(batch, upstream.data(), nullptr, 0, false, false, added.data(), nullptr);
  for (size_t e = 0; e < added.size(); ++e) added[e] -= 1;
  CheckClose(added, found.shared, tolerance * scale.upstream, where + ", shared alone");

  // The states of all tiles, or of the last one, kept from forward to backward.
  const Shape shape = sweep->ShapeOf(batch);
  for (int64_t most : {int64_t{1} << 40, int64_t{1}}) {
    const int64_t reals = sweep->Kept(shape, most);
    Exact<T> kept(reals), values(size * readouts);
    sweep->Expectation(batch, values.data(), kept.data(), reals);
    CHECK(values == found.values, where + ", keeping states");
    const Exact<T> before(kept);
    for (bool ours : {false, true}) {
      Exact<double> by_shared(circuit.shared), by_each(size * circuit.each);
      sweep->Gradient(batch, upstream.data(), kept.data(), reals, ours, true, by_shared.data(),
                      by_each.data());
      CHECK(by_shared == found.shared && by_each == found.each, where + ", from kept states");
      CHECK(ours || kept == before, where + ", others' kept states");
    }
  }

  sweep->State(batch, one.order.data(), found.states.data());
  CheckClose(found.states,
             Rows<double>(one, size, [](const Example& example) { return Parts(example.state); }),
             tolerance, where + ", states");
  const Exact<T> state_upstream =
      Rows<T>(one, size, [](const Example& example) { return Parts(example.state_upstream); });
  sweep->StateGradient(batch, one.order.data(), found.states.data(), state_upstream.data(), true,
                       found.state_shared.data(), found.state_each.data());
  CheckClose(found.state_shared, Sum(one, size, &Example::state_slopes),
             tolerance * std::max<double>(1, size), where + ", the states' slopes");
  CheckClose(
      found.state_each,
      Rows<double>(one, size, [](const Example& example) { return example.state_slopes.each; }),
      tolerance, where + ", the states' slopes by each example's exponents");
  return found;
}

template <class T>
void CompareSpan(const Case& one, Sweep<T>* sweep, int64_t size, int64_t threads,
                 const std::string& where) {
  const Exact<double> shared(one.shared), each = Rows<double>(one, size, each_of);
  const Exact<T> upstream = Rows<T>(one, size, upstream_of);
  const Batch batch = {shared.data(), each.data(), size, threads, Threads(threads)};
  const Span span = FindSpan(*one.program, batch.each, batch.size, batch.size - 1);
  CHECK(span.states > 0 && span.states < size, where + ", no span");
  Exact<T> values(upstream.size()), states(sweep->SpanReals(span));
  sweep->SpanExpectation(batch, span, values.data(), states.data());
  const Scale scale = ScaleOf(one, size);
  CheckClose(values, Rows<double>(one, size, values_of), kTolerance<T> * scale.strings,
             where + ", values by the span");
  const Exact<T> before(states);
  Exact<double> slopes(one.circuit.shared);
  sweep->SpanGradient(batch, span, upstream.data(), states.data(), slopes.data());
  CheckClose(slopes, Sum(one, size, &Example::slopes), kTolerance<T> * scale.upstream,
             where + ", slopes by the span");
  CHECK(states == before, where + ", the span's states");
  Exact<double> again(one.circuit.shared);
  sweep->SpanGradient(batch, span, upstream.data(), states.data(), again.data());
  CHECK(again == slopes, where + ", slopes by the span, repeated");
}

template <class T>
void CallAll(const Program& program, Sweep<T>* sweep, int64_t size, int64_t threads,
             double exponent) {
  const Exact<double> shared(program.shared, exponent), each(size * program.each, exponent);
  const Batch batch = {shared.data(), each.data(), size, threads, Threads(threads)};
  Exact<T> values(size * program.readouts), upstream(size * program.readouts, T{1});
  Exact<T> states(size * (int64_t{2} << program.qubits));
  Exact<double> by_shared(program.shared), by_each(size * program.each);
  std::vector<int64_t> order(program.qubits);
  std::iota(order.begin(), order.end(), 0);
  sweep->Expectation(batch, values.data(), nullptr, 0);
  sweep->Gradient(batch, upstream.data(), nullptr, 0, false, true, by_shared.data(),
                  by_each.data());
  sweep->State(batch, order.data(), states.data());
  sweep->StateGradient(batch, order.data(), states.data(), states.data(), true, by_shared.data(),
                       by_each.data());
}

template struct Found<float>;
template struct Found<double>;
template Found<float> Compare(const Case&, Sweep<float>*, int64_t, int64_t, const std::string&);
template Found<double> Compare(const Case&, Sweep<double>*, int64_t, int64_t, const std::string&);
template void CompareSpan(const Case&, Sweep<float>*, int64_t, int64_t, const std::string&);
template void CompareSpan(const Case&, Sweep<double>*, int64_t, int64_t, const std::string&);
template void CallAll(const Program&, Sweep<float>*, int64_t, int64_t, double);
template void CallAll(const Program&, Sweep<double>*, int64_t, int64_t, double);

}  // namespace tests
}  // namespace qfleet
