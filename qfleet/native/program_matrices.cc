#include "program_matrices.h"

#include <algorithm>
#include <cmath>

#include "matrix_batch.h"

namespace qfleet {
namespace {

// A factor's matrices for examples with exponents per_example[b][F]; zero from `present` on.
MatrixBatch FactorMatrices(const Program& program, const Factor& factor, const double* shared,
                           const double* per_example, int64_t present, int64_t samples) {
  MatrixBatch batch(factor.size, samples);
  const int64_t exponents = factor.exponents.size();
  const int32_t entries = factor.size * factor.size;
  if (exponents == 0) {  // constant
    for (int64_t s = 0; s < samples; ++s)
      for (int32_t i = 0; i < entries; ++i) {
        batch.at(i, 0)[s] = factor.projectors[i].real();
        batch.at(i, 1)[s] = factor.projectors[i].imag();
      }
    return batch;
  }
  std::vector<double> cosine(samples), sine(samples);
  for (int64_t k = 0; k < factor.spaces; ++k) {
    for (int64_t s = 0; s < samples; ++s) {
      double angle = 0;
      for (int64_t e = 0; e < exponents; ++e) {
        const int64_t exponent = factor.exponents[e];
        const double t = exponent >= 0 ? shared[exponent]
                         : s < present ? per_example[s * program.per_example + ~exponent]
                                       : 0;
        angle += factor.half_turns[k * exponents + e] * t;
      }
      cosine[s] = std::cos(M_PI * angle);
      sine[s] = std::sin(M_PI * angle);
    }
    if (samples == 1) {
      AddPhased(entries, cosine[0], sine[0],
                reinterpret_cast<const double*>(&factor.projectors[k * entries]), batch.at(0, 0));
      continue;
    }
    for (int32_t i = 0; i < entries; ++i) {
      const Complex p = factor.projectors[k * entries + i];
      if (p == Complex(0)) continue;
      AddScaled(samples, p.real(), p.imag(), cosine.data(), sine.data(), 1, batch.at(i, 0),
                batch.at(i, 1));
    }
  }
  return batch;
}

// Adds -2 pi Im tr(H Y) of each sample to out[s * stride]; see engine.h for the derivation.
void AddDerivative(const Factor& factor, int64_t e, const MatrixBatch& y, int64_t samples,
                   double* out, int64_t stride) {
  const int32_t size = factor.size;
  for (int32_t i = 0; i < size; ++i)
    for (int32_t j = 0; j < size; ++j) {
      const Complex h = factor.generators[(e * size + i) * size + j];
      if (h == Complex(0)) continue;
      const double *re = y.at(j * size + i, 0), *im = y.at(j * size + i, 1);
      for (int64_t s = 0; s < samples; ++s)
        out[s * stride] -= 2 * M_PI * (h.real() * im[s] + h.imag() * re[s]);
    }
}

}  // namespace

SharedMatrices::SharedMatrices(const Program& program, const double* shared) {
  for (const Factor& factor : program.factors) {
    factors.emplace_back();
    if (!factor.per_example)
      factors.back() = std::move(FactorMatrices(program, factor, shared, nullptr, 0, 1).values());
  }
  for (const FactorSequence& sequence : program.sequences) {
    std::vector<double> product(2 * sequence.size * sequence.size), next(product.size());
    for (int32_t i = 0; i < sequence.size; ++i) product[2 * i * (sequence.size + 1)] = 1;
    for (int64_t f : sequence.factors) {
      Multiply(sequence.size, factors[f].data(), product.data(), next.data());
      product.swap(next);
    }
    products.push_back(std::move(product));
  }
}

void BlockMatrices(const Program& program, const Block& block,
                   const SharedMatrices& shared_matrices, const double* shared,
                   const double* per_example, int64_t present, int64_t samples,
                   std::vector<double>* out) {
  const int32_t size = block.size();
  MatrixBatch product(size, samples);
  bool first = true;
  for (int64_t item : block.items) {
    MatrixBatch matrix = item >= 0 ? MatrixBatchOf(shared_matrices.products[item], size)
                                   : FactorMatrices(program, program.factors[~item], shared,
                                                    per_example, present, samples);
    if (first) {
      product = std::move(matrix);
    } else {
      MatrixBatch next(size, std::max(matrix.samples(), product.samples()));
      next.Product(matrix, false, product, false);
      product = std::move(next);
    }
    first = false;
  }
  if (first)
    for (int32_t i = 0; i < size; ++i) std::fill_n(product.at(i * (size + 1), 0), samples, 1.0);
  *out = std::move(product.values());
}

void BlockGradients(const Program& program, const Block& block,
                    const SharedMatrices& shared_matrices, const double* shared,
                    const double* per_example, int64_t present, int64_t samples,
                    bool want_per_example, const double* sums,
                    std::vector<std::vector<double>>* sequence_sums, double* shared_gradients,
                    double* per_example_gradients) {
  const int32_t size = block.size(), entries = size * size;
  MatrixBatch y(size, samples);
  std::copy_n(sums, y.values().size(), y.values().begin());
  const auto needs_derivative = [&](int64_t item) {
    if (item >= 0) return program.sequences[item].has_exponents;
    if (want_per_example) return true;
    const auto& exponents = program.factors[~item].exponents;
    return std::any_of(exponents.begin(), exponents.end(), [](int64_t e) { return e >= 0; });
  };
  for (size_t left = block.items.size(); left > 0; --left) {
    const int64_t item = block.items[left - 1];
    const bool earlier_needed =
        std::any_of(block.items.begin(), block.items.begin() + left - 1, needs_derivative);
    if (item >= 0) {
      if (program.sequences[item].has_exponents)
        for (int32_t i = 0; i < 2 * entries; ++i)
          for (int64_t s = 0; s < samples; ++s)
            (*sequence_sums)[item][i] += y.values()[i * samples + s];
      if (!earlier_needed) return;
      const MatrixBatch u = MatrixBatchOf(shared_matrices.products[item], size);
      MatrixBatch y_times_u(size, samples);
      y_times_u.Product(y, false, u, false);
      y.Product(u, true, y_times_u, false);
      continue;
    }
    const Factor& factor = program.factors[~item];
    if (needs_derivative(item)) {
      std::vector<double> derivative(samples);
      for (size_t e = 0; e < factor.exponents.size(); ++e) {
        const int64_t exponent = factor.exponents[e];
        if (exponent < 0 && !want_per_example) continue;
        std::fill(derivative.begin(), derivative.end(), 0.0);
        AddDerivative(factor, e, y, samples, derivative.data(), 1);
        for (int64_t s = 0; s < present; ++s)
          (exponent >= 0 ? shared_gradients[exponent]
                         : per_example_gradients[s * program.per_example + ~exponent]) +=
              derivative[s];
      }
    }
    if (!earlier_needed) return;
    const MatrixBatch u = FactorMatrices(program, factor, shared, per_example, present, samples);
    MatrixBatch y_times_u(size, samples);
    y_times_u.Product(y, false, u, false);
    y.Product(u, true, y_times_u, false);
  }
}

void ParameterGradients(const Program& program, const SharedMatrices& shared_matrices,
                        const std::vector<std::vector<double>>& sequence_sums, double* gradients) {
  for (size_t r = 0; r < program.sequences.size(); ++r) {
    const FactorSequence& sequence = program.sequences[r];
    if (!sequence.has_exponents) continue;
    MatrixBatch y = MatrixBatchOf(sequence_sums[r], sequence.size);
    std::vector<double> y_times_u(y.values().size()), adjoint(y_times_u.size());
    for (size_t left = sequence.factors.size(); left > 0; --left) {
      const int64_t f = sequence.factors[left - 1];
      const Factor& factor = program.factors[f];
      for (size_t e = 0; e < factor.exponents.size(); ++e)
        AddDerivative(factor, e, y, 1, &gradients[factor.exponents[e]], 0);
      if (left == 1) break;
      const std::vector<double>& u = shared_matrices.factors[f];
      for (int32_t i = 0; i < sequence.size; ++i)
        for (int32_t j = 0; j < sequence.size; ++j) {
          adjoint[2 * (j * sequence.size + i)] = u[2 * (i * sequence.size + j)];
          adjoint[2 * (j * sequence.size + i) + 1] = -u[2 * (i * sequence.size + j) + 1];
        }
      Multiply(sequence.size, y.values().data(), u.data(), y_times_u.data());
      Multiply(sequence.size, adjoint.data(), y_times_u.data(), y.values().data());
    }
  }
}

}  // namespace qfleet
