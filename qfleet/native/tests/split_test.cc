// States under steps of small matrices, and the seeds of their derivatives: against dense loops.
#include <complex>
#include <memory>

#include "pulses/split_steps.h"
#include "random_gate.h"
#include "testing.h"
#include "tests.h"

namespace qfleet {

namespace tests {
namespace {

// A unitary matrix that mixes the rows of each set of `stride` rows, by Gram-Schmidt.
Matrix RandomUnitary(int64_t size, int64_t stride, Random* random) {
  Matrix rows(size * size);
  for (int64_t r = 0; r < size; ++r) {
    Complex* row = rows.data() + r * size;
    for (int64_t c = r % stride; c < size; c += stride)
      row[c] = {RandomReal(random, -1, 1), RandomReal(random, -1, 1)};
    double norm = 0;
    for (int64_t other = 0; other <= r; ++other) {
      const Complex* kept = rows.data() + other * size;
      Complex overlap = 0;
      for (int64_t c = 0; c < size; ++c) overlap += std::conj(kept[c]) * row[c];
      if (other == r) norm = std::sqrt(overlap.real());
      for (int64_t c = 0; c < size && other < r; ++c) row[c] -= overlap * kept[c];
    }
    for (int64_t c = 0; c < size; ++c) row[c] /= norm;
  }
  return rows;
}

// Random operations on qubits of any levels.
struct SplitCase {
  SplitCase(std::vector<int32_t> wanted_levels, int64_t count, int64_t most, Random* random)
      : levels(std::move(wanted_levels)) {
    for (int32_t one : levels) size *= one;
    for (int64_t i = 0; i < count; ++i) {
      SplitOperation one = {{}, nullptr, i % 2 == 0, 0, nullptr};
      const int64_t wanted = RandomInt(random, 1, std::min<int64_t>(most, levels.size()));
      while (static_cast<int64_t>(one.qubits.size()) < wanted) {
        const int32_t qubit = static_cast<int32_t>(RandomInt(random, 0, levels.size() - 1));
        if (!std::count(one.qubits.begin(), one.qubits.end(), qubit)) one.qubits.push_back(qubit);
      }
      const int64_t rows = SplitRows(levels, one), sets = one.varies ? kSteps : 1;
      matrices.emplace_back();
      for (int64_t set = 0; set < sets; ++set)
        for (Complex z : RandomUnitary(rows, one.varies ? 1 : levels[one.qubits.back()], random))
          matrices.back().insert(matrices.back().end(), {z.real(), z.imag()});
      if (!one.varies) one.turn = RandomReal(random, -1, 1);
      seeds.push_back(
          std::make_unique<ExactBuffer<double>>(one.varies ? 2 * kSteps * rows * rows : 0));
      if (one.varies) one.seeds = seeds.back()->data();
      operations.push_back(one);
    }
    for (int64_t i = 0; i < 4 * size; ++i) states.push_back(RandomReal(random, -1, 1));
    for (int64_t i = 0; i < count; ++i) operations[i].matrices = matrices[i].data();
  }

  Complex Entry(int64_t operation, int64_t step, int64_t r, int64_t c) const {
    const SplitOperation& one = operations[operation];
    const int64_t rows = SplitRows(levels, one), behind = rows / levels[one.qubits[0]];
    const double* z = one.matrices + 2 * ((one.varies ? step * rows + r : r) * rows + c);
    return Complex(z[0], z[1]) *
           std::polar(1.0, one.turn * (step + 0.5) * static_cast<double>(r / behind - c / behind));
  }

  // Calls visit(index, row, other, column) for each amplitude and those that its row mixes.
  template <class Visit>
  void VisitEntries(const SplitOperation& one, const Visit& visit) const {
    std::vector<int64_t> places(levels.size(), 1);
    for (size_t q = levels.size() - 1; q-- > 0;) places[q] = places[q + 1] * levels[q + 1];
    const int64_t rows = SplitRows(levels, one);
    for (int64_t index = 0; index < size; ++index) {
      int64_t row = 0, base = index;
      for (int32_t q : one.qubits) {
        const int64_t level = index / places[q] % levels[q];
        row = row * levels[q] + level;
        base -= level * places[q];
      }
      for (int64_t c = 0; c < rows; ++c) {
        int64_t rest = c, other = base;
        for (size_t i = one.qubits.size(); i-- > 0; rest /= levels[one.qubits[i]])
          other += rest % levels[one.qubits[i]] * places[one.qubits[i]];
        visit(index, row, other, c);
      }
    }
  }

