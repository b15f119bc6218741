#include "noisy/density_program.h"

#include <cmath>

#include "program/program_reader.h"

namespace qfleet {
namespace {

constexpr int64_t kDensityFormat = 3;

Channel ReadChannel(Reader* in) {
  Channel channel;
  channel.qubits = static_cast<int32_t>(in->Int(1, 2));
  const int64_t size = channel.qubits == 1 ? 4 : 16;
  channel.matrix = in->Reals(size * size);
  for (double entry : channel.matrix)
    if (!std::isfinite(entry)) throw Corrupt();
  return channel;
}

DensityBlock ReadBlock(Reader* in, const DensityProgram& program,
                       const std::vector<int32_t>& channel_qubits, int64_t most_live) {
  DensityBlock block;
  block.live = in->Int(1, most_live);
  block.qubits = static_cast<int32_t>(in->Int(1, 2));
  for (int32_t i = 0; i < block.qubits; ++i) block.digits[i] = in->Int(0, block.live - 1);
  if (block.qubits == 2 && block.digits[0] == block.digits[1]) throw Corrupt();
  ReadNoisyItems(in, program, channel_qubits, &block);
  return block;
}

}  // namespace

bool DensityProgram::IsDensityProgram(const std::string& serialized) {
  return FormatOf(serialized) == kDensityFormat;
}

DensityProgram::DensityProgram(const std::string& serialized) {
  Reader in(serialized);
  in.Int(kDensityFormat, kDensityFormat);
  qubits = static_cast<int32_t>(in.Int(1, kMaxDensityQubits));
  shared = in.Int(0, kMaxExponents);
  per_example = in.Int(0, kMaxExponents);
  readouts = in.Count();
  shots = ReadShotSettings(&in, *this);
  ReadGateTables(&in, this);
  std::vector<int32_t> channel_qubits;
  for (int64_t left = in.Count(); left > 0; --left) {
    channels.push_back(ReadChannel(&in));
    channel_qubits.push_back(channels.back().qubits);
  }
  int64_t live = qubits;
  for (int64_t left = in.Count(); left > 0; --left) {
    blocks.push_back(ReadBlock(&in, *this, channel_qubits, live));
    live = blocks.back().live;
  }
  final_live = in.Int(1, live);
  const int64_t string_count = in.Count();
  strings = in.Ints(string_count, 0, (int64_t{1} << 2 * final_live) - 1);
  weights = in.Reals(string_count * readouts);
  offsets = in.Reals(readouts);
  in.End();
}

}  // namespace qfleet
