#include "program.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <stdexcept>

namespace qfleet {
namespace {

constexpr int64_t kFormat = 1;
constexpr int64_t kMaxQubits = 40;
constexpr int64_t kMaxExponents = int64_t{1} << 20;
constexpr int64_t kMaxCount = int64_t{1} << 32;

// Reads the two lists in the order in which native.py wrote them.
class Reader {
 public:
  explicit Reader(const std::string& serialized) {
    int64_t count = 0;
    const int64_t word_count = serialized.size() / sizeof(int64_t);
    if (serialized.size() % sizeof(int64_t) == 0 && word_count > 0)
      std::memcpy(&count, serialized.data(), sizeof(count));
    if (count < 1 || count > word_count - 1) throw std::invalid_argument("the program is damaged");
    ints_.resize(count);
    reals_.resize(word_count - 1 - count);
    const char* from = serialized.data() + sizeof(int64_t);
    std::memcpy(ints_.data(), from, count * sizeof(int64_t));
    if (!reals_.empty())
      std::memcpy(reals_.data(), from + count * sizeof(int64_t), reals_.size() * sizeof(double));
  }

  int64_t Int(int64_t least, int64_t most) {
    if (next_int_ >= ints_.size()) throw std::invalid_argument("the program is cut short");
    const int64_t value = ints_[next_int_++];
    if (value < least || value > most) throw std::invalid_argument("the program is damaged");
    return value;
  }
  // A count of things of which each takes at least one number.
  int64_t Count() { return Int(0, ints_.size() + reals_.size()); }
  std::vector<int64_t> Ints(int64_t count, int64_t least, int64_t most) {
    std::vector<int64_t> values(Checked(count));
    for (int64_t& value : values) value = Int(least, most);
    return values;
  }
  std::vector<double> Reals(int64_t count) {
    if (Checked(count) > static_cast<int64_t>(reals_.size() - next_real_))
      throw std::invalid_argument("the program is cut short");
    std::vector<double> values(reals_.begin() + next_real_, reals_.begin() + next_real_ + count);
    next_real_ += count;
    return values;
  }
  std::vector<Complex> Complexes(int64_t count) {
    const std::vector<double> parts = Reals(2 * count);
    std::vector<Complex> values(count);
    for (int64_t i = 0; i < count; ++i) values[i] = Complex(parts[2 * i], parts[2 * i + 1]);
    return values;
  }
  void End() const {
    if (next_int_ < ints_.size() || next_real_ < reals_.size())
      throw std::invalid_argument("the program is too long");
  }