  Matrix Applied(const Matrix& state, int64_t operation, int64_t step, bool adjoint) const {
    Matrix out(size);
    VisitEntries(operations[operation], [&](int64_t index, int64_t r, int64_t other, int64_t c) {
      out[index] +=
          (adjoint ? std::conj(Entry(operation, step, c, r)) : Entry(operation, step, r, c)) *
          state[other];
    });
    return out;
  }

  static constexpr int64_t kSteps = 3;
  std::vector<int32_t> levels;
  int64_t size = 1;
  std::vector<SplitOperation> operations;
  std::vector<std::vector<double>> matrices;
  std::vector<std::unique_ptr<ExactBuffer<double>>> seeds;
  std::vector<double> states;
};

Matrix Complexes(const double* reals, int64_t count) {
  Matrix found(count);
  for (int64_t i = 0; i < count; ++i) found[i] = {reals[2 * i], reals[2 * i + 1]};
  return found;
}

std::vector<double> Reals(const Matrix& numbers) {
  std::vector<double> found;
  for (Complex z : numbers) found.insert(found.end(), {z.real(), z.imag()});
  return found;
}

void CheckCase(const SplitCase& one, const SetKernels& set, const std::string& context) {
  const SplitSteps steps(one.levels, one.operations, SplitCase::kSteps, *set.split);
  const int64_t count = static_cast<int64_t>(one.operations.size());
  Matrix psi = Complexes(one.states.data(), one.size);
  Matrix derivative = Complexes(one.states.data() + 2 * one.size, one.size);
  const std::vector<double> start = Reals(psi);
  for (int64_t step = 0; step < SplitCase::kSteps; ++step)
    for (int64_t i = 0; i < count; ++i) psi = one.Applied(psi, i, step, false);
  ExactBuffer<double> found(start);
  steps.Forward(found.data());
  CheckClose(found, Reals(psi), 1e-11, context + ", forward");

  ExactBuffer<double> both(4 * one.size);
  std::copy_n(found.data(), 2 * one.size, both.data());
  std::copy_n(one.states.data() + 2 * one.size, 2 * one.size, both.data() + 2 * one.size);
  steps.Backward(both.data());
  for (int64_t step = SplitCase::kSteps; step-- > 0;)
    for (int64_t i = count; i-- > 0;) {
      if (one.operations[i].seeds) {
        const int64_t rows = SplitRows(one.levels, one.operations[i]);
        Matrix wanted(rows * rows);
        one.VisitEntries(one.operations[i],
                         [&](int64_t index, int64_t r, int64_t other, int64_t c) {
                           wanted[r * rows + c] += derivative[index] * std::conj(psi[other]);
                         });
        const double* seeds = one.operations[i].seeds + 2 * rows * rows * step;
        CheckClose(std::vector<double>(seeds, seeds + 2 * rows * rows), Reals(wanted), 1e-10,
                   context + ", seeds of operation " + std::to_string(i));
      }
      psi = one.Applied(psi, i, step, true);
      derivative = one.Applied(derivative, i, step, true);
    }
  std::vector<double> wanted = Reals(psi);
  for (double number : Reals(derivative)) wanted.push_back(number);
  CheckClose(both, wanted, 1e-10, context + ", backward");
}

}  // namespace

void SplitStates(bool light) {
  Random random(11);
  std::vector<std::vector<int32_t>> cases = {{2}, {3, 2, 3}, {2, 2, 2}, {2, 2, 2, 2, 2, 2}};
  if (!light) cases.insert(cases.end(), {{3, 3, 3, 2}, std::vector<int32_t>(8, 2), {2, 9, 2}});
  for (const std::vector<int32_t>& levels : cases)
    for (int64_t most : {1, 2, 3}) {
      if (levels.size() == 3 && levels[1] == 9 && most > 1) continue;
      const SplitCase one(levels, 11, most, &random);
      for (const SetKernels& set : SupportedSets())
        CheckCase(one, set,
                  std::to_string(one.size) + " levels, operations of " + std::to_string(most) +
                      " qubits, " + set.name);
    }
}

}  // namespace tests
}  // namespace qfleet
