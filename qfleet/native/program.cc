#include "program.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <stdexcept>

namespace qfleet {
namespace {

constexpr int64_t kFormat = 1;
constexpr int64_t kMaxQubits = 40;
constexpr int64_t kMaxExponents = int64_t{1} << 20;
constexpr int64_t kMaxCount = int64_t{1} << 32;

std::invalid_argument Corrupt() { return std::invalid_argument("the program is corrupt"); }

// Reads both lists in the order in which qfleet/compiler/serialize.py writes them.
class Reader {
 public:
  explicit Reader(const std::string& serialized) {
    int64_t count = 0;
    const int64_t word_count = serialized.size() / sizeof(int64_t);
    if (serialized.size() % sizeof(int64_t) == 0 && word_count > 0)
      std::memcpy(&count, serialized.data(), sizeof(count));
    if (count < 1 || count > word_count - 1) throw Corrupt();
    ints_.resize(count);
    reals_.resize(word_count - 1 - count);
    const char* from = serialized.data() + sizeof(int64_t);
    std::memcpy(ints_.data(), from, count * sizeof(int64_t));
    if (!reals_.empty())
      std::memcpy(reals_.data(), from + count * sizeof(int64_t), reals_.size() * sizeof(double));
  }

  int64_t Int(int64_t least, int64_t most) {
    if (next_int_ >= ints_.size()) throw std::invalid_argument("the program is truncated");
    const int64_t value = ints_[next_int_++];
    if (value < least || value > most) throw Corrupt();
    return value;
  }
  // A number of items, each of which takes at least one number.
  int64_t Count() { return Int(0, ints_.size() + reals_.size()); }
  std::vector<int64_t> Ints(int64_t count, int64_t least, int64_t most) {
    std::vector<int64_t> values(Checked(count));
    for (int64_t& value : values) value = Int(least, most);
    return values;
  }
  std::vector<double> Reals(int64_t count) {
    if (Checked(count) > static_cast<int64_t>(reals_.size() - next_real_))
      throw std::invalid_argument("the program is truncated");
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
      throw std::invalid_argument("the program has trailing data");
  }

