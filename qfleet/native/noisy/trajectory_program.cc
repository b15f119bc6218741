#include "noisy/trajectory_program.h"

#include <cmath>

namespace qfleet {
namespace {

constexpr int64_t kTrajectoryFormat = 4;
constexpr int64_t kMaxTrajectoryQubits = 32;
constexpr int64_t kMaxTrajectories = int64_t{1} << 20;
constexpr int64_t kMaxOperators = 256;

KrausChannel ReadChannel(Reader* in) {
  KrausChannel channel;
  channel.qubits = static_cast<int32_t>(in->Int(1, 2));
  const int64_t count = in->Int(1, kMaxOperators);
  const bool is_mixture = in->Int(0, 1) != 0;
  if (is_mixture) channel.probabilities = in->Reals(count);
  for (double probability : channel.probabilities)
    if (!(probability >= 0 && probability <= 1)) throw Corrupt();
  for (int64_t k = 0; k < count; ++k) {
    channel.operators.push_back(in->Reals(int64_t{2} << 2 * channel.qubits));
    for (double entry : channel.operators.back())
      if (!std::isfinite(entry)) throw Corrupt();
  }
  return channel;
}

TrajectoryBlock ReadBlock(Reader* in, const std::vector<int32_t>& channel_qubits,
                          TrajectoryProgram* program) {
  Block kernel = {};
  TrajectoryBlock block;
  kernel.qubits = block.qubits = static_cast<int32_t>(in->Int(1, 2));
  for (int q = 0; q < block.qubits; ++q) kernel.bits[q] = in->Int(0, program->qubits - 1);
  if (block.qubits == 2 && kernel.bits[0] == kernel.bits[1]) throw Corrupt();
  kernel.entries = kernel.closure = (1 << block.size() * block.size()) - 1;
  program->states.blocks.push_back(kernel);
  ReadNoisyItems(in, *program, channel_qubits, &block);
  for (const NoisyItem& item : block.items)
    if (item.channel >= 0)
      block.depends_on_state |= program->channels[item.channel].depends_on_state();
  return block;
}

}  // namespace

bool TrajectoryProgram::IsTrajectoryProgram(const std::string& serialized) {
  return FormatOf(serialized) == kTrajectoryFormat;
}

TrajectoryProgram::TrajectoryProgram(const std::string& serialized) {
  Reader in(serialized);
  in.Int(kTrajectoryFormat, kTrajectoryFormat);
  qubits = static_cast<int32_t>(in.Int(1, kMaxTrajectoryQubits));
  shared = in.Int(0, kMaxExponents);
  per_example = in.Int(0, kMaxExponents);
  readouts = in.Count();
  trajectories = in.Int(1, kMaxTrajectories);
  shots = ReadShotSettings(&in, *this);
  ReadGateTables(&in, this);
  std::vector<int32_t> channel_qubits;
  for (int64_t left = in.Count(); left > 0; --left) {
    channels.push_back(ReadChannel(&in));
    channel_qubits.push_back(channels.back().qubits);
  }
  states.qubits = qubits;
  for (int64_t left = in.Count(); left > 0; --left)
    blocks.push_back(ReadBlock(&in, channel_qubits, this));
  ReadPauliGroups(&in, &states);
  weights = in.Reals(strings() * readouts);
  offsets = in.Reals(readouts);
  in.End();
}

}  // namespace qfleet
