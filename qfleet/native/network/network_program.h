// Expectation values as contractions of tensor networks, in the format that
// qfleet/compiler/network/network_program.py writes.
//
// A Pauli string depends on the gates of its light cone only. Its expectation value is a network of
// the cone's matrices, of their conjugates, and of the string. The networks of many strings differ
// in their exponents only: they are the instances of one network, and with the examples of a batch
// they are its rows.
#ifndef QFLEET_NETWORK_PROGRAM_H_
#define QFLEET_NETWORK_PROGRAM_H_

#include <cstdint>
#include <string>
#include <vector>

#include "program/program.h"

namespace qfleet {

using Indices = std::vector<int64_t>;  // of a tensor, each of dimension 2; the first is slowest

// A tensor of matrix entries, or a constant one.
struct Leaf {
  Indices indices;
  int64_t product;               // of the network's products; -1: constant
  bool conjugate;                // the entries' complex conjugates
  std::vector<int64_t> entries;  // [2**rank] row * D + col of the matrix, or -1 for 0
  std::vector<Complex> values;   // [2**rank] of a constant
};

// The contraction of two tensors, numbered from the leaves on: step s makes tensor leaves + s.
struct ContractionStep {
  int64_t a, b;
  Indices indices;  // of the result
};

// A string's value times `weight` is a part of a readout.
struct WeightedReadout {
  int64_t readout;
  double weight;
};

// A network and its instances. Its per-example exponents are those of a row.
struct Network : GateTables {
  std::vector<MatrixProduct> products;
  std::vector<Leaf> leaves;
  std::vector<ContractionStep> steps;  // each tensor is used once; the last result is a number
  int64_t instances;
  // [instances][per_example] exponents of a row: e >= 0: shared[e]; e < 0: per_example[b][~e].
  std::vector<int64_t> sources;
  std::vector<std::vector<WeightedReadout>> outputs;  // [instances]

  const Indices& IndicesOf(int64_t tensor) const;
};

struct NetworkProgram : ProgramSizes {
  std::vector<Network> networks;
  std::vector<double> offsets;  // [readouts]

  static constexpr int64_t kFormat = 2;  // the first integer

  // Parses as Program does, and throws std::invalid_argument likewise.
  explicit NetworkProgram(const std::string& serialized);
};

}  // namespace qfleet

#endif  // QFLEET_NETWORK_PROGRAM_H_