 private:
  int64_t Checked(int64_t count) const {
    if (count < 0 || count > kMaxCount) throw std::invalid_argument("the program is damaged");
    return count;
  }
  std::vector<int64_t> ints_;
  std::vector<double> reals_;
  size_t next_int_ = 0, next_real_ = 0;
};

Factor ReadFactor(Reader* in, int64_t shared, int64_t per_example) {
  Factor factor;
  factor.size = static_cast<int32_t>(in->Int(2, 4));
  if (factor.size == 3) throw std::invalid_argument("the program is damaged");
  factor.spaces = static_cast<int32_t>(in->Int(1, 4096));
  const int64_t exponents = in->Count();
  factor.exponents = in->Ints(exponents, -per_example, shared - 1);
  for (int64_t e : factor.exponents) factor.per_example |= e < 0;
  const int64_t entries = factor.size * factor.size;
  factor.half_turns = in->Reals(factor.spaces * exponents);
  factor.projectors = in->Complexes(factor.spaces * entries);
  factor.generators.assign(exponents * entries, 0);
  for (int64_t k = 0; k < factor.spaces; ++k)
    for (int64_t e = 0; e < exponents; ++e)
      for (int64_t i = 0; i < entries; ++i)
        factor.generators[e * entries + i] +=
            factor.half_turns[k * exponents + e] * factor.projectors[k * entries + i];
  return factor;
}

Block ReadBlock(Reader* in, const Program& program) {
  Block block;
  block.qubits = static_cast<int32_t>(in->Int(1, 2));
  for (int q = 0; q < block.qubits; ++q) block.bits[q] = in->Int(0, program.qubits - 1);
  if (block.qubits == 2 && block.bits[0] == block.bits[1])
    throw std::invalid_argument("the program is damaged");
  const int64_t factors = program.factors.size(), sequences = program.sequences.size();
  block.items = in->Ints(in->Count(), -factors, sequences - 1);
  for (int64_t item : block.items) {
    const int32_t size = item >= 0 ? program.sequences[item].size : program.factors[~item].size;
    if (size != block.size()) throw std::invalid_argument("the program is damaged");
    block.per_example |= item < 0;
  }
  for (bool* flags : {block.needs_gradient, block.needs_uncompute})
    for (int mode = 0; mode < 2; ++mode) flags[mode] = in->Int(0, 1) != 0;
  block.entries = in->Int(0, 0xffff);
  block.closure = in->Int(0, 0xffff);
  return block;
}

std::vector<ExponentSpectrum> ExponentSpectra(const Program& program) {
  // As many as blocks name; a part of a program need not name all of its exponents.
  std::vector<ExponentSpectrum> columns;
  std::vector<int64_t> uses;
  for (const Block& block : program.blocks)
    for (int64_t item : block.items) {
      if (item >= 0) continue;
      const Factor& factor = program.factors[~item];
      const int64_t exponents = factor.exponents.size();
      for (int64_t e = 0; e < exponents; ++e) {
        if (factor.exponents[e] >= 0) continue;
        const size_t at = ~factor.exponents[e];
        if (at >= columns.size()) {
          columns.resize(at + 1, ExponentSpectrum{false, {0, 0}});
          uses.resize(at + 1, 0);
        }
        ExponentSpectrum& column = columns[at];
        ++uses[at];
        double low = factor.half_turns[e], high = factor.half_turns[e];
        for (int64_t k = 0; k < factor.spaces; ++k) {
          low = std::min(low, factor.half_turns[k * exponents + e]);
          high = std::max(high, factor.half_turns[k * exponents + e]);
        }
        column = {low < high, {low, high}};
        for (int64_t k = 0; k < factor.spaces; ++k) {
          const double eigenvalue = factor.half_turns[k * exponents + e];
          column.has_two_eigenvalues &= eigenvalue == low || eigenvalue == high;
        }
      }
    }
  for (size_t e = 0; e < columns.size(); ++e) columns[e].has_two_eigenvalues &= uses[e] == 1;
  return columns;
}

// The loops over samples are short and hot: with the widest vectors that the machine has.
#if defined(__x86_64__) && defined(__linux__)
#define QFLEET_TARGET_CLONES \
  __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define QFLEET_TARGET_CLONES
#endif

// (re, im) += (x, y) (v, w) for each sample.
QFLEET_TARGET_CLONES void AddScaled(int64_t samples, double x, double y, const double* v,
                                    const double* w, double sign, double* re, double* im) {
  for (int64_t s = 0; s < samples; ++s) {
    re[s] += x * v[s] - sign * y * w[s];
    im[s] += sign * x * w[s] + y * v[s];
  }
}

QFLEET_TARGET_CLONES void AddProducts(int64_t samples, const double* x, const double* y, double xs,
                                      const double* v, const double* w, double vs, double* re,
                                      double* im) {
  for (int64_t s = 0; s < samples; ++s) {
    re[s] += x[s] * v[s] - xs * vs * y[s] * w[s];
    im[s] += vs * x[s] * w[s] + xs * y[s] * v[s];
  }
}

// out = a b for single matrices [D][D] (re, im).
QFLEET_TARGET_CLONES void Multiply(int32_t size, const double* a, const double* b, double* out) {
  for (int32_t i = 0; i < size; ++i) {
    double row[8] = {0};
    for (int32_t m = 0; m < size; ++m) {
      const double x = a[2 * (i * size + m)], y = a[2 * (i * size + m) + 1];
      for (int32_t j = 0; j < size; ++j) {
        const double v = b[2 * (m * size + j)], w = b[2 * (m * size + j) + 1];
        row[2 * j] += x * v - y * w;
        row[2 * j + 1] += x * w + y * v;
      }
    }
    for (int32_t j = 0; j < 2 * size; ++j) out[2 * i * size + j] = row[j];
  }
}

// out += (x + i y) matrix, for a single matrix of so many entries.
QFLEET_TARGET_CLONES void AddPhased(int32_t entries, double x, double y, const double* matrix,
                                    double* out) {
  for (int32_t i = 0; i < entries; ++i) {
    out[2 * i] += x * matrix[2 * i] - y * matrix[2 * i + 1];
    out[2 * i + 1] += x * matrix[2 * i + 1] + y * matrix[2 * i];
  }
}

// Matrices for several samples: [D * D] (re, im) [samples].
class MatrixBatch {
 public:
  MatrixBatch(int32_t size, int64_t samples)
      : size_(size), samples_(samples), values_(2 * size * size * samples) {}

