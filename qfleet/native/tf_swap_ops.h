// TensorFlow ops for the data that workers exchange between two stages of a distributed state.
#ifndef QFLEET_TF_SWAP_OPS_H_
#define QFLEET_TF_SWAP_OPS_H_

#include <algorithm>

#include "stages.h"
#include "tf_shard_op.h"

namespace qfleet {

// Base class of the ops that pack the groups for each worker, and unpack those received.
template <class T>
class RegionOp : public ShardOp<T> {
 public:
  explicit RegionOp(OpKernelConstruction* context) : ShardOp<T>(context) {}

 protected:
  // Finds the amplitudes that each worker receives, and how many groups they are.
  bool FindRegion(OpKernelContext* context, const Batch& batch, int64_t workers,
                  QubitRegion* region, int64_t* groups) {
    const TileLayout layout = this->engine_->TileLayoutFor(batch);
    if (this->bit_positions_.empty()) {
      context->CtxFailure(tf::errors::InvalidArgument("places must not be empty"));
      return false;
    }
    for (int64_t bit : this->bit_positions_)
      if (bit < layout.lane_qubits) {
        context->CtxFailure(tf::errors::InvalidArgument("qubits in the lanes can't be swapped"));
        return false;
      }
    for (int64_t bit : this->bit_positions_)
      region->rank_bits.push_back(static_cast<int32_t>(bit) - layout.lane_qubits);
    region->sorted_bits = region->rank_bits;
    std::sort(region->sorted_bits.begin(), region->sorted_bits.end());
    region->group_reals = layout.tile_reals / layout.groups;
    *groups = layout.tiles * layout.groups / workers;
    return true;
  }
  int64_t workers() const { return int64_t{1} << this->bit_positions_.size(); }
};

template <class T>
class PackOp : public RegionOp<T> {
 public:
  using RegionOp<T>::RegionOp;

  void Compute(OpKernelContext* context) override {
    Batch batch;
    if (!this->ReadShardInputs(context, -1, &batch)) return;
    const Tensor& states = context->input(2);
    if (!this->CheckStates(context, states, batch)) return;
    QubitRegion region;
    int64_t groups, first, count;
    if (!this->FindRegion(context, batch, this->workers(), &region, &groups) ||
        !this->ReadGroups(context, 3, region.group_reals, &first) ||
        !this->ReadGroups(context, 4, region.group_reals, &count))
      return;
    OP_REQUIRES(context, first >= 0 && count > 0 && first <= groups - count,
                tf::errors::InvalidArgument("the groups must lie within the states"));
    Tensor* packed;
    OP_REQUIRES_OK(
        context, this->Allocate(context, 0, this->workers(), count * region.group_reals, &packed));
    CopyRegion<T>(region, const_cast<T*>(states.flat<T>().data()), packed->flat<T>().data(), first,
                  count, true);
  }
};

template <class T>
class UnpackOp : public RegionOp<T> {
 public:
  using RegionOp<T>::RegionOp;

  void Compute(OpKernelContext* context) override {
    Batch batch;
    if (!this->ReadShardInputs(context, -1, &batch)) return;
    if (!this->CheckStates(context, context->input(2), batch)) return;
    QubitRegion region;
    int64_t groups, first;
    if (!this->FindRegion(context, batch, this->workers(), &region, &groups) ||
        !this->ReadGroups(context, 3, region.group_reals, &first))
      return;
    const Tensor& packed = context->input(4);
    OP_REQUIRES(context, packed.dims() == 2 && packed.dim_size(0) == this->workers(),
                tf::errors::InvalidArgument("pieces must be [workers, reals]"));
    const int64_t count = packed.dim_size(1) / region.group_reals;
    OP_REQUIRES(context,
                first >= 0 && count > 0 && first <= groups - count &&
                    count * region.group_reals == packed.dim_size(1),
                tf::errors::InvalidArgument("the groups must lie within the states"));
    T* states = this->ForwardInput(context, 2, 0);
    if (states)
      CopyRegion<T>(region, states, const_cast<T*>(packed.flat<T>().data()), first, count, false);
  }
};

// The contribution of a peer's groups to the expectation values, or to lambda.
template <class T, bool EXPECTATION>
class CrossShardOp : public ShardOp<T> {
 public:
  using ShardOp<T>::ShardOp;

  void Compute(OpKernelContext* context) override {
    Batch batch;
    if (!this->ReadShardInputs(context, -1, &batch)) return;
    const Tensor &states = context->input(2), &peers = context->input(3);
    if (!this->CheckStates(context, states, batch)) return;
    const TileLayout layout = this->engine_->TileLayoutFor(batch);
    const int64_t reals = layout.tile_reals / layout.groups;
    int64_t first;
    if (!this->ReadGroups(context, 4, reals, &first)) return;
    const int64_t count = peers.NumElements() / reals;
    OP_REQUIRES(context,
                count > 0 && (count & (count - 1)) == 0 && count <= layout.groups &&
                    count * reals == peers.NumElements() && first >= 0 && first % count == 0 &&
                    first < layout.tiles * layout.groups,
                tf::errors::InvalidArgument("the groups must lie within the states"));
    const T* peer_groups = peers.flat<T>().data();
    if constexpr (EXPECTATION) {
      Tensor* values;
      OP_REQUIRES_OK(context,
                     this->Allocate(context, 0, batch.size, this->program_->readouts, &values));
      values->flat<T>().setZero();
      this->RunGuarded(context, [&] {
        this->engine_->CrossShardExpectation(batch, states.flat<T>().data(), peer_groups, first,
                                             count, values->flat<T>().data());
      });
    } else {
      const Tensor& upstream = context->input(5);
      if (!this->CheckShape(context, "the upstream gradient", upstream, batch.size,
                            this->program_->readouts))
        return;
      T* lambdas = this->ForwardInput(context, 2, 0);
      if (lambdas)
        this->RunGuarded(context, [&] {
          this->engine_->CrossShardApplyObservables(batch, peer_groups, first, count,
                                                    upstream.flat<T>().data(), lambdas);
        });
    }
  }
};

template <class T>
using CrossShardExpectationOp = CrossShardOp<T, true>;
template <class T>
using CrossShardApplyObservablesOp = CrossShardOp<T, false>;

}  // namespace qfleet

#endif  // QFLEET_TF_SWAP_OPS_H_
