#include "program/heisenberg_cut.h"

#include <algorithm>
#include <map>

#include "cpu/kernels.h"

namespace qfleet {
namespace {

constexpr int kMinReducedQubits = 2;

// Measured: multiply-adds with reduced density matrices take as long as this many of a block, and
// an entry of a readout's matrix as this many per example, in values and gradients together.
constexpr double kReducedCost = 1.6, kReadoutCost = 5;

// Of a training step, per amplitude of an example.
double MultiplyAdds(const Block& block) {
  const double applied = static_cast<double>(__builtin_popcountll(block.entries)) / block.size();
  const double gradient = static_cast<double>(__builtin_popcountll(block.closure)) / block.size();
  return applied + (block.needs_gradient[0] ? gradient : 0) +
         (block.needs_uncompute[0] ? 2 * applied : 0);
}

std::vector<int64_t> BitsOf(int64_t mask) {
  std::vector<int64_t> bits;
  for (int64_t bit = 0; mask >> bit; ++bit)
    if (mask >> bit & 1) bits.push_back(bit);
  return bits;
}

int64_t IndexOf(int64_t bit, const std::vector<int64_t>& bits) {
  return std::lower_bound(bits.begin(), bits.end(), bit) - bits.begin();
}

int64_t Compress(int64_t mask, const std::vector<int64_t>& bits) {
  int64_t compressed = 0;
  for (size_t i = 0; i < bits.size(); ++i) compressed |= (mask >> bits[i] & 1) << i;
  return compressed;
}

}  // namespace

void RemoveUnusedGates(Program* program) {
  std::map<int64_t, int64_t> factors, sequences;  // old and new numbers
  GateTables used;
  const auto factor = [&](int64_t old) {
    const auto added = factors.emplace(old, used.factors.size());
    if (added.second) used.factors.push_back(program->factors[old]);
    return added.first->second;
  };
  const auto sequence = [&](int64_t old) {
    const auto added = sequences.emplace(old, used.sequences.size());
    if (added.second) {
      used.sequences.push_back(program->sequences[old]);
      for (int64_t& f : used.sequences.back().factors) f = factor(f);
    }
    return added.first->second;
  };
  for (Block& block : program->blocks)
    for (int64_t& item : block.items) item = item >= 0 ? sequence(item) : ~factor(~item);
  program->factors = std::move(used.factors);
  program->sequences = std::move(used.sequences);
}

HeisenbergCut FindHeisenbergCut(const Program& program) {
  HeisenbergCut best;
  int64_t mask = 0;  // the bits that observables and later blocks use
  for (const PauliGroup& group : program.pauli_groups) {
    mask |= group.flip;
    for (int64_t z : group.z) mask |= z;
  }
  double tail = 0;
  for (size_t b = program.blocks.size(); b-- > 1 && !program.pauli_groups.empty();) {
    const Block& block = program.blocks[b];
    for (int q = 0; q < block.qubits; ++q) mask |= int64_t{1} << block.bits[q];
    const int qubits = __builtin_popcountll(mask);
    if (block.per_example || qubits > kMaxReducedQubits || b < static_cast<size_t>(program.prefix))
      break;
    tail += MultiplyAdds(block);
    // A row of the matrix, and on average half a row of the density matrix, in blocks of 4.
    const double size = static_cast<double>(1 << qubits), reduced = size + (size + 4) / 2;
    const double entries = static_cast<double>(program.readouts) * size * size;
    const double saved = tail - kReducedCost * reduced -
                         kReadoutCost * entries / static_cast<double>(int64_t{1} << program.qubits);
    if (qubits < kMinReducedQubits || saved <= best.saved) continue;
    best.head = static_cast<int32_t>(b);
    best.bits = BitsOf(mask);
    best.saved = saved;
    best.tail = tail;
  }
  return best;
}

Program HeadProgram(const Program& program, const HeisenbergCut& cut) {
  Program head = program;
  head.blocks.resize(cut.head);
  RemoveUnusedGates(&head);
  while (!head.windows.empty() && head.windows.back().first >= cut.head) head.windows.pop_back();
  if (!head.windows.empty()) head.windows.back().count = cut.head - head.windows.back().first;
  head.pauli_groups.clear();
  head.weights.clear();
  head.string_count = 0;
  return head;
}

Program TailProgram(const Program& program, const HeisenbergCut& cut) {
  Program tail;
  static_cast<ProgramSizes&>(tail) = program;
  tail.qubits = static_cast<int32_t>(cut.bits.size());
  tail.factors = program.factors;
  tail.sequences = program.sequences;
  tail.blocks.assign(program.blocks.begin() + cut.head, program.blocks.end());
  RemoveUnusedGates(&tail);
  for (Block& block : tail.blocks)
    for (int q = 0; q < block.qubits; ++q) block.bits[q] = IndexOf(block.bits[q], cut.bits);
  tail.pauli_groups = program.pauli_groups;
  for (PauliGroup& group : tail.pauli_groups) {
    group.flip = Compress(group.flip, cut.bits);
    for (int64_t& z : group.z) z = Compress(z, cut.bits);
  }
  tail.string_count = program.string_count;
  tail.weights = program.weights;
  tail.offsets = program.offsets;
  return tail;
}

}  // namespace qfleet
