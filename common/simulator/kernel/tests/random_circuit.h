// Random circuits as the tests know them, and as they are written down for the kernel.
#ifndef QFLEET_TESTS_RANDOM_CIRCUIT_H_
#define QFLEET_TESTS_RANDOM_CIRCUIT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "random_gate.h"

namespace qfleet {
namespace tests {

struct Block {
  std::vector<int64_t> bits;   // of the index; the first is the matrix's upper bit
  std::vector<int64_t> gates;  // first applied first
};

struct Window {
  int64_t count;              // of consecutive blocks
  std::vector<int64_t> bits;  // ascending
};

struct Pauli {
  int64_t flip, z, ys;          // P|x> = i^ys (-1)^|x & z| |x ^ flip>
  std::vector<double> weights;  // [readouts]
};

struct Circuit {
  int64_t qubits, shared = 0, per_example = 0;
  std::vector<Gate> gates;
  std::vector<Block> blocks;
  int64_t prefix = 0;  // blocks before the first exponent
  std::vector<Window> windows;
  std::vector<Pauli> strings;
  std::vector<double> offsets;   // [readouts]
  std::vector<Complex> initial;  // [2**N], or empty for |0...0>

  // How many integers, these, and the real numbers: what common/simulator/native.py writes.
  std::string Serialize() const;
};

// Joins what `Written` writes, so that a test can write something else.
std::string SerializeLists(const std::vector<int64_t>& ints, const std::vector<double>& reals);

struct CircuitSpec {
  int64_t qubits;
  int64_t blocks = 8;
  int64_t prefix = 0;
  int64_t window = 0;  // bits of a window at most; 0 for none
  bool initial = false;
  bool subspace = false;  // each of the examples' own exponents turns two eigenspaces, once
};

// Blocks of one and two qubits; dense, diagonal, permuting and controlled gates; exponents that
// are shared, each example's own, and both in one gate; strings of X, Y and Z, several of which
// flip the same bits.
Circuit RandomCircuit(const CircuitSpec& spec, Random* random);

// Windows of at most `most` bits for consecutive blocks, none across the prefix's end; each holds
// the four lowest bits, which may lie across a vector's lanes.
std::vector<Window> MakeWindows(const Circuit& circuit, int64_t most);

}  // namespace tests
}  // namespace qfleet

#endif  // QFLEET_TESTS_RANDOM_CIRCUIT_H_
