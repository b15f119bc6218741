#include "capi/capi_shard.h"

namespace qfleet {

const qfleet_shard& Shard::Required(const qfleet_shard* shard, bool on_device) {
  if (on_device)
    throw std::invalid_argument("a program on a device has no stages: use qfleet_program_create");
  if (!shard) throw std::invalid_argument("shard must not be null");
  return *shard;
}

Shard::Shard(const Program& program_, const qfleet_shard* shard, const Batch& made)
    : program(program_), batch(made) {
  if (program.prefix != 0 || program.takes_states || !program.initial.empty())
    throw std::invalid_argument(
        "the program of a state shard must not have a prefix or an initial state");
  if (shard->batch->allow_subspace)
    throw std::invalid_argument("batch.allow_subspace must be 0 for a state shard");
  if (shard->lane_qubits < 0 || shard->lane_qubits > kAnyLaneQubits)
    throw std::invalid_argument("shard.lane_qubits must be from 0 to " +
                                std::to_string(kAnyLaneQubits) + ", not " +
                                std::to_string(shard->lane_qubits));
  batch.max_lane_qubits = shard->lane_qubits;
  if (shard->bit_count < 0 || shard->bit_count > program.qubits)
    throw std::invalid_argument("shard.bit_count must be a number of qubits, not " +
                                std::to_string(shard->bit_count));
  CheckBuffer("shard.bits", shard->bits, shard->bit_count, shard->bit_count, sizeof(int64_t));
  bits.assign(shard->bits, shard->bits + shard->bit_count);
  int64_t seen = 0;
  for (int64_t bit : bits) {
    if (bit < 0 || bit >= program.qubits || seen >> bit & 1)
      throw std::invalid_argument("shard.bits must be distinct numbers from 0 to " +
                                  std::to_string(program.qubits - 1));
    seen |= int64_t{1} << bit;
  }
}

void Shard::SetLayout(const TileLayout& chosen) {
  layout = chosen;
  state_reals = Product(layout.tiles, layout.tile_reals);
  group_reals = layout.tile_reals / layout.groups;
}

void Shard::SetSeeds(const double* seeds, int64_t count) {
  CheckBuffer("seeds", seeds, count, SeedCount(), sizeof(double));
  batch.seeds = seeds;
  batch.seed_bits = &bits;
}

void Shard::SetSeedGradients(double* gradients, int64_t count) {
  CheckBuffer("seed_gradients", gradients, count, SeedCount(), sizeof(double));
  batch.seed_gradients = gradients;
  batch.seed_bits = &bits;
}

void Shard::CheckGradients(const double* shared_gradients, int64_t shared_gradient_count,
                           const double* per_example_gradients,
                           int64_t per_example_gradient_count) const {
  CheckBuffer("shared_gradients", shared_gradients, shared_gradient_count, program.shared,
              sizeof(double));
  CheckOptional("per_example_gradients", per_example_gradients, per_example_gradient_count,
                Product(batch.size, program.per_example));
}

}  // namespace qfleet
