#include "noisy/noisy_program.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "program/program_reader.h"

namespace qfleet {
namespace {

constexpr int64_t kMaxDensityQubits = 16;
constexpr int64_t kMaxTrajectoryQubits = 32;
constexpr int64_t kMaxTrajectories = int64_t{1} << 20;
constexpr int64_t kMaxOperators = 256;
constexpr int64_t kMaxShots = int64_t{1} << 40;
constexpr int64_t kMaxRecords = int64_t{1} << 20;
constexpr int64_t kMaxCondition = 12;  // records

std::vector<double> FiniteReals(Reader* in, int64_t count) {
  std::vector<double> reals = in->Reals(count);
  for (double one : reals)
    if (!std::isfinite(one)) throw Corrupt();
  return reals;
}

void ReadOperators(Reader* in, Channel* channel) {
  const int64_t size = channel->qubits == 1 ? 4 : 16;
  channel->matrix = FiniteReals(in, size * size);
}

void ReadOperators(Reader* in, KrausChannel* channel) {
  const int64_t count = in->Int(1, kMaxOperators);
  if (in->Int(0, 1)) channel->probabilities = in->Reals(count);
  for (double probability : channel->probabilities)
    if (!(probability >= 0 && probability <= 1)) throw Corrupt();
  for (int64_t k = 0; k < count; ++k)
    channel->operators.push_back(FiniteReals(in, int64_t{2} << 2 * channel->qubits));
}

void ReadPlaces(Reader* in, int64_t end, int32_t qubits, int64_t* places) {
  for (int32_t i = 0; i < qubits; ++i) places[i] = in->Int(0, end - 1);
  if (qubits == 2 && places[0] == places[1]) throw Corrupt();
}

// Reads the number of qubits of a new block, and where these are.
void ReadQubits(Reader* in, DensityProgram* program) {
  std::vector<DensityBlock>& blocks = program->blocks;
  DensityBlock block;
  block.live = in->Int(1, blocks.empty() ? program->qubits : blocks.back().live);
  block.qubits = static_cast<int32_t>(in->Int(1, 2));
  ReadPlaces(in, block.live, block.qubits, block.digits);
  blocks.push_back(block);
}

void ReadQubits(Reader* in, TrajectoryProgram* program) {
  Block kernel = {};
  TrajectoryBlock block;
  kernel.qubits = block.qubits = static_cast<int32_t>(in->Int(1, 2));
  ReadPlaces(in, program->qubits, block.qubits, kernel.bits);
  kernel.entries = kernel.closure = (1 << block.size() * block.size()) - 1;
  program->states.blocks.push_back(kernel);
  program->blocks.push_back(block);
}

void ReadRecords(Reader*, const std::vector<Channel>&, NoisyItem*) {}

void ReadRecords(Reader* in, const std::vector<KrausChannel>&, NoisyItem* item) {
  item->record = in->Int(-1, kMaxRecords - 1);
  item->condition = in->Ints(in->Int(0, kMaxCondition), 0, kMaxRecords - 1);
  if (!item->condition.empty()) item->acts = in->Ints(int64_t{1} << item->condition.size(), 0, 1);
}

template <class Channels>
NoisyItem ReadItem(Reader* in, const GateTables& gates, const Channels& channels,
                   NoisyBlock* block) {
  NoisyItem item;
  item.channel = in->Int(-1, static_cast<int64_t>(channels.size()) - 1);
  item.product.qubits = static_cast<int32_t>(in->Int(1, block->qubits));
  item.place = static_cast<int32_t>(in->Int(0, block->qubits - item.product.qubits));
  if (item.channel >= 0) {
    if (channels[item.channel].qubits != item.product.qubits) throw Corrupt();
    ReadRecords(in, channels, &item);
    return item;
  }
  ReadItems(in, gates, &item.product);
  block->per_example |= item.product.per_example;
  for (int64_t i : item.product.items) {
    if (i >= 0) {
      block->needs_gradient[0] |= gates.sequences[i].has_exponents;
      block->needs_gradient[1] |= gates.sequences[i].has_exponents;
    } else {
      for (int64_t e : gates.factors[~i].exponents) block->needs_gradient[0] |= e >= 0;
      block->needs_gradient[1] = true;
    }
  }
  return item;
}

// Reads all up to the last block.
template <class AnyProgram>
void ReadCircuit(Reader* in, int64_t most_qubits, AnyProgram* program) {
  in->Int(AnyProgram::kFormat, AnyProgram::kFormat);
  program->qubits = static_cast<int32_t>(in->Int(1, most_qubits));
  program->shared = in->Int(0, kMaxExponents);
  program->per_example = in->Int(0, kMaxExponents);
  program->readouts = in->Count();
  program->takes_states = in->Int(0, 1) != 0;
  program->shots.shots = in->Int(0, kMaxShots);
  program->shots.seed = in->Int(0, std::numeric_limits<int64_t>::max());
  program->shots.fresh = in->Int(0, 1) != 0;
  program->shots.keys = in->Ints(in->Count(), 0, program->per_example - 1);
  ReadGateTables(in, program);
  for (int64_t left = in->Count(); left > 0; --left) {
    program->channels.emplace_back();
    program->channels.back().qubits = static_cast<int32_t>(in->Int(1, 2));
    ReadOperators(in, &program->channels.back());
  }
  for (int64_t left = in->Count(); left > 0; --left) {
    ReadQubits(in, program);
    auto& block = program->blocks.back();
    int64_t items = in->Count();
    if (items == 0) throw Corrupt();
    for (; items > 0; --items)
      block.items.push_back(ReadItem(in, *program, program->channels, &block));
  }
  for (int mode = 0; mode < 2; ++mode) {
    size_t& first = program->first_needed[mode] = 0;
    while (first < program->blocks.size() && !program->blocks[first].needs_gradient[mode]) ++first;
  }
}

void ReadWeights(Reader* in, int64_t strings, NoisyProgram* program) {
  program->string_count = strings;
  program->weights = in->Reals(strings * program->readouts);
  program->offsets = in->Reals(program->readouts);
  in->End();
}

}  // namespace

DensityProgram::DensityProgram(const std::string& serialized) {
  kind = "density matrices";
  Reader in(serialized);
  ReadCircuit(&in, kMaxDensityQubits, this);
  takes_matrices = takes_states;
  live_at_end = in.Int(1, blocks.empty() ? qubits : blocks.back().live);
  strings = in.Ints(in.Count(), 0, (int64_t{1} << 2 * live_at_end) - 1);
  ReadWeights(&in, strings.size(), this);
}

TrajectoryProgram::TrajectoryProgram(const std::string& serialized) {
  kind = "trajectories";
  Reader in(serialized);
  ReadCircuit(&in, kMaxTrajectoryQubits, this);
  for (TrajectoryBlock& block : blocks)
    for (const NoisyItem& item : block.items) {
      if (item.channel >= 0) block.depends_on_state |= channels[item.channel].depends_on_state();
      records = std::max(records, item.record + 1);
      for (int64_t record : item.condition) records = std::max(records, record + 1);
    }
  trajectories = in.Int(1, kMaxTrajectories);
  states.qubits = qubits;
  states.takes_states = takes_states;
  ReadPauliGroups(&in, &states);
  ReadWeights(&in, states.string_count, this);
}

}  // namespace qfleet
