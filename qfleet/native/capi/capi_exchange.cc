// qfleet_stages.h: what workers exchange between the stages of a distributed state.
#include <algorithm>

#include "capi/capi_internal.h"
#include "capi/capi_shard.h"
#include "qfleet_stages.h"
#include "state/stages.h"

namespace qfleet {
namespace {

// The groups of reals first ... first + count - 1, which must be among the first `groups`.
struct GroupRange {
  GroupRange(int64_t first_real, int64_t real_count, int64_t group_reals, int64_t groups)
      : first(first_real / group_reals), count(real_count / group_reals) {
    if (first_real < 0 || first_real % group_reals)
      throw std::invalid_argument("first must be a multiple of " + std::to_string(group_reals) +
                                  " reals, not " + std::to_string(first_real));
    if (real_count < 1 || real_count % group_reals)
      throw std::invalid_argument("count must be a positive multiple of " +
                                  std::to_string(group_reals) + " reals, not " +
                                  std::to_string(real_count));
    if (count > groups || first > groups - count)
      throw std::invalid_argument("first and count must lie within the states");
  }
  int64_t first, count;
};

// The amplitudes of each worker's region.
QubitRegion FindRegion(const Shard& shard) {
  if (shard.bits.empty()) throw std::invalid_argument("shard.bits must not be empty");
  QubitRegion region;
  for (int64_t bit : shard.bits) {
    if (bit < shard.layout.lane_qubits)
      throw std::invalid_argument("shard.bits must be at least the " +
                                  std::to_string(shard.layout.lane_qubits) +
                                  " qubits in the lanes, which can't be swapped");
    region.rank_bits.push_back(static_cast<int32_t>(bit) - shard.layout.lane_qubits);
  }
  region.sorted_bits = region.rank_bits;
  std::sort(region.sorted_bits.begin(), region.sorted_bits.end());
  region.group_reals = shard.group_reals;
  return region;
}

template <class T>
void Exchange(const Shard& shard, T* states, int64_t state_count, int64_t first, int64_t count,
              T* packed, int64_t packed_count, bool pack) {
  states = shard.States<T>("states", static_cast<void*>(states), state_count);
  const QubitRegion region = FindRegion(shard);
  const int64_t workers = int64_t{1} << shard.bits.size();
  const GroupRange range(first, count, shard.group_reals,
                         shard.layout.tiles * shard.layout.groups / workers);
  CheckBuffer("packed", packed, packed_count, Product(workers, count), sizeof(T));
  CopyRegion(region, states, packed, range.first, range.count, pack);
}

// The peer's groups must have a matching range in a tile.
GroupRange PeerGroups(const Shard& shard, int64_t first, int64_t peer_count) {
  const GroupRange range(first, peer_count, shard.group_reals,
                         shard.layout.tiles * shard.layout.groups);
  if ((range.count & (range.count - 1)) || range.count > shard.layout.groups ||
      range.first % range.count)
    throw std::invalid_argument(
        "peer must have a power of two of groups that divides the group of `first`");
  return range;
}

}  // namespace
}  // namespace qfleet

using namespace qfleet;  // NOLINT: the functions of this file are in the global namespace

qfleet_status qfleet_pack_region(qfleet_program program, const qfleet_shard* shard,
                                 const void* states, int64_t state_count, int64_t first,
                                 int64_t count, void* packed, int64_t packed_count) {
  return WithStateEngine(__func__, program, [&](auto* engine, const Program& loaded) {
    using T = RealOf<decltype(engine)>;
    Exchange(Shard(engine, loaded, shard), static_cast<T*>(const_cast<void*>(states)), state_count,
             first, count, static_cast<T*>(packed), packed_count, true);
  });
}

qfleet_status qfleet_unpack_region(qfleet_program program, const qfleet_shard* shard,
                                   const void* packed, int64_t packed_count, int64_t first,
                                   int64_t count, void* states, int64_t state_count) {
  return WithStateEngine(__func__, program, [&](auto* engine, const Program& loaded) {
    using T = RealOf<decltype(engine)>;
    Exchange(Shard(engine, loaded, shard), static_cast<T*>(states), state_count, first, count,
             static_cast<T*>(const_cast<void*>(packed)), packed_count, false);
  });
}

qfleet_status qfleet_cross_shard_expectation(qfleet_program program, const qfleet_shard* shard,
                                             const void* states, int64_t state_count,
                                             const void* peer, int64_t peer_count, int64_t first,
                                             void* values, int64_t value_count) {
  return WithStateEngine(__func__, program, [&](auto* engine, const Program& loaded) {
    using T = RealOf<decltype(engine)>;
    const Shard checked(engine, loaded, shard);
    const T* own = checked.States<T>("states", states, state_count);
    const T* others = Checked<T>("peer", peer, peer_count, std::max<int64_t>(peer_count, 0));
    T* out = Checked<T>("values", values, value_count, checked.ValueCount());
    const GroupRange range = PeerGroups(checked, first, peer_count);
    std::fill_n(out, value_count, T{0});
    engine->CrossShardExpectation(checked.batch, own, others, range.first, range.count, out);
  });
}

qfleet_status qfleet_cross_shard_apply_observables(qfleet_program program,
                                                   const qfleet_shard* shard, const void* peer,
                                                   int64_t peer_count, int64_t first,
                                                   const void* upstream, int64_t upstream_count,
                                                   void* lambdas, int64_t lambda_count) {
  return WithStateEngine(__func__, program, [&](auto* engine, const Program& loaded) {
    using T = RealOf<decltype(engine)>;
    const Shard checked(engine, loaded, shard);
    const T* others = Checked<T>("peer", peer, peer_count, std::max<int64_t>(peer_count, 0));
    const T* in = Checked<T>("upstream", upstream, upstream_count, checked.ValueCount());
    T* out = checked.States<T>("lambdas", lambdas, lambda_count);
    const GroupRange range = PeerGroups(checked, first, peer_count);
    engine->CrossShardApplyObservables(checked.batch, others, range.first, range.count, in, out);
  });
}
