// Serializes circuits in the engine's program format.
#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "random_circuit.h"

namespace qfleet {
namespace tests {
namespace {

using Pattern = std::vector<bool>;  // [D * D] possible nonzeros

int64_t SizeOf(const Pattern& pattern) { return pattern.size() == 4 ? 2 : 4; }

Pattern Product(const Pattern& a, const Pattern& b) {
  const int64_t size = SizeOf(a);
  Pattern product(a.size());
  for (int64_t i = 0; i < size; ++i)
    for (int64_t j = 0; j < size; ++j)
      for (int64_t m = 0; m < size; ++m)
        if (a[i * size + m] && b[m * size + j]) product[i * size + j] = true;
  return product;
}

Pattern PatternOf(const Gate& gate) {
  Pattern pattern(gate.size * gate.size);
  for (const Matrix& projector : gate.projectors)
    for (size_t i = 0; i < pattern.size(); ++i)
      if (std::abs(projector[i]) > 1e-12) pattern[i] = true;
  return pattern;
}

// Returns true if a row is the identity's for all exponents.
bool IsIdentityRow(const Gate& gate, int64_t row) {
  const size_t exponents = gate.exponents.size();
  Complex diagonal = 0;
  for (size_t k = 0; k < gate.projectors.size(); ++k) {
    const auto first = gate.half_turns.begin() + k * exponents;
    if (std::all_of(first, first + exponents, [](double half_turns) { return half_turns == 0; }))
      diagonal += gate.projectors[k][row * (gate.size + 1)];
  }
  return std::abs(diagonal - 1.0) < 1e-12;
}

int64_t Mask(const Circuit& circuit, const Block& block, Pattern pattern) {
  const int64_t size = SizeOf(pattern);
  int64_t mask = 0;
  for (int64_t row = 0; row < size; ++row) {
    const bool identity = std::all_of(block.gates.begin(), block.gates.end(), [&](int64_t g) {
      return IsIdentityRow(circuit.gates[g], row);
    });
    for (int64_t col = 0; !identity && col < size; ++col)
      mask |= int64_t{pattern[row * size + col]} << (row * size + col);
  }
  return mask;
}

Pattern Identity(int64_t size) {
  Pattern pattern(size * size);
  for (int64_t i = 0; i < size; ++i) pattern[i * (size + 1)] = true;
  return pattern;
}

// Adds the entries of the inverses.
void AddTransposed(Pattern* pattern) {
  const int64_t size = SizeOf(*pattern);
  for (int64_t i = 0; i < size; ++i)
    for (int64_t j = 0; j < size; ++j)
      if ((*pattern)[i * size + j]) (*pattern)[j * size + i] = true;
}

// Possible nonzeros of the block's matrix and its inverse.
int64_t Entries(const Circuit& circuit, const Block& block) {
  Pattern pattern = Identity(1 << block.bits.size());
  for (int64_t g : block.gates) pattern = Product(PatternOf(circuit.gates[g]), pattern);
  AddTransposed(&pattern);
  return Mask(circuit, block, pattern);
}

// Possible nonzeros of all products of the gates and their inverses.
int64_t Closure(const Circuit& circuit, const Block& block) {
  const int64_t size = 1 << block.bits.size();
  Pattern pattern = Identity(size);
  for (int64_t g : block.gates) {
    const Pattern one = PatternOf(circuit.gates[g]);
    for (size_t i = 0; i < one.size(); ++i) pattern[i] = pattern[i] || one[i];
  }
  AddTransposed(&pattern);
  for (int64_t length = 1; length < size; ++length) {
    const Pattern longer = Product(pattern, pattern);
    for (size_t i = 0; i < longer.size(); ++i) pattern[i] = pattern[i] || longer[i];
  }
  return Mask(circuit, block, pattern);
}

}  // namespace

std::string SerializeLists(const std::vector<int64_t>& ints, const std::vector<double>& reals) {
  const int64_t count = ints.size();
  std::string serialized(reinterpret_cast<const char*>(&count), sizeof(count));
  serialized.append(reinterpret_cast<const char*>(ints.data()), ints.size() * sizeof(int64_t));
  serialized.append(reinterpret_cast<const char*>(reals.data()), reals.size() * sizeof(double));
  return serialized;
}

std::string Circuit::Serialize() const {
  std::vector<int64_t> ints = {1, qubits, shared, per_example, static_cast<int64_t>(gates.size())};
  std::vector<double> reals;
  const auto append = [&ints](const std::vector<int64_t>& values) {
    ints.insert(ints.end(), values.begin(), values.end());
  };
  const auto count = [](const auto& values) { return static_cast<int64_t>(values.size()); };
  for (const Gate& gate : gates) {
    append({gate.size, count(gate.projectors), count(gate.exponents)});
    append(gate.exponents);
    reals.insert(reals.end(), gate.half_turns.begin(), gate.half_turns.end());
    for (const Matrix& projector : gate.projectors)
      for (const Complex& x : projector) reals.insert(reals.end(), {x.real(), x.imag()});
  }
  // Consecutive gates that all examples share form a sequence, which equal blocks share.
  std::map<std::vector<int64_t>, int64_t> sequences;
  std::vector<int64_t> sequence_ints;
  std::vector<std::vector<int64_t>> items(blocks.size());
  for (size_t b = 0; b < blocks.size(); ++b) {
    std::vector<int64_t> sequence;
    const auto close = [&] {
      if (sequence.empty()) return;
      if (!sequences.count(sequence)) {
        sequence_ints.insert(sequence_ints.end(), {gates[sequence[0]].size, count(sequence)});
        sequence_ints.insert(sequence_ints.end(), sequence.begin(), sequence.end());
      }
      items[b].push_back(sequences.emplace(sequence, count(sequences)).first->second);
      sequence.clear();
    };
    for (int64_t g : blocks[b].gates) {
      if (!gates[g].HasPerExample()) {
        sequence.push_back(g);
        continue;
      }
      close();
      items[b].push_back(~g);
    }
    close();
  }
  append({count(sequences)});
  append(sequence_ints);
  append({count(blocks)});
  std::set<int64_t> preceding[2];  // bits of earlier blocks that need a gradient
  for (size_t b = 0; b < blocks.size(); ++b) {
    const Block& block = blocks[b];
    append({count(block.bits)});
    append(block.bits);
    append({count(items[b])});
    append(items[b]);
    int64_t needs_gradient[2] = {}, needs_uncompute[2] = {};
    for (int all = 0; all < 2; ++all) {
      for (int64_t g : block.gates)
        needs_gradient[all] |= all ? !gates[g].exponents.empty() : gates[g].HasShared();
      for (int64_t bit : block.bits)
        needs_uncompute[all] |= takes_states || preceding[all].count(bit);
      if (needs_gradient[all] || needs_uncompute[all])
        preceding[all].insert(block.bits.begin(), block.bits.end());
    }
    append({needs_gradient[0], needs_gradient[1], needs_uncompute[0], needs_uncompute[1]});
    append({Entries(*this, block), Closure(*this, block)});
  }
  append({prefix, count(windows)});
  for (const Window& window : windows) {
    append({window.count, count(window.bits)});
    append(window.bits);
  }
  std::map<int64_t, std::vector<const Pauli*>> groups;
  for (const Pauli& string : strings) groups[string.flip].push_back(&string);
  append({count(groups)});
  for (const auto& [flip, group] : groups) {
    append({flip, count(group)});
    for (const Pauli* string : group) append({string->z});
    for (const Pauli* string : group) append({string->ys});
    for (const Pauli* string : group)
      reals.insert(reals.end(), string->weights.begin(), string->weights.end());
  }
  append({count(offsets), takes_states ? 2 : !initial.empty()});
  reals.insert(reals.end(), offsets.begin(), offsets.end());
  if (takes_states) return SerializeLists(ints, reals);
  for (const Complex& x : initial) reals.insert(reals.end(), {x.real(), x.imag()});
  return SerializeLists(ints, reals);
}

}  // namespace tests
}  // namespace qfleet
