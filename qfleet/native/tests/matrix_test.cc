// Phases and products of small matrices, for every instruction set.
#include <complex>

#include "cpu/kernels.h"
#include "random_gate.h"
#include "testing.h"
#include "tests.h"

namespace qfleet {
namespace tests {
namespace {

constexpr long double kPi = 3.14159265358979323846264338327950288L;

// The distance of two numbers in units of the last place of `exact`.
double UnitsBetween(double value, long double exact) {
  const double next = std::nextafter(std::abs(static_cast<double>(exact)), 2.0);
  const double unit = next - std::abs(static_cast<double>(exact));
  return static_cast<double>(std::abs(value - exact) / unit);
}

uint64_t Next(uint64_t* state) {  // SplitMix64's step
  uint64_t z = *state += 0x9e3779b97f4a7c15;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  return z ^ (z >> 31);
}

double Uniform(uint64_t* state, double most) {  // in [-most, most)
  return most * (static_cast<double>(Next(state) >> 11) * 0x1p-52 - 1);
}

// Entry [i][j] of the Pauli word of an index, whose lowest digit is the lowest qubit's letter.
std::complex<double> WordEntry(int32_t word, int32_t qubits, int32_t i, int32_t j) {
  static const std::complex<double> kLetters[4][2][2] = {
      {{1, 0}, {0, 1}}, {{0, 1}, {1, 0}}, {{0, {0, -1}}, {{0, 1}, 0}}, {{1, 0}, {0, -1}}};
  std::complex<double> entry = 1;
  for (int32_t q = 0; q < qubits; ++q) entry *= kLetters[word >> 2 * q & 3][i >> q & 1][j >> q & 1];
  return entry;
}

Matrix Word(int32_t word, int32_t qubits) {
  const int32_t dim = 1 << qubits;
  Matrix matrix(dim * dim);
  for (int32_t at = 0; at < dim * dim; ++at)
    matrix[at] = WordEntry(word, qubits, at / dim, at % dim);
  return matrix;
}

}  // namespace

void HalfTurnPhases(bool light) {
  uint64_t state = 1;
  const int64_t count = light ? 999 : 200'003;  // no multiple of a vector
  std::vector<double> turns(count), cosine(count), sine(count);
  for (int64_t i = 0; i < count; ++i) {
    const double most = i % 3 ? 2 : i % 2 ? 1e-6 : 1e4;
    turns[i] = i % 10 ? Uniform(&state, most) : 0.5 * std::rint(Uniform(&state, 1e14));
  }
  for (const SetKernels& set : SupportedSets()) {
    double worst = 0;
    set.matrix->half_turns(count, turns.data(), cosine.data(), sine.data());
    for (int64_t i = 0; i < count; ++i) {
      const std::string context = std::to_string(turns[i]);
      if (turns[i] == 0.5 * std::rint(2 * turns[i])) {
        CHECK(std::abs(cosine[i]) + std::abs(sine[i]) == 1, context);
        CHECK(cosine[i] == std::rint(std::cos(M_PI * std::remainder(turns[i], 2.0))), context);
        CHECK(sine[i] == std::rint(std::sin(M_PI * std::remainder(turns[i], 2.0))), context);
        continue;
      }
      // Near a zero, by the distance from it, which is exact.
      const double rest = std::remainder(turns[i], 0.5);
      const auto quarter = static_cast<int64_t>(2 * (turns[i] - rest)) & 3;
      const long double small = std::sin(kPi * rest), large = std::cos(kPi * rest);
      const long double cosines[] = {large, -small, -large, small};
      const long double sines[] = {small, large, -small, -large};
      worst = std::max(worst, UnitsBetween(cosine[i], cosines[quarter]));
      worst = std::max(worst, UnitsBetween(sine[i], sines[quarter]));
    }
    CHECK(worst <= 1, "units in the last place: " + std::to_string(worst));
  }
}

void MatrixProducts(bool) {
  uint64_t state = 2;
  for (const SetKernels& set : SupportedSets())
    for (int32_t size : {2, 4})
      for (int64_t samples : {1, 3, 8, 16, 21})
        for (int flags = 0; flags < 16; ++flags) {
          const bool a_shared = flags & 1, b_shared = flags & 2;
          const bool a_adjoint = flags & 4, b_adjoint = flags & 8;
          ExactBuffer<double> a(2 * size * size * (a_shared ? 1 : samples));
          ExactBuffer<double> b(2 * size * size * (b_shared ? 1 : samples));
          ExactBuffer<double> out(2 * size * size * samples, std::nan(""));
          for (ExactBuffer<double>* values : {&a, &b})
            for (size_t i = 0; i < values->size(); ++i) (*values)[i] = Uniform(&state, 1);
          set.matrix->product(size, samples, {a.data(), a_shared, a_adjoint},
                              {b.data(), b_shared, b_adjoint}, out.data());
          const auto entry = [&](ExactBuffer<double>& of, bool shared, bool adjoint, int32_t i,
                                 int32_t j, int64_t s) {
            const int64_t at = 2 * (adjoint ? j * size + i : i * size + j);
            const int64_t step = shared ? 1 : samples, sample = shared ? 0 : s;
            const double im = of[(at + 1) * step + sample];
            return std::complex<double>(of[at * step + sample], adjoint ? -im : im);
          };
          for (int64_t s = 0; s < samples; ++s)
            for (int32_t i = 0; i < size; ++i)
              for (int32_t j = 0; j < size; ++j) {
                std::complex<double> sum = 0;
                for (int32_t m = 0; m < size; ++m)
                  sum += entry(a, a_shared, a_adjoint, i, m, s) *
                         entry(b, b_shared, b_adjoint, m, j, s);
                CHECK(std::abs(entry(out, false, false, i, j, s) - sum) < 1e-14,
                      std::to_string(samples) + " samples, " + std::to_string(flags));
              }
        }
}

void PauliWordMatrices(bool) {
  uint64_t state = 3;
  for (const SetKernels& set : SupportedSets())
    for (int32_t qubits : {1, 2}) {
      const int32_t dim = 1 << qubits, words = dim * dim;
      ExactBuffer<double> u(2 * words), a(words * words), b(words * words);
      for (ExactBuffer<double>* values : {&u, &a, &b})
        for (size_t i = 0; i < values->size(); ++i) (*values)[i] = Uniform(&state, 1);
      ExactBuffer<double> matrix(words * words, std::nan("")), product(words * words, std::nan(""));
      ExactBuffer<double> sums(2 * words, std::nan(""));
      set.word->from_unitary(qubits, u.data(), matrix.data());
      set.word->multiply(qubits, a.data(), b.data(), product.data());
      set.word->sums(qubits, a.data(), sums.data());
      Matrix forward(words), adjoint(words), total(words);
      for (int32_t i = 0; i < dim; ++i)
        for (int32_t j = 0; j < dim; ++j) {
          forward[i * dim + j] = {u[2 * (i * dim + j)], u[2 * (i * dim + j) + 1]};
          adjoint[j * dim + i] = std::conj(forward[i * dim + j]);
        }
      for (int32_t p = 0; p < words; ++p)
        for (int32_t q = 0; q < words; ++q) {
          const Matrix turned = Times(Times(forward, Word(q, qubits), dim), adjoint, dim);
          const Matrix found = Times(Word(p, qubits), turned, dim);
          const Matrix both = Times(Word(p, qubits), Word(q, qubits), dim);
          double trace = 0, entry = 0;
          for (int32_t i = 0; i < dim; ++i) trace += found[i * (dim + 1)].real() / dim;
          for (int32_t k = 0; k < words; ++k) entry += a[p * words + k] * b[k * words + q];
          for (int32_t i = 0; i < words; ++i) total[i] += a[p * words + q] * both[i] / (1.0 * dim);
          const std::string context = std::to_string(p) + ", " + std::to_string(q);
          CHECK(std::abs(matrix[p * words + q] - trace) < 1e-13, context);
          CHECK(std::abs(product[p * words + q] - entry) < 1e-13, context);
        }
      for (int32_t i = 0; i < words; ++i) {
        const std::complex<double> found(sums[2 * i], sums[2 * i + 1]);
        CHECK(std::abs(found - total[i]) < 1e-12, std::to_string(i));
      }
    }
}

}  // namespace tests
}  // namespace qfleet
