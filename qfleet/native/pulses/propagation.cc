#include "pulses/propagation.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <string>

#include "cpu/aligned_array.h"

namespace qfleet {
namespace {

constexpr double kRounding = 0x1p-54;  // of a Taylor polynomial's remainder
constexpr int kMaxDegree = 24;
constexpr int64_t kEntryNanoseconds = 12;  // approximate, per column of a product and all lanes

struct Taylor {
  int32_t degree, parts;
};

// The cheapest polynomial for exponents of a norm: x^(degree + 1) / (degree + skipped)! is small.
// A derivative's series begins at x / 2!, so that its `skipped` is 2, and an exponential's is 1.
Taylor ChooseTaylor(double norm, int skipped) {
  Taylor best = {kMaxDegree, 1};
  double best_cost = INFINITY;
  for (int32_t parts = std::max(1, static_cast<int32_t>(norm / 4)); parts <= 2 * norm + 1;
       ++parts) {
    const double x = norm / parts;
    double term = skipped == 2 ? x / 2 : x;
    int32_t degree = 0;
    while (term > kRounding && degree < kMaxDegree) term *= x / (++degree + skipped);
    degree = std::max(degree, 1);
    const double cost = static_cast<double>(parts) * (degree + skipped);
    if (term <= kRounding && cost < best_cost) {
      best = {degree, parts};
      best_cost = cost;
    }
  }
  return best;
}

// A bound of the spectral norm of matrix - center * 1.
double MatrixNorm(const double* matrix, int64_t size, double re, double im) {
  std::vector<double> rows(size), columns(size);
  for (int64_t r = 0; r < size; ++r)
    for (int64_t c = 0; c < size; ++c) {
      const double* z = matrix + 2 * (r * size + c);
      const double value = r == c ? std::hypot(z[0] - re, z[1] - im) : std::hypot(z[0], z[1]);
      rows[r] += value;
      columns[c] += value;
    }
  return std::sqrt(*std::max_element(rows.begin(), rows.end()) *
                   *std::max_element(columns.begin(), columns.end()));
}

// A commutator does not depend on a multiple of 1: the middle of the diagonal is subtracted.
double CentredNorm(const double* matrix, int64_t size) {
  double low[2] = {INFINITY, INFINITY}, high[2] = {-INFINITY, -INFINITY};
  for (int64_t r = 0; r < size; ++r)
    for (int part = 0; part < 2; ++part) {
      const double value = matrix[2 * r * (size + 1) + part];
      low[part] = std::min(low[part], value);
      high[part] = std::max(high[part], value);
    }
  return MatrixNorm(matrix, size, (low[0] + high[0]) / 2, (low[1] + high[1]) / 2);
}

}  // namespace

Propagation::Propagation(const PulseSteps& steps, const PulseKernels& kernels)
    : steps_(steps),
      kernels_(kernels),
      chains_(steps.examples * steps.segments),
      segment_steps_(steps.segments ? (steps.steps + steps.segments - 1) / steps.segments : 0),
      lanes_(kernels.lanes) {
  FindEntries();
}

// The entries are symmetric, and those of all sets of matrices.
void Propagation::FindEntries() {
  const int64_t size = steps_.dimension, elements = size * size;
  std::vector<bool> used(elements);
  norms_.resize(steps_.operators);
  centred_norms_.resize(steps_.operators);
  std::vector<std::vector<int64_t>> nonzero(steps_.operators);
  for (int64_t k = 0; k < steps_.operators; ++k) {
    std::vector<bool> mine(elements);
    for (int64_t set = 0; set < steps_.matrix_sets; ++set) {
      const double* matrix = steps_.matrices + 2 * elements * (set * steps_.operators + k);
      norms_[k] = std::max(norms_[k], MatrixNorm(matrix, size, 0, 0));
      centred_norms_[k] = std::max(centred_norms_[k], CentredNorm(matrix, size));
      for (int64_t i = 0; i < elements; ++i)
        if (matrix[2 * i] != 0 || matrix[2 * i + 1] != 0) mine[i] = true;
    }
    for (int64_t i = 0; i < elements; ++i)
      if (mine[i]) {
        nonzero[k].push_back(i);
        used[i] = used[i % size * size + i / size] = true;
      }
  }
  std::vector<int32_t> number(elements, -1);
  for (int64_t i = 0; i < elements; ++i) {
    if (i % size == 0) row_starts_.push_back(static_cast<int32_t>(rows_.size()));
    if (!used[i]) continue;
    number[i] = static_cast<int32_t>(rows_.size());
    rows_.push_back(static_cast<int32_t>(i / size));
    columns_.push_back(static_cast<int32_t>(i % size));
  }
  row_starts_.push_back(static_cast<int32_t>(rows_.size()));
  for (size_t e = 0; e < rows_.size(); ++e) mates_.push_back(number[columns_[e] * size + rows_[e]]);
  element_starts_.push_back(0);
  for (const std::vector<int64_t>& list : nonzero) {
    for (int64_t i : list) elements_.push_back(number[i]);
    element_starts_.push_back(static_cast<int32_t>(elements_.size()));
  }
}

// A bound of the norm of each step's generator, for the chains of a group.
double Propagation::NormBound(int64_t first, bool centred) const {
  const std::vector<double>& norms = centred ? centred_norms_ : norms_;
  double bound = 0;
  for (int64_t chain = first; chain < std::min(first + lanes_, chains_); ++chain) {
    const int64_t set = steps_.coefficient_sets == 1 ? 0 : chain / steps_.segments;
    const int64_t start = chain % steps_.segments * segment_steps_;
    const int64_t end = std::min(start + segment_steps_, steps_.steps);
    for (int64_t step = start; step < end; ++step) {
      const double* c = steps_.coefficients + (set * steps_.steps + step) * steps_.operators;
      double sum = 0;
      for (int64_t k = 0; k < steps_.operators; ++k) sum += std::abs(c[k]) * norms[k];
      bound = std::max(bound, sum);
    }
  }
  return bound;
}

// The arrays of a kernel's call for the chains [first, first + lanes).
struct Propagation::Group {
  Group(const Propagation& owner, int64_t first)
      : steps(owner.steps_),
        values(2 * static_cast<int64_t>(owner.elements_.size()) * owner.lanes_),
        matrices(2 * steps.dimension * steps.dimension * owner.lanes_),
        workspace(
            2 * owner.lanes_ *
            (3 * steps.dimension * steps.dimension + 3 * static_cast<int64_t>(owner.rows_.size()))),
        lengths(owner.lanes_),
        coefficients(owner.lanes_),
        gradients(owner.lanes_) {
    const int64_t size = steps.dimension, lanes = owner.lanes_;
    for (int64_t lane = 0; lane < lanes; ++lane) {
      const int64_t chain = std::min(first + lane, owner.chains_ - 1);
      const int64_t example = chain / steps.segments;
      const int64_t start = chain % steps.segments * owner.segment_steps_;
      if (first + lane < owner.chains_)
        lengths[lane] = std::clamp<int64_t>(steps.steps - start, 0, owner.segment_steps_);
      const int64_t set = steps.coefficient_sets == 1 ? 0 : example;
      coefficients[lane] =
          steps.coefficients + (lengths[lane] ? (set * steps.steps + start) * steps.operators : 0);
      const int64_t matrix_set = steps.matrix_sets == 1 ? 0 : example;
      for (int64_t k = 0; k < steps.operators; ++k) {
        const double* from = steps.matrices + 2 * size * size * (matrix_set * steps.operators + k);
        for (int64_t e = owner.element_starts_[k]; e < owner.element_starts_[k + 1]; ++e) {
          const int64_t entry = owner.elements_[e];
          const double* z = from + 2 * (owner.rows_[entry] * size + owner.columns_[entry]);
          values.data()[2 * e * lanes + lane] = z[0];
          values.data()[(2 * e + 1) * lanes + lane] = z[1];
        }
      }
    }
  }

