// Values, gradients and states against the reference, in all ways in which they can be asked for.
#include <limits>

#include "case.h"
#include "tests.h"

namespace qfleet {
namespace tests {
namespace {

template <class T>
std::string Where(const Case& one, const Set<T>& set, int64_t batch, int64_t threads) {
  return one.name + ", " + set.name + (sizeof(T) == sizeof(float) ? " float" : " double") +
         ", batch " + std::to_string(batch) + ", threads " + std::to_string(threads);
}

// Everything twice: by a sweep that has been used, and by a new one.
template <class T>
void CompareAll(const Case& one, const std::vector<int64_t>& batches,
                const std::vector<int64_t>& threads) {
  for (const Set<T>& set : Sets<T>()) {
    Sweep<T> used(one.program, *set.kernels);
    for (int64_t batch : batches)
      for (int64_t count : threads) {
        const std::string where = Where(one, set, batch, count);
        const Found<T> first = Compare(one, &used, batch, count, where);
        if (batch != batches.back()) continue;
        Sweep<T> fresh(one.program, *set.kernels);
        CHECK(Compare(one, &fresh, batch, count, where) == first, where + ", repeated");
      }
  }
}

}  // namespace

void ReferenceIsRight(bool) {
  Random random(1);
  for (int64_t qubits = 1; qubits <= 4; ++qubits) {
    const Case one(RandomCircuit({qubits}, &random), 1, &random);
    const Example& example = one.examples[0];
    const double step = 1e-5;
    const auto loss = [&](std::vector<double> shared, std::vector<double> each, size_t at,
                          double by) {
      (at < shared.size() ? shared[at] : each[at - shared.size()]) += by;
      const std::vector<double> values =
          Values(one.circuit, State(one.circuit, shared.data(), each.data()));
      double sum = 0;
      for (size_t k = 0; k < values.size(); ++k) sum += example.upstream[k] * values[k];
      return sum;
    };
    std::vector<double> slopes = example.slopes.shared, differences;
    slopes.insert(slopes.end(), example.slopes.each.begin(), example.slopes.each.end());
    for (size_t at = 0; at < slopes.size(); ++at)
      differences.push_back(
          (loss(one.shared, example.each, at, step) - loss(one.shared, example.each, at, -step)) /
          (2 * step));
    CheckClose(slopes, differences, 1e-6, one.name);
  }
}

void SmallCircuits(bool light) {
  Random random(2);
  const std::vector<int64_t> batches =
      light ? std::vector<int64_t>{0, 1, 3, 17} : std::vector<int64_t>{0, 1, 2, 3, 15, 16, 17, 33};
  for (int64_t qubits = 1; qubits <= (light ? 6 : 8); ++qubits)
    for (int64_t variant = 0; variant < (light || qubits > 4 ? 1 : 2); ++variant) {
      Wish wish = {qubits};
      wish.prefix = (qubits + variant) % 2 ? 2 : 0;
      wish.window = qubits > 5 ? 5 : 0;  // copied together in chunks, as far larger states are
      wish.initial = variant;
      const Case one(RandomCircuit(wish, &random), batches.back(), &random);
      CompareAll<float>(one, batches, {1, 5});
      CompareAll<double>(one, batches, {2});
    }
  // Many more gates, each in few ways.
  for (int64_t more = 0; more < (light ? 20 : 100); ++more) {
    Wish wish = {1 + more % 6, 5};
    wish.window = wish.qubits == 6 ? 5 : 0;
    const Case one(RandomCircuit(wish, &random), 17, &random);
    CompareAll<float>(one, {17}, {1});
    CompareAll<double>(one, {1}, {1});
  }
}

void WideCircuits(bool light) {
  Random random(3);
  // Several examples and several amplitudes in the lanes.
  const Case middle(RandomCircuit({12, 6}, &random), 5, &random);
  CompareAll<float>(middle, {1, 5}, {2});
  CompareAll<double>(middle, {5}, {5});
  // A window is at most what a chunk holds: 15 qubits in float, 14 in double.
  Wish wish = {16, 6, 2, 15};
  const Case single(RandomCircuit(wish, &random), 2, &random);
  CompareAll<float>(single, light ? std::vector<int64_t>{1} : std::vector<int64_t>{1, 2}, {5});
  if (light) return;
  wish = {16, 6, 1, 14};
  const Case both(RandomCircuit(wish, &random), 2, &random);
  CompareAll<float>(both, {1}, {1, 2});
  CompareAll<double>(both, {2}, {5});
  wish = {20, 5, 1, 14};
  const Case wide(RandomCircuit(wish, &random), 1, &random);
  const Set<float> best = Sets<float>().back();
  Sweep<float> sweep(wide.program, *best.kernels);
  Compare(wide, &sweep, 1, 2, Where(wide, best, 1, 2));
}

void Spans(bool light) {
  Random random(10);
  for (int64_t qubits : light ? std::vector<int64_t>{4} : std::vector<int64_t>{4, 7, 10, 16}) {
    Wish wish = {qubits, 8, 1, qubits == 4 ? 0 : qubits == 16 ? 14 : 6};
    wish.spanned = true;
    const Case one(RandomCircuit(wish, &random), qubits == 16 ? 12 : 33, &random, 1);
    const auto check = [&](auto zero) {
      using T = decltype(zero);
      for (const Set<T>& set : Sets<T>())
        for (int64_t threads : {1, 5}) {
          Sweep<T> sweep(one.program, *set.kernels);
          const int64_t batch = one.examples.size();
          CompareSpan(one, &sweep, batch, threads, Where(one, set, batch, threads));
        }
    };
    check(0.0f);
    check(0.0);
  }
}

void EdgesOfTheFormat(bool) {
  Random random(4);
  const auto check = [&](const Circuit& circuit, const std::string& name) {
    Case one(circuit, 17, &random);
    one.name += ", " + name;
    CompareAll<float>(one, {0, 1, 17}, {1, 2});
    CompareAll<double>(one, {0, 1, 17}, {2});
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
    bare.shared = bare.each = 0;
    check(bare, "no exponents");
    check(RandomCircuit({qubits, 4, 3}, &random), "one block after the prefix");
  }
}

void NothingIsLeftBehind(bool) {
  Random random(5);
  for (int64_t qubits : {3, 7}) {
    Wish wish = {qubits, 8, 1, qubits == 7 ? 5 : 0};
    const Case one(RandomCircuit(wish, &random), 17, &random);
    for (const Set<float>& set : Sets<float>())
      for (int64_t batch : {1, 17}) {
        const std::string where = Where(one, set, batch, 2);
        Sweep<float> sweep(one.program, *set.kernels);
        const Found<float> before = Compare(one, &sweep, batch, 2, where);
        for (double bad :
             {std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity()})
          CallAll(*one.program, &sweep, batch, 2, bad);
        CHECK(Compare(one, &sweep, batch, 2, where) == before, where + ", after NaN");
      }
  }
}

void SeveralCallers(bool light) {
  Random random(6);
  const Case one(RandomCircuit({6, 6, 1, 5}, &random), 33, &random);
  const Set<float> set = Sets<float>().back();
  Sweep<float> sweep(one.program, *set.kernels);
  std::mutex mutex;
  std::string wrong;
  const auto call = [&](int64_t batch) {
    std::string why;
    try {
      Sweep<float> alone(one.program, *set.kernels);
      const std::string where = Where(one, set, batch, 2);
      const Found<float> expected = Compare(one, &alone, batch, 2, where);
      for (int turn = 0; turn < (light ? 2 : 10); ++turn)
        CHECK(Compare(one, &sweep, batch, 2, where) == expected, where);
    } catch (const Failed& failed) {
      why = failed.what();
    }
    const std::lock_guard<std::mutex> lock(mutex);
    wrong += why;
  };
  std::vector<std::thread> callers;
  for (int64_t batch : {1, 17, 33}) callers.emplace_back(call, batch);
  for (std::thread& caller : callers) caller.join();
  CHECK(wrong.empty(), wrong);
}

}  // namespace tests
}  // namespace qfleet
