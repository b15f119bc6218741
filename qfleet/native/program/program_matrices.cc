#include "program/program_matrices.h"

#include <algorithm>
#include <cmath>

#include "program/matrix_batch.h"

namespace qfleet {
namespace {

// An exponent, or its tangent, of one sample; 0 for a null pointer and for absent samples.
double ExponentOf(const GateTables& program, int64_t exponent, const double* shared,
                  const double* per_example, int64_t s, int64_t present) {
  if (exponent >= 0) return shared ? shared[exponent] : 0;
  return per_example && s < present ? per_example[s * program.per_example + ~exponent] : 0;
}

bool HasTangent(const GateTables& program, const Factor& factor, const Exponents& exponents,
                int64_t samples) {
  if (!exponents.shared_tangents && !exponents.per_example_tangents) return false;
  for (int64_t exponent : factor.exponents)
    for (int64_t s = 0; s < (exponent < 0 ? samples : 1); ++s)
      if (ExponentOf(program, exponent, exponents.shared_tangents, exponents.per_example_tangents,
                     s, exponents.present) != 0)
        return true;
  return false;
}

// A factor's matrices for consecutive examples.
DualMatrixBatch FactorMatrices(const GateTables& program, const Factor& factor,
                               const Exponents& exponents, int64_t samples) {
  DualMatrixBatch batch(factor.size, samples);
  const int64_t count = factor.exponents.size();
  const int32_t entries = factor.size * factor.size;
  if (count == 0) {  // constant
    for (int64_t s = 0; s < samples; ++s)
      for (int32_t i = 0; i < entries; ++i) {
        batch.value.at(i, 0)[s] = factor.projectors[i].real();
        batch.value.at(i, 1)[s] = factor.projectors[i].imag();
      }
    return batch;
  }
  // The angle of eigenspace k in half-turns, or its tangent.
  const auto angle = [&](int64_t k, const double* shared, const double* per_example, int64_t s) {
    double sum = 0;
    for (int64_t e = 0; e < count; ++e)
      sum += factor.half_turns[k * count + e] *
             ExponentOf(program, factor.exponents[e], shared, per_example, s, exponents.present);
    return sum;
  };
  const bool has_tangent = HasTangent(program, factor, exponents, samples);
  const int64_t phases = factor.spaces * samples;
  std::vector<double> turns(3 * phases);
  double *cosine = &turns[phases], *sine = cosine + phases;
  for (int64_t k = 0; k < factor.spaces; ++k)
    for (int64_t s = 0; s < samples; ++s)
      turns[k * samples + s] = angle(k, exponents.shared, exponents.per_example, s);
  HalfTurns(phases, turns.data(), cosine, sine);
  for (int64_t k = 0; k < factor.spaces; ++k, cosine += samples, sine += samples) {
    const double* projector = reinterpret_cast<const double*>(&factor.projectors[k * entries]);
    batch.value.AddPhased(cosine, sine, projector);
    if (!has_tangent) continue;
    for (int64_t s = 0; s < samples; ++s) {
      const double rate =
          M_PI * angle(k, exponents.shared_tangents, exponents.per_example_tangents, s);
      const double real = cosine[s];
      cosine[s] = -rate * sine[s];
      sine[s] = rate * real;
    }
    batch.MakeTangent().AddPhased(cosine, sine, projector);
  }
  return batch;
}

// The matrix of a factor sequence as a batch of one sample.
DualMatrixBatch SequenceMatrix(const SharedMatrices& shared_matrices, int64_t sequence,
                               int32_t size) {
  DualMatrixBatch batch(size, 1);
  std::copy_n(shared_matrices.product(sequence), 2 * size * size, batch.value.values().begin());
  if (const double* tangent = shared_matrices.product_tangent(sequence))
    std::copy_n(tangent, 2 * size * size, batch.MakeTangent().values().begin());
  return batch;
}

// Adds -2 pi Im tr(H Y) of each sample to out[sample], for y [D * D] (re, im) [samples].
void AddDerivatives(const Factor& factor, int64_t e, const double* y, int64_t samples,
                    double* out) {
  const int32_t reals = 2 * factor.size * factor.size;
  const double* weights = &factor.derivatives[e * reals];
  for (int32_t i = 0; i < reals; ++i, y += samples)
    if (weights[i] != 0)
      for (int64_t s = 0; s < samples; ++s) out[s] += weights[i] * y[s];
}

// y = u^dagger y u.
void Uncompute(const DualMatrixBatch& u, DualMatrixBatch* y) {
  DualMatrixBatch y_times_u(y->value.size(), y->value.samples());
  y_times_u.Product(*y, false, u, false);
  y->Product(u, true, y_times_u, false);
}

}  // namespace

bool IsAbsent(const GateTables& program, const Factor& factor, const Exponents& exponents) {
  if (!exponents.zeros_are_absent || factor.exponents.empty()) return false;
  return std::all_of(factor.exponents.begin(), factor.exponents.end(), [&](int64_t exponent) {
    if (exponent >= 0) return false;
    const double* at = exponents.per_example + ~exponent;
    for (int64_t s = 0; s < exponents.present; ++s, at += program.per_example)
      if (*at != 0) return false;
    return true;
  });
}

bool IsAbsent(const GateTables& program, const MatrixProduct& block, const Exponents& exponents) {
  return exponents.zeros_are_absent &&
         std::all_of(block.items.begin(), block.items.end(), [&](int64_t item) {
           return item < 0 && IsAbsent(program, program.factors[~item], exponents);
         });
}

void BlockMatrices(const GateTables& program, const MatrixProduct& block,
                   const SharedMatrices& shared_matrices, const Exponents& exponents,
                   int64_t samples, std::vector<double>* out, std::vector<double>* tangents) {
  const int32_t size = block.size();
  DualMatrixBatch product(size, samples);
  bool first = true;
  for (int64_t item : block.items) {
    if (item < 0 && IsAbsent(program, program.factors[~item], exponents)) continue;
    DualMatrixBatch matrix =
        item >= 0 ? SequenceMatrix(shared_matrices, item, size)
                  : FactorMatrices(program, program.factors[~item], exponents, samples);
    if (first) {
      product = std::move(matrix);
    } else {
      DualMatrixBatch next(size, std::max(matrix.value.samples(), product.value.samples()));
      next.Product(matrix, false, product, false);
      product = std::move(next);
    }
    first = false;
  }
  if (first)
    for (int32_t i = 0; i < size; ++i)
      std::fill_n(product.value.at(i * (size + 1), 0), samples, 1.0);
  if (product.value.samples() < samples) {  // all per-example factors are absent
    DualMatrixBatch repeated(size, samples);
    for (int32_t i = 0; i < 2 * size * size; ++i)
      std::fill_n(repeated.value.at(i / 2, i % 2), samples, *product.value.at(i / 2, i % 2));
    product = std::move(repeated);
  }
  *out = std::move(product.value.values());
  tangents->clear();
  if (product.tangent) *tangents = std::move(product.tangent->values());
}

void BlockGradients(const GateTables& program, const MatrixProduct& block,
                    const SharedMatrices& shared_matrices, const Exponents& exponents,
                    int64_t samples, bool want_per_example, const double* sums,
                    const double* sum_tangents, std::vector<std::vector<double>>* sequence_sums,
                    double* shared_gradients, double* per_example_gradients) {
  const int32_t size = block.size();
  DualMatrixBatch y(size, samples);
  const int64_t reals = y.value.values().size();
  std::copy_n(sums, reals, y.value.values().begin());
  if (sum_tangents) std::copy_n(sum_tangents, reals, y.MakeTangent().values().begin());
  const auto needs_derivative = [&](int64_t item) {
    if (item >= 0) return program.sequences[item].has_exponents;
    if (want_per_example) return true;
    const auto& factor_exponents = program.factors[~item].exponents;
    return std::any_of(factor_exponents.begin(), factor_exponents.end(),
                       [](int64_t e) { return e >= 0; });
  };
  const auto add_samples = [&](const MatrixBatch& batch, double* to) {
    for (int32_t i = 0; i < 2 * size * size; ++i)
      for (int64_t s = 0; s < samples; ++s) to[i] += batch.at(i / 2, i % 2)[s];
  };
  for (size_t left = block.items.size(); left > 0; --left) {
    const int64_t item = block.items[left - 1];
    const bool earlier_needed =
        std::any_of(block.items.begin(), block.items.begin() + left - 1, needs_derivative);
    if (item >= 0) {
      if (program.sequences[item].has_exponents) {
        double* to = (*sequence_sums)[item].data();
        add_samples(y.value, to);
        if (y.tangent) add_samples(*y.tangent, to + 2 * size * size);
      }
      if (!earlier_needed) return;
      Uncompute(SequenceMatrix(shared_matrices, item, size), &y);
      continue;
    }
    const Factor& factor = program.factors[~item];
    if (IsAbsent(program, factor, exponents)) continue;
    if (needs_derivative(item)) {
      std::vector<double> derivative(samples);
      for (size_t e = 0; e < factor.exponents.size(); ++e) {
        const int64_t exponent = factor.exponents[e];
        if (exponent < 0 && !want_per_example) continue;
        std::fill(derivative.begin(), derivative.end(), 0.0);
        AddDerivatives(factor, e, (y.tangent ? *y.tangent : y.value).at(0, 0), samples,
                       derivative.data());
        for (int64_t s = 0; s < exponents.present; ++s)
          (exponent >= 0 ? shared_gradients[exponent]
                         : per_example_gradients[s * program.per_example + ~exponent]) +=
              derivative[s];
      }
    }
    if (!earlier_needed) return;
    Uncompute(FactorMatrices(program, factor, exponents, samples), &y);
  }
}

GradientSums::GradientSums(const GateTables& program) : shared(program.shared) {
  for (const FactorSequence& sequence : program.sequences)
    sequences.emplace_back(2 * sequence.size * sequence.size);
}

void GradientSums::Add(const GradientSums& other) {
  for (size_t r = 0; r < sequences.size(); ++r)
    for (size_t i = 0; i < sequences[r].size(); ++i) sequences[r][i] += other.sequences[r][i];
  for (size_t e = 0; e < shared.size(); ++e) shared[e] += other.shared[e];
}

}  // namespace qfleet