 private:
  int64_t Checked(int64_t count) const {
    if (count < 0 || count > kMaxCount) throw Corrupt();
    return count;
  }
  std::vector<int64_t> ints_;
  std::vector<double> reals_;
  size_t next_int_ = 0, next_real_ = 0;
};

Factor ReadFactor(Reader* in, int64_t shared, int64_t per_example) {
  Factor factor;
  factor.size = static_cast<int32_t>(in->Int(2, 4));
  if (factor.size == 3) throw Corrupt();
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
  if (block.qubits == 2 && block.bits[0] == block.bits[1]) throw Corrupt();
  const int64_t factors = program.factors.size(), sequences = program.sequences.size();
  block.items = in->Ints(in->Count(), -factors, sequences - 1);
  for (int64_t item : block.items) {
    const int32_t size = item >= 0 ? program.sequences[item].size : program.factors[~item].size;
    if (size != block.size()) throw Corrupt();
    block.per_example |= item < 0;
  }
  for (bool* flags : {block.needs_gradient, block.needs_uncompute})
    for (int mode = 0; mode < 2; ++mode) flags[mode] = in->Int(0, 1) != 0;
  block.entries = in->Int(0, 0xffff);
  block.closure = in->Int(0, 0xffff);
  return block;
}

std::vector<ExponentSpectrum> ExponentSpectra(const Program& program) {
  // Only the exponents that blocks use: a stage of a program need not use all.
  std::vector<ExponentSpectrum> spectra;
  std::vector<int64_t> uses;
  for (const Block& block : program.blocks)
    for (int64_t item : block.items) {
      if (item >= 0) continue;
      const Factor& factor = program.factors[~item];
      const int64_t exponents = factor.exponents.size();
      for (int64_t e = 0; e < exponents; ++e) {
        if (factor.exponents[e] >= 0) continue;
        const size_t index = ~factor.exponents[e];
        if (index >= spectra.size()) {
          spectra.resize(index + 1, ExponentSpectrum{false, {0, 0}});
          uses.resize(index + 1, 0);
        }
        ExponentSpectrum& spectrum = spectra[index];
        ++uses[index];
        double low = factor.half_turns[e], high = factor.half_turns[e];
        for (int64_t k = 0; k < factor.spaces; ++k) {
          low = std::min(low, factor.half_turns[k * exponents + e]);
          high = std::max(high, factor.half_turns[k * exponents + e]);
        }
        spectrum = {low < high, {low, high}};
        for (int64_t k = 0; k < factor.spaces; ++k) {
          const double eigenvalue = factor.half_turns[k * exponents + e];
          spectrum.has_two_eigenvalues &= eigenvalue == low || eigenvalue == high;
        }
      }
    }
  for (size_t e = 0; e < spectra.size(); ++e) spectra[e].has_two_eigenvalues &= uses[e] == 1;
  return spectra;
}

FactorSequence ReadSequence(Reader* in, const std::vector<Factor>& factors) {
  FactorSequence sequence;
  sequence.size = static_cast<int32_t>(in->Int(2, 4));
  sequence.factors = in->Ints(in->Count(), 0, static_cast<int64_t>(factors.size()) - 1);
  for (int64_t f : sequence.factors) {
    if (factors[f].size != sequence.size || factors[f].per_example) throw Corrupt();
    sequence.has_exponents |= !factors[f].exponents.empty();
  }
  return sequence;
}

std::vector<QubitWindow> ReadWindows(Reader* in, const Program& program) {
  const std::vector<Block>& blocks = program.blocks;
  std::vector<QubitWindow> windows;
  int64_t next = 0;
  for (int64_t left = in->Count(); left > 0; --left) {
    QubitWindow window;
    window.first = static_cast<int32_t>(next);
    window.count = static_cast<int32_t>(in->Int(1, blocks.size() - next));
    window.bits = in->Ints(in->Count(), 0, program.qubits - 1);
    if (!std::is_sorted(window.bits.begin(), window.bits.end(), std::less_equal<int64_t>()) ||
        (next < program.prefix && next + window.count > program.prefix))
      throw Corrupt();
    for (int64_t b = next; b < next + window.count; ++b)
      for (int q = 0; q < blocks[b].qubits; ++q)
        if (!std::binary_search(window.bits.begin(), window.bits.end(), blocks[b].bits[q]))
          throw Corrupt();
    next += window.count;
    windows.push_back(window);
  }
  if (!windows.empty() && next != static_cast<int64_t>(blocks.size())) throw Corrupt();
  return windows;
}

PauliGroup ReadPauliGroup(Reader* in, int64_t first, int32_t qubits) {
  const int64_t most = (int64_t{1} << qubits) - 1;
  PauliGroup group;
  group.flip = in->Int(0, most);
  const int64_t count = in->Count();
  group.z = in->Ints(count, 0, most);
  group.ys = in->Ints(count, 0, kMaxQubits);
  group.first = first;
  return group;
}

}  // namespace

Program::Program(const std::string& serialized) {
  Reader in(serialized);
  in.Int(kFormat, kFormat);
  qubits = static_cast<int32_t>(in.Int(1, kMaxQubits));
  // The stages of one program share a list of exponents, of which each may use a part.
  shared = in.Int(0, kMaxExponents);
  per_example = in.Int(0, kMaxExponents);
  for (int64_t left = in.Count(); left > 0; --left)
    factors.push_back(ReadFactor(&in, shared, per_example));
  for (int64_t left = in.Count(); left > 0; --left) sequences.push_back(ReadSequence(&in, factors));
  for (int64_t left = in.Count(); left > 0; --left) blocks.push_back(ReadBlock(&in, *this));
  spectra = ExponentSpectra(*this);
  cost = 0;
  for (const Block& block : blocks)
    cost += 4.0 * __builtin_popcountll(block.entries) / block.size();
  prefix = in.Int(0, blocks.size());
  for (int64_t b = 0; b < prefix; ++b)
    for (int64_t item : blocks[b].items)
      if (item < 0 || sequences[item].has_exponents) throw Corrupt();
  windows = ReadWindows(&in, *this);
  string_count = 0;
  for (int64_t left = in.Count(); left > 0; --left) {
    pauli_groups.push_back(ReadPauliGroup(&in, string_count, qubits));
    string_count += pauli_groups.back().z.size();
  }
  readouts = in.Count();
  weights = in.Reals(string_count * readouts);
  offsets = in.Reals(readouts);
  if (in.Int(0, 1)) initial = in.Reals(int64_t{2} << qubits);
  in.End();
}

}  // namespace qfleet
