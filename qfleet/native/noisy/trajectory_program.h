// Noisy circuits as averages over quantum trajectories, in the format that
// qfleet/compiler/noisy/trajectory_writer.py writes.
//
// A trajectory is a state vector. At each channel, one of its Kraus operators K is drawn with the
// probability |K psi|^2, and the state becomes K psi / |K psi|.
#ifndef QFLEET_TRAJECTORY_PROGRAM_H_
#define QFLEET_TRAJECTORY_PROGRAM_H_

#include <cstdint>
#include <string>
#include <vector>

#include "program/noisy_block.h"
#include "program/program.h"

namespace qfleet {

// The Kraus operators of a channel.
struct KrausChannel {
  int32_t qubits;                              // 1 or 2
  std::vector<std::vector<double>> operators;  // [D * D] (re, im)
  // Of each operator if these are unitary: then `operators` are unitary, too. Empty if the
  // probabilities depend on the state.
  std::vector<double> probabilities;

  bool depends_on_state() const { return probabilities.empty(); }
};

struct TrajectoryBlock : NoisyBlock {
  bool depends_on_state = false;  // has such a channel

  int32_t size() const { return 1 << qubits; }
};

struct TrajectoryProgram : GateTables {
  std::vector<KrausChannel> channels;
  std::vector<TrajectoryBlock> blocks;
  std::vector<double> weights;  // [strings][readouts]
  std::vector<double> offsets;  // [readouts]
  int64_t trajectories;
  ShotSettings shots;
  // The same blocks without items, and the strings: what kernels are planned for.
  Program states;

  int64_t strings() const { return states.string_count; }

  // True if these are the bytes of a trajectory program, which need not be valid.
  static bool IsTrajectoryProgram(const std::string& serialized);
  // Parses as Program does, and throws std::invalid_argument likewise.
  explicit TrajectoryProgram(const std::string& serialized);
};

}  // namespace qfleet

#endif  // QFLEET_TRAJECTORY_PROGRAM_H_
