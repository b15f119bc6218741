// Reads serialized programs: a list of integers and one of reals.
#ifndef QFLEET_PROGRAM_READER_H_
#define QFLEET_PROGRAM_READER_H_

#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

#include "program/program.h"

namespace qfleet {

constexpr int64_t kMaxExponents = int64_t{1} << 20;

std::invalid_argument Corrupt();

// The first integer of a program, which names its kind; 0 for bytes that are too short.
int64_t FormatOf(const std::string& serialized);

// Reads both lists in the order in which qfleet/compiler/state/program_writer.py writes them.
class Reader {
 public:
  explicit Reader(const std::string& serialized);

  int64_t Int(int64_t least, int64_t most);
  // A number of items, each of which takes at least one number.
  int64_t Count() { return Int(0, ints_.size() + reals_.size()); }
  std::vector<int64_t> Ints(int64_t count, int64_t least, int64_t most);
  std::vector<double> Reals(int64_t count);
  std::vector<Complex> Complexes(int64_t count);
  void End() const;  // throws unless all is read

 private:
  std::vector<int64_t> ints_;
  std::vector<double> reals_;
  size_t next_int_ = 0, next_real_ = 0;
};

// Reads factors and sequences. The numbers of exponents must be set.
void ReadGateTables(Reader* in, GateTables* gates);

// Reads the items of a product whose number of qubits is set.
void ReadItems(Reader* in, const GateTables& gates, MatrixProduct* product);

// Reads Pauli strings by the bits that they flip. The number of qubits must be set.
void ReadPauliGroups(Reader* in, Program* program);

}  // namespace qfleet

#endif  // QFLEET_PROGRAM_READER_H_
