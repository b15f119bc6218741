#include "program/program_reader.h"

#include <cstring>

namespace qfleet {
namespace {

constexpr int64_t kMaxCount = int64_t{1} << 32;
constexpr int64_t kMaxYs = 40;  // of a string, on all qubits of a sharded state

int64_t CheckedCount(int64_t count) {
  if (count < 0 || count > kMaxCount) throw Corrupt();
  return count;
}

Factor ReadFactor(Reader* in, int64_t shared, int64_t per_example) {
  Factor factor;
  factor.size = static_cast<int32_t>(in->Int(2, 4));
  if (factor.size == 3) throw Corrupt();
  factor.spaces = static_cast<int32_t>(in->Int(1, 4096));
  const int64_t exponents = in->Count();
  if (exponents == 0 && factor.spaces != 1) throw Corrupt();
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
  factor.SetDerivatives();
  return factor;
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

PauliGroup ReadPauliGroup(Reader* in, int64_t first, int32_t qubits) {
  const int64_t most = (int64_t{1} << qubits) - 1;
  PauliGroup group;
  group.flip = in->Int(0, most);
  const int64_t count = in->Count();
  group.z = in->Ints(count, 0, most);
  group.ys = in->Ints(count, 0, kMaxYs);
  group.first = first;
  return group;
}

}  // namespace

std::invalid_argument Corrupt() { return std::invalid_argument("the program is corrupt"); }

int64_t FormatOf(const std::string& serialized) {
  int64_t words[2] = {};
  if (serialized.size() >= sizeof(words)) std::memcpy(words, serialized.data(), sizeof(words));
  return words[1];
}

Reader::Reader(const std::string& serialized) {
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

int64_t Reader::Int(int64_t least, int64_t most) {
  if (next_int_ >= ints_.size()) throw std::invalid_argument("the program is truncated");
  const int64_t value = ints_[next_int_++];
  if (value < least || value > most) throw Corrupt();
  return value;
}

std::vector<int64_t> Reader::Ints(int64_t count, int64_t least, int64_t most) {
  if (CheckedCount(count) > static_cast<int64_t>(ints_.size() - next_int_))
    throw std::invalid_argument("the program is truncated");
  std::vector<int64_t> values(count);
  for (int64_t& value : values) value = Int(least, most);
  return values;
}

std::vector<double> Reader::Reals(int64_t count) {
  if (CheckedCount(count) > static_cast<int64_t>(reals_.size() - next_real_))
    throw std::invalid_argument("the program is truncated");
  std::vector<double> values(reals_.begin() + next_real_, reals_.begin() + next_real_ + count);
  next_real_ += count;
  return values;
}

std::vector<Complex> Reader::Complexes(int64_t count) {
  const std::vector<double> parts = Reals(2 * count);
  std::vector<Complex> values(count);
  for (int64_t i = 0; i < count; ++i) values[i] = Complex(parts[2 * i], parts[2 * i + 1]);
  return values;
}

void Reader::End() const {
  if (next_int_ < ints_.size() || next_real_ < reals_.size())
    throw std::invalid_argument("the program has trailing data");
}

void ReadGateTables(Reader* in, GateTables* gates) {
  for (int64_t left = in->Count(); left > 0; --left)
    gates->factors.push_back(ReadFactor(in, gates->shared, gates->per_example));
  for (int64_t left = in->Count(); left > 0; --left)
    gates->sequences.push_back(ReadSequence(in, gates->factors));
}

void ReadItems(Reader* in, const GateTables& gates, MatrixProduct* product) {
  const int64_t factors = gates.factors.size(), sequences = gates.sequences.size();
  product->items = in->Ints(in->Count(), -factors, sequences - 1);
  for (int64_t item : product->items) {
    const int32_t size = item >= 0 ? gates.sequences[item].size : gates.factors[~item].size;
    if (size != product->size()) throw Corrupt();
    product->per_example |= item < 0;
  }
}

void ReadPauliGroups(Reader* in, Program* program) {
  program->string_count = 0;
  for (int64_t left = in->Count(); left > 0; --left) {
    program->pauli_groups.push_back(ReadPauliGroup(in, program->string_count, program->qubits));
    program->string_count += program->pauli_groups.back().z.size();
  }
}

}  // namespace qfleet
