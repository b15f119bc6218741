// The base class of the TensorFlow ops on one shard of a distributed state.
#ifndef QFLEET_TF_SHARD_OP_H_
#define QFLEET_TF_SHARD_OP_H_

#include <cstring>
#include <memory>
#include <vector>

#include "tf_ops.h"

namespace qfleet {

// Base class of the ops on one shard of a distributed state. Seeds are [batch, 2**bits] amplitudes
// as (re, im).
template <class T>
class ShardOp : public ProgramOp<T> {
 public:
  explicit ShardOp(OpKernelConstruction* context) : ProgramOp<T>(context) {
    if (!context->status().ok()) return;
    OP_REQUIRES(context, this->program_->prefix == 0 && this->program_->initial.empty(),
                tf::errors::InvalidArgument(
                    "the program of a state shard must not have a prefix or an initial state"));
    if (context->HasAttr("places")) {
      OP_REQUIRES_OK(context, context->GetAttr("places", &bit_positions_));
      int64_t seen = 0;
      for (int64_t bit : bit_positions_) {
        OP_REQUIRES(context, bit >= 0 && bit < this->program_->qubits && !(seen >> bit & 1),
                    tf::errors::InvalidArgument("places must be distinct bits of the state"));
        seen |= int64_t{1} << bit;
      }
    }
    if (context->HasAttr("across")) {
      tf::int64 across;
      OP_REQUIRES_OK(context, context->GetAttr("across", &across));
      OP_REQUIRES(context, across >= 0 && across < kAnyLaneQubits,
                  tf::errors::InvalidArgument("across must be a number of qubits"));
      max_lane_qubits_ = static_cast<int32_t>(across);
    }
  }

 protected:
  int64_t seed_width() const { return int64_t{2} << bit_positions_.size(); }

  // Reads the exponents and, unless its input number is negative, the seeds.
  bool ReadShardInputs(OpKernelContext* context, int seeds, Batch* batch) {
    if (!this->ReadInputs(context, batch)) return false;
    batch->max_lane_qubits = max_lane_qubits_;
    if (seeds < 0) return true;
    const Tensor& tensor = context->input(seeds);
    if (!this->CheckShape(context, "seeds", tensor, batch->size, seed_width())) return false;
    batch->seeds = tensor.flat<double>().data();
    batch->seed_bits = &bit_positions_;
    return true;
  }

  // Checks that a tensor holds the tiles of this batch.
  bool CheckStates(OpKernelContext* context, const Tensor& states, const Batch& batch) {
    const TileLayout layout = this->engine_->TileLayoutFor(batch);
    if (states.dims() == 1 && states.NumElements() == layout.tiles * layout.tile_reals) return true;
    context->CtxFailure(tf::errors::InvalidArgument("the states do not belong to this batch"));
    return false;
  }

  // Reads a scalar number of reals, in groups of `group_reals`.
  bool ReadGroups(OpKernelContext* context, int input, int64_t group_reals, int64_t* groups) {
    const Tensor& tensor = context->input(input);
    if (!tf::TensorShapeUtils::IsScalar(tensor.shape()) || tensor.scalar<tf::int64>()() < 0) {
      context->CtxFailure(tf::errors::InvalidArgument(
          "input ", input, " must be a scalar of at least 0, not ", tensor.DebugString()));
      return false;
    }
    *groups = tensor.scalar<tf::int64>()() / group_reals;
    return true;
  }

  // Returns input `input` as output `output`, in place if the op owns the only reference.
  T* ForwardInput(OpKernelContext* context, int input, int output) {
    Tensor* found = nullptr;
    const Tensor& from = context->input(input);
    const tf::Status status =
        context->forward_input_or_allocate_output({input}, output, from.shape(), &found);
    if (!status.ok()) {
      context->CtxFailure(status);
      return nullptr;
    }
    T* data = found->template flat<T>().data();
    const T* old = from.template flat<T>().data();
    if (data != old) std::memcpy(data, old, from.NumElements() * sizeof(T));
    return data;
  }

  std::vector<int64_t> bit_positions_;
  int32_t max_lane_qubits_ = kAnyLaneQubits;
};

}  // namespace qfleet

#endif  // QFLEET_TF_SHARD_OP_H_
