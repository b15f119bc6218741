#include "random_gate.h"

#include <algorithm>
#include <cmath>
#include <set>

namespace qfleet {
namespace tests {
namespace {

Complex Phase(double angle) { return std::polar(1.0, M_PI * angle); }

// Sets the columns of `states` to random orthonormal vectors on these basis states.
void RandomizeFrame(const std::vector<int64_t>& states, int64_t size, Random* random,
                    Matrix* frame) {
  std::normal_distribution<double> normal;
  std::vector<std::vector<Complex>> found;
  for (int64_t at : states) {
    std::vector<Complex> vector(states.size());
    for (Complex& x : vector) x = Complex(normal(*random), normal(*random));
    for (const auto& other : found) {
      Complex overlap = 0;
      for (size_t i = 0; i < vector.size(); ++i) overlap += std::conj(other[i]) * vector[i];
      for (size_t i = 0; i < vector.size(); ++i) vector[i] -= overlap * other[i];
    }
    double norm = 0;
    for (const Complex& x : vector) norm += std::norm(x);
    for (Complex& x : vector) x /= std::sqrt(norm);
    for (size_t i = 0; i < states.size(); ++i) (*frame)[states[i] * size + at] = vector[i];
    found.push_back(vector);
  }
}

}  // namespace

double RandomReal(Random* random, double from, double to) {
  return std::uniform_real_distribution<double>(from, to)(*random);
}

int64_t RandomInt(Random* random, int64_t from, int64_t to) {
  return std::uniform_int_distribution<int64_t>(from, to)(*random);
}

Matrix Times(const Matrix& a, const Matrix& b, int64_t size) {
  Matrix out(size * size);
  for (int64_t r = 0; r < size; ++r)
    for (int64_t k = 0; k < size; ++k)
      for (int64_t c = 0; c < size; ++c) out[r * size + c] += a[r * size + k] * b[k * size + c];
  return out;
}

Matrix Gate::At(const double* shared, const double* per_example) const {
  Matrix matrix(size * size);
  for (size_t k = 0; k < projectors.size(); ++k) {
    double angle = 0;
    for (size_t e = 0; e < exponents.size(); ++e)
      angle += half_turns[k * exponents.size() + e] *
               (exponents[e] < 0 ? per_example[~exponents[e]] : shared[exponents[e]]);
    for (size_t i = 0; i < matrix.size(); ++i) matrix[i] += Phase(angle) * projectors[k][i];
  }
  return matrix;
}

Matrix Gate::TangentAt(const double* shared, const double* per_example,
                       const double* shared_tangents, const double* per_example_tangents) const {
  Matrix matrix(size * size), gate = At(shared, per_example);
  for (size_t e = 0; e < exponents.size(); ++e) {
    const Matrix generator = Generator(e);
    const double tangent =
        exponents[e] < 0 ? per_example_tangents[~exponents[e]] : shared_tangents[exponents[e]];
    for (int64_t i = 0; i < size; ++i)
      for (int64_t j = 0; j < size; ++j)
        for (int64_t m = 0; m < size; ++m)
          matrix[i * size + j] +=
              Complex(0, M_PI * tangent) * generator[i * size + m] * gate[m * size + j];
  }
  return matrix;
}

Matrix Gate::Generator(size_t e) const {
  Matrix matrix(size * size);
  for (size_t k = 0; k < projectors.size(); ++k)
    for (size_t i = 0; i < matrix.size(); ++i)
      matrix[i] += half_turns[k * exponents.size() + e] * projectors[k][i];
  return matrix;
}

bool Gate::HasPerExample() const {
  return std::any_of(exponents.begin(), exponents.end(), [](int64_t e) { return e < 0; });
}

bool Gate::HasShared() const {
  return std::any_of(exponents.begin(), exponents.end(), [](int64_t e) { return e >= 0; });
}

Gate RandomGate(int64_t size, Kind kind, const std::vector<int64_t>& exponents, Random* random) {
  if (kind == kSingle && size == 4) {  // embedded into two qubits
    const Gate small =
        RandomGate(2, static_cast<Kind>(RandomInt(random, kDense, kPermuting)), exponents, random);
    Gate gate = small;
    gate.size = 4;
    const int64_t own = RandomInt(random, 0, 1), other = 1 - own;
    for (size_t k = 0; k < small.projectors.size(); ++k) {
      gate.projectors[k].assign(16, 0);
      for (int64_t i = 0; i < 4; ++i)
        for (int64_t j = 0; j < 4; ++j)
          if ((i >> other & 1) == (j >> other & 1))
            gate.projectors[k][i * 4 + j] =
                small.projectors[k][(i >> own & 1) * 2 + (j >> own & 1)];
    }
    return gate;
  }
  // The frame's columns are the eigenvectors; those in `active` have eigenphases other than 0.
  Matrix frame(size * size);
  for (int64_t i = 0; i < size; ++i) frame[i * (size + 1)] = 1;
  std::set<int64_t> active;
  const int64_t bit = size == 2 ? 1 : RandomInt(random, 1, 2);
  const int64_t low = RandomInt(random, 0, size - 1) & ~bit, high = low | bit;
  if (kind == kDense) {
    std::vector<int64_t> all;
    for (int64_t i = 0; i < size; ++i) active.insert(i), all.push_back(i);
    RandomizeFrame(all, size, random, &frame);
  } else if (kind == kDiagonal) {
    for (int64_t i = 0; i < size; ++i)
      if (i == low || RandomInt(random, 0, 1)) active.insert(i);
  } else if (kind == kPermuting) {  // swaps two basis states
    const int64_t a = RandomInt(random, 0, 1) ? low : high, b = size == 2 ? a ^ bit : 3 - low;
    const double half = std::sqrt(0.5);
    for (int64_t i : {a, b})
      for (int64_t j : {a, b}) frame[i * size + j] = i == b && j == b ? -half : half;
    active.insert(b);
  } else {
    active = {low, high};
    RandomizeFrame({low, high}, size, random, &frame);
  }
  Gate gate = {size, exponents, {}, {}};
  Matrix rest(size * size), unitary(size * size);
  for (int64_t k = 0; k < size; ++k) {
    const Complex phase = kind == kPermuting ? Complex(-1) : Phase(RandomReal(random, -1, 1));
    Matrix projector(size * size);
    for (int64_t i = 0; i < size; ++i)
      for (int64_t j = 0; j < size; ++j)
        projector[i * size + j] = frame[i * size + k] * std::conj(frame[j * size + k]);
    for (int64_t i = 0; i < size * size; ++i) {
      unitary[i] += (active.count(k) ? phase : Complex(1)) * projector[i];
      if (!active.count(k)) rest[i] += projector[i];
    }
    if (!active.count(k)) continue;
    gate.projectors.push_back(projector);
    for (size_t e = 0; e < exponents.size(); ++e)
      gate.half_turns.push_back(kind == kPermuting ? 1 : RandomReal(random, -1, 1));
  }
  if (static_cast<int64_t>(active.size()) < size) {
    gate.projectors.push_back(rest);
    gate.half_turns.resize(gate.projectors.size() * exponents.size());
  }
  if (exponents.empty()) gate.projectors = {unitary};
  return gate;
}

}  // namespace tests
}  // namespace qfleet