  double* at(int32_t entry, int part) { return &values_[(2 * entry + part) * samples_]; }
  const double* at(int32_t entry, int part) const {
    return &values_[(2 * entry + part) * samples_];
  }
  std::vector<double>& values() { return values_; }
  int64_t samples() const { return samples_; }

  // this = a b, where a (or b) may hold one sample for all; `dagger` takes a's (b's) adjoint.
  void Product(const MatrixBatch& a, bool a_dagger, const MatrixBatch& b, bool b_dagger) {
    if (samples_ == 1) {
      Multiply(size_, (a_dagger ? a.Adjoint() : a).values_.data(),
               (b_dagger ? b.Adjoint() : b).values_.data(), values_.data());
      return;
    }
    std::fill(values_.begin(), values_.end(), 0.0);
    const double as = a_dagger ? -1 : 1, bs = b_dagger ? -1 : 1;
    for (int32_t i = 0; i < size_; ++i)
      for (int32_t j = 0; j < size_; ++j) {
        double *re = at(i * size_ + j, 0), *im = at(i * size_ + j, 1);
        for (int32_t m = 0; m < size_; ++m) {
          const int32_t ae = a_dagger ? m * size_ + i : i * size_ + m;
          const int32_t be = b_dagger ? j * size_ + m : m * size_ + j;
          const double *ar = a.at(ae, 0), *ai = a.at(ae, 1), *br = b.at(be, 0), *bi = b.at(be, 1);
          if (a.samples_ == 1) {
            AddScaled(samples_, *ar, as * *ai, br, bi, bs, re, im);
          } else if (b.samples_ == 1) {
            AddScaled(samples_, *br, bs * *bi, ar, ai, as, re, im);
          } else {
            AddProducts(samples_, ar, ai, as, br, bi, bs, re, im);
          }
        }
      }
  }

