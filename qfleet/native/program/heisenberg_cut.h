// Divides a program in two, so that its last blocks act on observables instead of states.
//
// The last blocks of many circuits, such as pooling networks, act on few qubits. In the Heisenberg
// picture they turn an observable O on these qubits into U^dagger O U, a small matrix that all
// examples share. Then the states are evolved up to the cut only, and values need no more of them
// than their reduced density matrix.
#ifndef QFLEET_HEISENBERG_CUT_H_
#define QFLEET_HEISENBERG_CUT_H_

#include <cstdint>
#include <vector>

#include "program/program.h"

namespace qfleet {

struct HeisenbergCut {
  int32_t head = 0;           // blocks before the cut; 0 if there is no useful cut
  std::vector<int64_t> bits;  // that the other blocks and the observables use, ascending
  double saved = 0;           // multiply-adds of a training step, per amplitude of an example
  double tail = 0;            // the same, of the other blocks
};

// Finds the cut that saves most.
HeisenbergCut FindHeisenbergCut(const Program& program);

// The blocks before the cut, without observables.
Program HeadProgram(const Program& program, const HeisenbergCut& cut);

// The other blocks with the observables. Bit i of its index is cut.bits[i].
Program TailProgram(const Program& program, const HeisenbergCut& cut);

// Removes the factors and sequences that no block uses.
void RemoveUnusedGates(Program* program);

}  // namespace qfleet

#endif  // QFLEET_HEISENBERG_CUT_H_
