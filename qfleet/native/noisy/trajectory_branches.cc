#include "noisy/trajectory_branches.h"

#include <algorithm>
#include <cmath>
#include <complex>
#include <limits>

#include "program/matrix_batch.h"

namespace qfleet {
namespace {

SmallMatrix Identity(int32_t size) {
  SmallMatrix matrix = {};
  for (int32_t i = 0; i < size; ++i) matrix[2 * i * (size + 1)] = 1;
  return matrix;
}

SmallMatrix Scaled(SmallMatrix matrix, double factor) {
  for (double& entry : matrix) entry *= factor;
  return matrix;
}

double Trace(int32_t size, const SmallMatrix& matrix) {
  double sum = 0;
  for (int32_t i = 0; i < size; ++i) sum += matrix[2 * i * (size + 1)];
  return sum;
}

double Norm(const SmallMatrix& matrix) {
  double sum = 0;
  for (double entry : matrix) sum += entry * entry;
  return std::sqrt(sum);
}

// The matrix of one qubit on two, of which it is the upper one (place 0) or the lower one.
SmallMatrix OnTwo(const double* matrix, int32_t place) {
  SmallMatrix out = {};
  const int32_t own = place == 0 ? 2 : 1, other = 3 - own;
  for (int32_t rest = 0; rest < 2; ++rest)
    for (int32_t i = 0; i < 2; ++i)
      for (int32_t j = 0; j < 2; ++j)
        for (int32_t part = 0; part < 2; ++part)
          out[2 * ((i * own + rest * other) * 4 + j * own + rest * other) + part] =
              matrix[2 * (i * 2 + j) + part];
  return out;
}

// The partial trace over the other qubit of two.
SmallMatrix OfOne(const SmallMatrix& matrix, int32_t place) {
  SmallMatrix out = {};
  const int32_t own = place == 0 ? 2 : 1, other = 3 - own;
  for (int32_t rest = 0; rest < 2; ++rest)
    for (int32_t i = 0; i < 2; ++i)
      for (int32_t j = 0; j < 2; ++j)
        for (int32_t part = 0; part < 2; ++part)
          out[2 * (i * 2 + j) + part] +=
              matrix[2 * ((i * own + rest * other) * 4 + j * own + rest * other) + part];
  return out;
}

SmallMatrix AsItIs(const std::vector<double>& matrix) {
  SmallMatrix out = {};
  std::copy(matrix.begin(), matrix.end(), out.begin());
  return out;
}

// A branch in the middle of a block, and its reduced density matrix.
struct OpenBranch {
  Branch branch;
  SmallMatrix density;
};

void Append(int32_t size, bool with_density, const SmallMatrix& matrix, OpenBranch* open) {
  open->branch.items.push_back(matrix);
  open->branch.product = Times(size, matrix, open->branch.product);
  if (with_density)
    open->density = Times(size, Times(size, matrix, open->density), AdjointOf(size, matrix));
}

// Returns the trajectories on which a channel does not act, and removes them from `all`.
std::vector<int32_t> TakeIdle(const NoisyItem& item, const Records& records,
                              std::vector<int32_t>* all) {
  const auto acts = [&](int32_t trajectory) {
    int64_t number = 0;
    for (size_t bit = 0; bit < item.condition.size(); ++bit)
      number |= int64_t{records.At(trajectory, item.condition[bit]) & 1} << bit;
    return item.acts[number] != 0;
  };
  std::vector<int32_t> acting, idle;
  for (int32_t trajectory : *all) (acts(trajectory) ? acting : idle).push_back(trajectory);
  all->swap(acting);
  return idle;
}

// Divides a branch at a channel, the item of this number.
void Divide(int32_t size, bool with_density, const KrausChannel& channel,
            const std::vector<SmallMatrix>& operators, size_t item, int64_t record,
            const Records& records, const Draw& draw, OpenBranch open,
            std::vector<OpenBranch>* out) {
  std::vector<double> found = channel.probabilities;
  if (channel.depends_on_state())
    for (const SmallMatrix& one : operators)
      found.push_back(std::max(
          0.0, Trace(size, Times(size, Times(size, one, open.density), AdjointOf(size, one)))));
  double total = 0;
  size_t last = 0;  // with a probability
  for (size_t k = 0; k < found.size(); ++k) {
    total += found[k];
    if (found[k] > 0) last = k;
  }
  const size_t count = open.branch.trajectories.size();
  std::vector<std::vector<int32_t>> drawn(operators.size());
  for (int32_t trajectory : open.branch.trajectories) {
    double target = total * draw(trajectory, item);
    size_t k = 0;
    while (k < last && !(target < found[k])) target -= found[k++];
    drawn[k].push_back(trajectory);
  }
  for (size_t k = 0; k < drawn.size(); ++k) {
    if (drawn[k].empty()) continue;
    if (record >= 0)
      for (int32_t trajectory : drawn[k]) records.At(trajectory, record) = static_cast<uint8_t>(k);
    if (drawn[k].size() == count) {
      out->push_back(std::move(open));  // nothing is left for another operator
    } else {
      const Branch& own = open.branch;
      out->push_back({{drawn[k], own.items, own.product, own.is_unitary}, open.density});
    }
    OpenBranch& next = out->back();
    if (channel.depends_on_state()) {
      next.branch.is_unitary = false;
      const double scale = found[k] > 0 ? std::sqrt(total / found[k]) : 1;
      Append(size, with_density, Scaled(operators[k], scale), &next);
    } else {
      Append(size, with_density, operators[k], &next);
    }
  }
}

}  // namespace

SmallMatrix Times(int32_t size, const SmallMatrix& a, const SmallMatrix& b) {
  SmallMatrix out = {};
  Multiply(size, a.data(), b.data(), out.data());
  return out;
}

SmallMatrix AdjointOf(int32_t size, const SmallMatrix& matrix) {
  SmallMatrix out = {};
  for (int32_t i = 0; i < size; ++i)
    for (int32_t j = 0; j < size; ++j) {
      out[2 * (j * size + i)] = matrix[2 * (i * size + j)];
      out[2 * (j * size + i) + 1] = -matrix[2 * (i * size + j) + 1];
    }
  return out;
}

double Invert(int32_t size, const SmallMatrix& matrix, SmallMatrix* inverse) {
  const double none = std::numeric_limits<double>::infinity();
  Complex a[4][8] = {};
  for (int32_t i = 0; i < size; ++i) {
    for (int32_t j = 0; j < size; ++j)
      a[i][j] = {matrix[2 * (i * size + j)], matrix[2 * (i * size + j) + 1]};
    a[i][size + i] = 1;
  }
  for (int32_t column = 0; column < size; ++column) {  // Gauss-Jordan
    int32_t pivot = column;
    for (int32_t row = column + 1; row < size; ++row)
      if (std::abs(a[row][column]) > std::abs(a[pivot][column])) pivot = row;
    if (!(std::abs(a[pivot][column]) > 1e-9)) return none;
    std::swap_ranges(a[pivot], a[pivot] + 2 * size, a[column]);
    const Complex scale = 1.0 / a[column][column];
    for (int32_t j = 0; j < 2 * size; ++j) a[column][j] *= scale;
    for (int32_t row = 0; row < size; ++row) {
      const Complex factor = a[row][column];
      if (row == column || factor == 0.0) continue;
      for (int32_t j = 0; j < 2 * size; ++j) a[row][j] -= factor * a[column][j];
    }
  }
  *inverse = {};
  for (int32_t i = 0; i < size; ++i)
    for (int32_t j = 0; j < size; ++j) {
      (*inverse)[2 * (i * size + j)] = a[i][size + j].real();
      (*inverse)[2 * (i * size + j) + 1] = a[i][size + j].imag();
    }
  const double growth = Norm(matrix) * Norm(*inverse) / size;
  return std::isfinite(growth) ? growth : none;
}

ChannelOperators::ChannelOperators(const TrajectoryProgram& program)
    : matrices_(program.channels.size()) {
  for (size_t c = 0; c < matrices_.size(); ++c)
    for (const std::vector<double>& one : program.channels[c].operators) {
      matrices_[c][0].push_back(AsItIs(one));
      if (program.channels[c].qubits == 2) continue;
      for (int32_t place = 0; place < 2; ++place)
        matrices_[c][1 + place].push_back(OnTwo(one.data(), place));
    }
}

std::vector<SmallMatrix> BlockUnitaries(const TrajectoryProgram& program,
                                        const TrajectoryBlock& block,
                                        const SharedMatrices& shared_matrices,
                                        const Exponents& exponents) {
  std::vector<SmallMatrix> out;
  std::vector<double> values, tangents;
  for (const NoisyItem& item : block.items) {
    out.emplace_back();
    if (item.channel >= 0) continue;
    BlockMatrices(program, item.product, shared_matrices, exponents, 1, &values, &tangents);
    out.back() = block.IsNarrow(item) ? OnTwo(values.data(), item.place) : AsItIs(values);
  }
  return out;
}

std::vector<Branch> DrawBranches(const TrajectoryProgram& program, const TrajectoryBlock& block,
                                 const ChannelOperators& operators,
                                 const std::vector<SmallMatrix>& unitaries,
                                 const SmallMatrix* density,
                                 const std::vector<int32_t>& trajectories, const Records& records,
                                 const Draw& draw) {
  const int32_t size = block.size();
  const bool with_density = density != nullptr;
  std::vector<OpenBranch> open(1), next;
  open[0].branch.trajectories = trajectories;
  open[0].branch.product = Identity(size);
  if (with_density) open[0].density = *density;
  for (size_t i = 0; i < block.items.size(); ++i) {
    const NoisyItem& item = block.items[i];
    if (item.channel < 0) {
      for (OpenBranch& one : open) Append(size, with_density, unitaries[i], &one);
      continue;
    }
    next.clear();
    for (OpenBranch& one : open) {
      if (!item.condition.empty()) {
        std::vector<int32_t> idle = TakeIdle(item, records, &one.branch.trajectories);
        if (!idle.empty()) {
          next.push_back(one);
          next.back().branch.trajectories = std::move(idle);
          next.back().branch.items.push_back(Identity(size));
        }
        if (one.branch.trajectories.empty()) continue;
      }
      Divide(size, with_density, program.channels[item.channel], operators.Of(block, item), i,
             item.record, records, draw, std::move(one), &next);
    }
    open.swap(next);
  }
  std::vector<Branch> branches;
  for (OpenBranch& one : open) branches.push_back(std::move(one.branch));
  const auto most =
      std::max_element(branches.begin(), branches.end(), [](const Branch& a, const Branch& b) {
        return a.trajectories.size() < b.trajectories.size();
      });
  std::swap(branches.front(), *most);
  return branches;
}

void BranchGradients(const TrajectoryProgram& program, const TrajectoryBlock& block,
                     const SharedMatrices& shared_matrices, const Exponents& exponents,
                     const Branch& branch, const SmallMatrix& correlation, bool want_per_example,
                     std::vector<std::vector<double>>* sequence_sums, double* shared_gradients,
                     double* per_example_gradients) {
  const int32_t size = block.size();
  const size_t count = block.items.size();
  // With A_1 ... A_n the items: psi_i lambda_i^dagger = A_i ... A_1 C A_n ... A_(i + 1).
  std::vector<SmallMatrix> left(count);
  SmallMatrix product = correlation;
  for (size_t i = 0; i < count; ++i) left[i] = product = Times(size, branch.items[i], product);
  SmallMatrix after = Identity(size);
  for (size_t i = count; i-- > 0;) {
    const NoisyItem& item = block.items[i];
    if (item.channel < 0) {
      SmallMatrix sums = Times(size, left[i], after);
      if (block.IsNarrow(item)) sums = OfOne(sums, item.place);
      BlockGradients(program, item.product, shared_matrices, exponents, 1, want_per_example,
                     sums.data(), nullptr, sequence_sums, shared_gradients, per_example_gradients);
    }
    after = Times(size, after, branch.items[i]);
  }
}

}  // namespace qfleet