 private:
  MatrixBatch Adjoint() const {  // of a single matrix
    MatrixBatch adjoint(size_, 1);
    for (int32_t i = 0; i < size_; ++i)
      for (int32_t j = 0; j < size_; ++j) {
        *adjoint.at(j * size_ + i, 0) = *at(i * size_ + j, 0);
        *adjoint.at(j * size_ + i, 1) = -*at(i * size_ + j, 1);
      }
    return adjoint;
  }
  int32_t size_;
  int64_t samples_;
  std::vector<double> values_;
};

MatrixBatch MatrixBatchOf(const std::vector<double>& values, int32_t size) {
  MatrixBatch batch(size, 1);
  batch.values() = values;
  return batch;
}

// The factor's matrices for examples with rows each[b][F]; rows from `present` on count as zero.
MatrixBatch FactorMatrices(const Program& program, const Factor& factor, const double* shared,
                           const double* per_example, int64_t present, int64_t samples) {
  MatrixBatch batch(factor.size, samples);
  const int64_t exponents = factor.exponents.size();
  const int32_t entries = factor.size * factor.size;
  if (exponents == 0) {  // a fixed matrix is its own
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

// -2 pi Im tr(H Y) of each sample, added to out[s * stride]; see SIMULATOR notes in sweep.h.
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

Program::Program(const std::string& serialized) {
  Reader in(serialized);
  in.Int(kFormat, kFormat);
  qubits = static_cast<int32_t>(in.Int(1, kMaxQubits));
  // Parts of one program share a list of exponents, which may be longer than what a part holds.
  shared = in.Int(0, kMaxExponents);
  per_example = in.Int(0, kMaxExponents);
  for (int64_t left = in.Count(); left > 0; --left)
    factors.push_back(ReadFactor(&in, shared, per_example));
  for (int64_t left = in.Count(); left > 0; --left) {
    FactorSequence sequence;
    sequence.size = static_cast<int32_t>(in.Int(2, 4));
    sequence.factors = in.Ints(in.Count(), 0, static_cast<int64_t>(factors.size()) - 1);
    for (int64_t f : sequence.factors) {
      if (factors[f].size != sequence.size || factors[f].per_example)
        throw std::invalid_argument("the program is damaged");
      sequence.has_exponents |= !factors[f].exponents.empty();
    }
    sequences.push_back(sequence);
  }
  for (int64_t left = in.Count(); left > 0; --left) blocks.push_back(ReadBlock(&in, *this));
  spectra = ExponentSpectra(*this);
  cost = 0;
  for (const Block& block : blocks)
    cost += 4.0 * __builtin_popcountll(block.entries) / block.size();
  prefix = in.Int(0, blocks.size());
  for (int64_t b = 0; b < prefix; ++b)
    for (int64_t item : blocks[b].items)
      if (item < 0 || sequences[item].has_exponents)
        throw std::invalid_argument("the program is damaged");
  int64_t next = 0;
  for (int64_t left = in.Count(); left > 0; --left) {
    QubitWindow window;
    window.first = static_cast<int32_t>(next);
    window.count = static_cast<int32_t>(in.Int(1, blocks.size() - next));
    window.bits = in.Ints(in.Count(), 0, qubits - 1);
    if (!std::is_sorted(window.bits.begin(), window.bits.end(), std::less_equal<int64_t>()) ||
        (next < prefix && next + window.count > prefix))
      throw std::invalid_argument("the program is damaged");
    for (int64_t b = next; b < next + window.count; ++b)
      for (int q = 0; q < blocks[b].qubits; ++q)
        if (!std::binary_search(window.bits.begin(), window.bits.end(), blocks[b].bits[q]))
          throw std::invalid_argument("the program is damaged");
    next += window.count;
    windows.push_back(window);
  }
  if (!windows.empty() && next != static_cast<int64_t>(blocks.size()))
    throw std::invalid_argument("the program is damaged");
  const int64_t most = (int64_t{1} << qubits) - 1;
  string_count = 0;
  for (int64_t left = in.Count(); left > 0; --left) {
    PauliGroup group;
    group.flip = in.Int(0, most);
    const int64_t count = in.Count();
    group.z = in.Ints(count, 0, most);
    group.ys = in.Ints(count, 0, kMaxQubits);
    group.first = string_count;
    string_count += count;
    pauli_groups.push_back(group);
  }
  readouts = in.Count();
  weights = in.Reals(string_count * readouts);
  offsets = in.Reals(readouts);
  if (in.Int(0, 1)) initial = in.Reals(int64_t{2} << qubits);
  in.End();
}

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
      MatrixBatch half(size, samples);
      half.Product(y, false, u, false);
      y.Product(u, true, half, false);
      continue;
    }
    const Factor& factor = program.factors[~item];
    if (needs_derivative(item)) {
      std::vector<double> found(samples);
      for (size_t e = 0; e < factor.exponents.size(); ++e) {
        const int64_t exponent = factor.exponents[e];
        if (exponent < 0 && !want_per_example) continue;
        std::fill(found.begin(), found.end(), 0.0);
        AddDerivative(factor, e, y, samples, found.data(), 1);
        for (int64_t s = 0; s < present; ++s)
          (exponent >= 0 ? shared_gradients[exponent]
                         : per_example_gradients[s * program.per_example + ~exponent]) += found[s];
      }
    }
    if (!earlier_needed) return;
    const MatrixBatch u = FactorMatrices(program, factor, shared, per_example, present, samples);
    MatrixBatch half(size, samples);
    half.Product(y, false, u, false);
    y.Product(u, true, half, false);
  }
}

void ParameterGradients(const Program& program, const SharedMatrices& shared_matrices,
                        const std::vector<std::vector<double>>& sequence_sums, double* slopes) {
  for (size_t r = 0; r < program.sequences.size(); ++r) {
    const FactorSequence& sequence = program.sequences[r];
    if (!sequence.has_exponents) continue;
    MatrixBatch y = MatrixBatchOf(sequence_sums[r], sequence.size);
    std::vector<double> half(y.values().size()), adjoint(half.size());
    for (size_t left = sequence.factors.size(); left > 0; --left) {
      const int64_t f = sequence.factors[left - 1];
      const Factor& factor = program.factors[f];
      for (size_t e = 0; e < factor.exponents.size(); ++e)
        AddDerivative(factor, e, y, 1, &slopes[factor.exponents[e]], 0);
      if (left == 1) break;
      const std::vector<double>& u = shared_matrices.factors[f];
      for (int32_t i = 0; i < sequence.size; ++i)
        for (int32_t j = 0; j < sequence.size; ++j) {
          adjoint[2 * (j * sequence.size + i)] = u[2 * (i * sequence.size + j)];
          adjoint[2 * (j * sequence.size + i) + 1] = -u[2 * (i * sequence.size + j) + 1];
        }
      Multiply(sequence.size, y.values().data(), u.data(), half.data());
      Multiply(sequence.size, adjoint.data(), half.data(), y.values().data());
    }
  }
}

Subspace FindSubspace(const Program& program, const double* per_example, int64_t examples,
                      int64_t most) {
  Subspace subspace;
  std::map<std::vector<int64_t>, int64_t> known;  // a set of turned columns -> its state
  const auto no_subspace = [] { return Subspace(); };
  if (static_cast<int64_t>(program.spectra.size()) < program.per_example) return no_subspace();
  for (const ExponentSpectrum& column : program.spectra)
    if (!column.has_two_eigenvalues) return no_subspace();
  subspace.first.push_back(0);
  for (int64_t b = 0; b < examples; ++b) {
    std::vector<int64_t> active;
    std::vector<Complex> alpha, beta;
    for (int64_t e = 0; e < program.per_example; ++e) {
      const double t = per_example[b * program.per_example + e];
      if (t == 0) continue;
      // Solves alpha + beta z(turned) = z(t) for both eigenvalues z.
      const double* half_turns = program.spectra[e].half_turns;
      const double half = 1 / (half_turns[1] - half_turns[0]);
      const Complex z0 = std::polar(1.0, M_PI * half_turns[0] * t);
      const Complex z1 = std::polar(1.0, M_PI * half_turns[1] * t);
      active.push_back(e);
      alpha.push_back((z0 + z1) / 2.0);
      beta.push_back((z0 - z1) / 2.0 / std::polar(1.0, M_PI * half_turns[0] * half));
    }
    if (active.size() > 20 || int64_t{1} << active.size() > most) return no_subspace();
    for (int64_t subset = 0; subset < int64_t{1} << active.size(); ++subset) {
      std::vector<int64_t> columns;
      Complex weight = 1;
      for (size_t i = 0; i < active.size(); ++i) {
        if (subset >> i & 1) columns.push_back(active[i]);
        weight *= subset >> i & 1 ? beta[i] : alpha[i];
      }
      const auto found = known.emplace(columns, subspace.states);
      if (found.second) {
        if (++subspace.states > most) return no_subspace();
        subspace.per_example.resize(subspace.states * program.per_example);
        for (int64_t e : columns) {
          const double* half_turns = program.spectra[e].half_turns;
          subspace.per_example[(subspace.states - 1) * program.per_example + e] =
              1 / (half_turns[1] - half_turns[0]);
        }
      }
      subspace.state.push_back(found.first->second);
      subspace.weight.push_back(weight);
    }
    subspace.first.push_back(subspace.state.size());
  }
  return subspace;
}

}  // namespace qfleet
