#include "random_circuit.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>

namespace qfleet {
namespace tests {

Circuit RandomCircuit(const CircuitSpec& spec, Random* random) {
  Circuit circuit;
  circuit.qubits = spec.qubits;
  circuit.shared = RandomInt(random, 1, 4);
  circuit.per_example = RandomInt(random, 1, 3);
  circuit.prefix = spec.prefix;
  bool only_shared = spec.subspace;
  const auto exponents = [&] {
    std::vector<int64_t> found;
    for (int64_t left = RandomInt(random, 0, 2); left > 0; --left)
      found.push_back(
          RandomInt(random, only_shared ? 0 : -circuit.per_example, circuit.shared - 1));
    return found;
  };
  std::vector<int64_t> bits(spec.qubits);  // those of the tail first
  std::iota(bits.begin(), bits.end(), 0);
  if (spec.tail) {  // not among the lowest, which may be in the lanes
    std::rotate(bits.begin(), bits.begin() + std::min<int64_t>(4, spec.qubits - spec.tail),
                bits.end());
    std::shuffle(bits.begin(), bits.begin() + std::max(spec.tail, spec.qubits - 4), *random);
  }
  const int64_t tail_blocks = 8 * spec.tail;
  for (int64_t b = 0; b < spec.blocks + tail_blocks; ++b) {
    const bool in_tail = b >= spec.blocks;
    only_shared |= in_tail;
    const int64_t width = in_tail ? spec.tail : spec.qubits;
    Block block;
    const int64_t first = RandomInt(random, 0, width - 1);
    block.bits.push_back(bits[first]);
    if (width > 1 && RandomInt(random, 0, 3)) {
      const int64_t other = RandomInt(random, 0, width - 2);
      block.bits.push_back(bits[other + (other >= first)]);
    }
    if (!in_tail && b > spec.prefix &&
        RandomInt(random, 0, 3) == 0) {  // repeat the gates of an earlier block
      const Block& like = circuit.blocks[RandomInt(random, spec.prefix, b - 1)];
      if (like.bits.size() == block.bits.size()) block.gates = like.gates;
    }
    // Any gates, or only sparse gates, or only permutations.
    const int64_t style = RandomInt(random, 0, 5);
    for (int64_t left = block.gates.empty() ? RandomInt(random, 1, 3) : 0; left > 0; --left) {
      Kind kind = static_cast<Kind>(RandomInt(random, kDense, kSingle));
      if (style == 1 || style == 2)
        kind = static_cast<Kind>(RandomInt(random, kDiagonal, kControlled));
      if (style == 0) kind = kPermuting;
      const bool fixed = b < spec.prefix || style == 0;
      block.gates.push_back(circuit.gates.size());
      circuit.gates.push_back(RandomGate(int64_t{1} << block.bits.size(), kind,
                                         fixed ? std::vector<int64_t>() : exponents(), random));
    }
    circuit.blocks.push_back(block);
  }
  for (int64_t e = 0; spec.subspace && e < circuit.per_example; ++e) {
    Block& block = circuit.blocks[RandomInt(random, spec.prefix, spec.blocks - 1)];
    std::vector<int64_t> gate_exponents = {~e};
    if (RandomInt(random, 0, 1))
      gate_exponents.push_back(0);  // and a shared exponent in the same gate
    block.gates.push_back(circuit.gates.size());
    circuit.gates.push_back(
        RandomGate(int64_t{1} << block.bits.size(), kPermuting, gate_exponents, random));
  }
  if (spec.window) circuit.windows = MakeWindows(circuit, spec.window);
  const int64_t readouts = RandomInt(random, 1, 3), most = (int64_t{1} << spec.qubits) - 1;
  int64_t measured = most;
  if (spec.tail) {
    measured = 0;
    for (int64_t i = 0; i < spec.tail; ++i) measured |= int64_t{1} << bits[i];
  }
  for (int64_t flips = 0; flips < 3; ++flips) {
    const int64_t flip = flips ? RandomInt(random, 0, most) & measured : 0;
    for (int64_t left = RandomInt(random, 1, 3); left > 0; --left) {
      Pauli string = {flip, RandomInt(random, 0, most) & measured, 0, {}};
      string.ys = __builtin_popcountll(string.flip & string.z);
      for (int64_t k = 0; k < readouts; ++k) string.weights.push_back(RandomReal(random, -1, 1));
      circuit.strings.push_back(string);
    }
  }
  for (int64_t k = 0; k < readouts; ++k) circuit.offsets.push_back(RandomReal(random, -1, 1));
  if (spec.initial) {
    std::normal_distribution<double> normal(0, std::sqrt(0.5 / (most + 1.0)));
    circuit.initial.resize(most + 1);
    for (Complex& x : circuit.initial) x = Complex(normal(*random), normal(*random));
  }
  return circuit;
}

std::vector<Window> MakeWindows(const Circuit& circuit, int64_t most) {
  std::vector<Window> windows;
  std::set<int64_t> inside;
  const auto close = [&](int64_t count) {
    if (!count) return;
    // Fill up with the lowest bits, which makes contiguous segments longer.
    for (int64_t bit = 0; bit < circuit.qubits && static_cast<int64_t>(inside.size()) < most; ++bit)
      inside.insert(bit);
    windows.push_back({count, {inside.begin(), inside.end()}});
  };
  int64_t count = 0;
  const auto open = [&] {
    count = 0;
    inside.clear();
    for (int64_t bit = 0; bit < std::min<int64_t>(4, circuit.qubits); ++bit) inside.insert(bit);
  };
  open();
  for (size_t b = 0; b < circuit.blocks.size(); ++b) {
    std::set<int64_t> with = inside;
    with.insert(circuit.blocks[b].bits.begin(), circuit.blocks[b].bits.end());
    if (static_cast<int64_t>(with.size()) > most || static_cast<int64_t>(b) == circuit.prefix) {
      close(count);
      open();
      with = inside;
      with.insert(circuit.blocks[b].bits.begin(), circuit.blocks[b].bits.end());
    }
    inside = with;
    ++count;
  }
  close(count);
  return windows;
}

}  // namespace tests
}  // namespace qfleet
