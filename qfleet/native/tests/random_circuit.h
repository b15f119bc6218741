// Random circuits for the tests.
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
  std::vector<int64_t> gates;  // in order of application
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
  bool takes_states = false;     // the caller passes the initial states

  // The format of qfleet/compiler/state/program_writer.py: number of integers, integers, reals.
  std::string Serialize() const;
};

// Concatenates the two lists of that format.
std::string SerializeLists(const std::vector<int64_t>& ints, const std::vector<double>& reals);

struct CircuitSpec {
  int64_t qubits;
  int64_t blocks = 8;
  int64_t prefix = 0;
  int64_t window = 0;  // largest number of bits per window; 0 for no windows
  bool initial = false;
  bool subspace = false;  // per-example exponents have two eigenvalues and occur once
  int64_t tail = 0;       // qubits of the last blocks, which all examples share, and of the strings
};

// A circuit of one- and two-qubit blocks with dense, diagonal, permuting and controlled gates.
// Gates have shared exponents, per-example exponents, or both. Several Pauli strings flip the same
// bits.
Circuit RandomCircuit(const CircuitSpec& spec, Random* random);

// Windows of at most `most` bits for consecutive blocks. None crosses the end of the prefix; each
// contains the four lowest bits, which may be in the lanes.
std::vector<Window> MakeWindows(const Circuit& circuit, int64_t most);

}  // namespace tests
}  // namespace qfleet

#endif  // QFLEET_TESTS_RANDOM_CIRCUIT_H_
