// Prepares a program for a device.
//
// There, a block costs a pass over the state, whatever it does in the pass. Blocks on one qubit are
// therefore joined with their neighbours on two qubits, or in pairs; on the CPU, which has other
// costs, the compiler left them apart. Constant permutations of basis states stay apart, because a
// device only renames amplitudes for them.
#ifndef QFLEET_DEVICE_FUSION_H_
#define QFLEET_DEVICE_FUSION_H_

#include <array>
#include <optional>

#include "program/program.h"

namespace qfleet {

// The same circuit in fewer blocks, without windows.
Program FuseForDevice(const Program& program);

// The basis states of two qubits that a block turns the basis states into, if it is a constant
// permutation.
std::optional<std::array<int32_t, 4>> PermutationOf(const Program& program, const Block& block);

}  // namespace qfleet

#endif  // QFLEET_DEVICE_FUSION_H_