  const PulseSteps& steps;
  AlignedArray<double> values, matrices, workspace;
  std::vector<int64_t> lengths;
  std::vector<const double*> coefficients;
  std::vector<double*> gradients;
};

void Propagation::RunGroup(int64_t first, bool backward, const double* seeds, double* out) const {
  Group group(*this, first);
  const int64_t numbers = 2 * steps_.dimension * steps_.dimension;
  // A commutator with A has up to twice the norm of A.
  const double norm = NormBound(first, backward) * (backward ? 2 : 1);
  if (!(norm < 1e4))
    throw std::invalid_argument("the norm of a step's generator must be less than 1e4, not " +
                                std::to_string(norm));
  const Taylor taylor = ChooseTaylor(norm, backward ? 2 : 1);
  const PulseChains chains = {static_cast<int32_t>(steps_.dimension),
                              static_cast<int32_t>(steps_.operators),
                              row_starts_.data(),
                              rows_.data(),
                              columns_.data(),
                              mates_.data(),
                              element_starts_.data(),
                              elements_.data(),
                              group.values.data(),
                              steps_.unitary,
                              *std::max_element(group.lengths.begin(), group.lengths.end()),
                              group.lengths.data(),
                              group.coefficients.data(),
                              taylor.degree,
                              taylor.parts};
  double* matrices = group.matrices.data();
  const int64_t used = std::min<int64_t>(lanes_, chains_ - first);
  if (!backward) {
    kernels_.products(chains, matrices, group.workspace.data());
    for (int64_t lane = 0; lane < used; ++lane)
      for (int64_t i = 0; i < numbers; ++i)
        out[(first + lane) * numbers + i] = matrices[i * lanes_ + lane];
    return;
  }
  std::fill_n(matrices, numbers * lanes_, 0.0);
  for (int64_t lane = 0; lane < used; ++lane) {
    const int64_t example = (first + lane) / steps_.segments;
    const int64_t start = (first + lane) % steps_.segments * segment_steps_;
    if (group.lengths[lane])
      group.gradients[lane] = out + (example * steps_.steps + start) * steps_.operators;
    for (int64_t i = 0; i < numbers; ++i)
      matrices[i * lanes_ + lane] = seeds[(first + lane) * numbers + i];
  }
  kernels_.gradients(chains, matrices, group.gradients.data(), group.workspace.data());
}

void Propagation::RunGroups(const Parallel& parallel, bool backward, const double* seeds,
                            double* out) const {
  if (!chains_) return;
  const int64_t products = static_cast<int64_t>(rows_.size()) * steps_.dimension;
  const int64_t cost = (segment_steps_ + 1) * (products + 1) * kEntryNanoseconds;
  parallel((chains_ + lanes_ - 1) / lanes_, cost,
           [&](int64_t group) { RunGroup(group * lanes_, backward, seeds, out); });
}

void Propagation::Products(const Parallel& parallel, double* products) const {
  RunGroups(parallel, false, nullptr, products);
}

void Propagation::Gradients(const Parallel& parallel, const double* seeds,
                            double* gradients) const {
  RunGroups(parallel, true, seeds, gradients);
}

}  // namespace qfleet
