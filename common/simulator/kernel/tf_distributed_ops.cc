// The TensorFlow ops of a state that is split over workers: each on its worker's part of it. What
// crosses between workers is TensorFlow's own collectives (common/simulator/split_exchange.py).
#include <algorithm>
#include <cstring>

#include "stages.h"
#include "tf_ops.h"

namespace qfleet {
namespace {

// What the ops of a split state share. A seed is [batch, 2**bits] amplitudes as (re, im).
template <class T>
class ShardOp : public ProgramOp<T> {
 public:
  explicit ShardOp(OpKernelConstruction* context) : ProgramOp<T>(context) {
    if (!context->status().ok()) return;
    OP_REQUIRES(context, this->program_->prefix == 0 && this->program_->initial.empty(),
                tf::errors::InvalidArgument("a part of a state has neither prefix nor start"));
    if (context->HasAttr("places")) {
      OP_REQUIRES_OK(context, context->GetAttr("places", &bit_positions_));
      int64_t seen = 0;
      for (int64_t bit : bit_positions_) {
        OP_REQUIRES(context, bit >= 0 && bit < this->program_->qubits && !(seen >> bit & 1),
                    tf::errors::InvalidArgument("places name a bit of the state each"));
        seen |= int64_t{1} << bit;
      }
    }
    if (context->HasAttr("across")) {
      tf::int64 across;
      OP_REQUIRES_OK(context, context->GetAttr("across", &across));
      OP_REQUIRES(context, across >= 0 && across < kAnyLaneQubits,
                  tf::errors::InvalidArgument("across counts qubits"));
      max_lane_qubits_ = static_cast<int32_t>(across);
    }
  }

 protected:
  int64_t seed_width() const { return int64_t{2} << bit_positions_.size(); }

  // Takes the exponents and, if `seeds` is an input's number, the seeds.
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

  // Whether a tensor holds the tiles of this batch.
  bool CheckStates(OpKernelContext* context, const Tensor& states, const Batch& batch) {
    const TileLayout layout = this->engine_->TileLayoutFor(batch);
    if (states.dims() == 1 && states.NumElements() == layout.tiles * layout.tile_reals) return true;
    context->CtxFailure(tf::errors::InvalidArgument("the states are another batch's"));
    return false;
  }

  // Input `input` as output `output`: in place where nobody else holds it.
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

template <class T>
class ShardExpectationOp : public ShardOp<T> {
 public:
  explicit ShardExpectationOp(OpKernelConstruction* context) : ShardOp<T>(context) {
    if (context->status().ok()) OP_REQUIRES_OK(context, context->GetAttr("keep", &keep_));
    if (context->status().ok())
      OP_REQUIRES_OK(context, context->GetAttr("room", &memory_limit_bytes_));
  }

  void Compute(OpKernelContext* context) override {
    Batch batch;
    if (!this->ReadShardInputs(context, 2, &batch)) return;
    const int64_t reals =
        keep_ && batch.size
            ? this->engine_->CachedReals(this->engine_->TileLayoutFor(batch),
                                         std::min<int64_t>(kMaxCachedBytes, memory_limit_bytes_))
            : 0;
    Tensor *values, *cached;
    OP_REQUIRES_OK(context,
                   this->Allocate(context, 0, batch.size, this->program_->readouts, &values));
    OP_REQUIRES_OK(context, context->allocate_output(1, TensorShape({reals}), &cached));
    this->RunGuarded(context, [&] {
      this->engine_->Expectation(batch, values->flat<T>().data(), cached->flat<T>().data(), reals);
    });
  }

 private:
  bool keep_ = false;
  tf::int64 memory_limit_bytes_ = 0;
};

template <class T>
class ShardGradientOp : public ShardOp<T> {
 public:
  explicit ShardGradientOp(OpKernelConstruction* context) : ShardOp<T>(context) {
    if (context->status().ok())
      OP_REQUIRES_OK(context, context->GetAttr("by_each", &want_per_example_));
    if (context->status().ok())
      OP_REQUIRES_OK(context, context->GetAttr("room", &memory_limit_bytes_));
  }

  void Compute(OpKernelContext* context) override {
    Batch batch;
    if (!this->ReadShardInputs(context, 2, &batch)) return;
    const Tensor& upstream = context->input(3);
    if (!this->CheckShape(context, "the upstream gradient", upstream, batch.size,
                          this->program_->readouts))
      return;
    Tensor *shared, *per_example, *seeds;
    if (!AllocateGradients(this, context, *this->program_, batch.size, want_per_example_, &shared,
                           &per_example))
      return;
    OP_REQUIRES_OK(context, this->Allocate(context, 2, batch.size, this->seed_width(), &seeds));
    batch.seed_gradients = seeds->flat<double>().data();
    std::unique_ptr<Tensor> owned = context->forward_input(
        4, OpKernelContext::Params::kNoReservation, tf::DataTypeToEnum<T>::value,
        context->input(4).shape(), tf::DEVICE_MEMORY, tf::AllocatorAttributes());
    const Tensor& cached = owned ? *owned : context->input(4);
    OP_REQUIRES(
        context,
        cached.NumElements() == 0 ||
            (batch.size &&
             cached.NumElements() == this->engine_->CachedReals(
                                         this->engine_->TileLayoutFor(batch),
                                         std::min<int64_t>(kMaxCachedBytes, memory_limit_bytes_))),
        tf::errors::InvalidArgument("the kept states are another batch's"));
    this->RunGuarded(context, [&] {
      this->engine_->Gradient(batch, upstream.flat<T>().data(),
                              const_cast<T*>(cached.flat<T>().data()), cached.NumElements(),
                              owned != nullptr, want_per_example_, shared->flat<double>().data(),
                              per_example->flat<double>().data());
    });
  }

 private:
  bool want_per_example_ = true;
  tf::int64 memory_limit_bytes_ = 0;
};

// The first stage, from seeds.
template <class T>
class FirstStageOp : public ShardOp<T> {
 public:
  using ShardOp<T>::ShardOp;

  void Compute(OpKernelContext* context) override {
    Batch batch;
    if (!this->ReadShardInputs(context, 2, &batch)) return;
    const TileLayout layout = this->engine_->TileLayoutFor(batch);
    Tensor* states;
    OP_REQUIRES_OK(context, context->allocate_output(
                                0, TensorShape({layout.tiles * layout.tile_reals}), &states));
    this->RunGuarded(context,
                     [&] { this->engine_->StageForward(batch, states->flat<T>().data()); });
  }
};

// A further stage, in place.
template <class T>
class StageOp : public ShardOp<T> {
 public:
  using ShardOp<T>::ShardOp;

  void Compute(OpKernelContext* context) override {
    Batch batch;
    if (!this->ReadShardInputs(context, -1, &batch)) return;
    if (!this->CheckStates(context, context->input(2), batch)) return;
    T* states = this->ForwardInput(context, 2, 0);
    if (states) this->RunGuarded(context, [&] { this->engine_->StageForward(batch, states); });
  }
};

// What this part of the states adds to the readouts.
template <class T>
class StageExpectationOp : public ShardOp<T> {
 public:
  using ShardOp<T>::ShardOp;

  void Compute(OpKernelContext* context) override {
    Batch batch;
    if (!this->ReadShardInputs(context, -1, &batch)) return;
    if (!this->CheckStates(context, context->input(2), batch)) return;
    Tensor* values;
    OP_REQUIRES_OK(context,
                   this->Allocate(context, 0, batch.size, this->program_->readouts, &values));
    this->RunGuarded(context, [&] {
      this->engine_->StageExpectation(batch, context->input(2).template flat<T>().data(),
                                      values->flat<T>().data());
    });
  }
};

// lambda, from the states and the readouts' upstream.
template <class T>
class StageApplyObservablesOp : public ShardOp<T> {
 public:
  using ShardOp<T>::ShardOp;

  void Compute(OpKernelContext* context) override {
    Batch batch;
    if (!this->ReadShardInputs(context, -1, &batch)) return;
    const Tensor &states = context->input(2), &upstream = context->input(3);
    if (!this->CheckStates(context, states, batch) ||
        !this->CheckShape(context, "the upstream gradient", upstream, batch.size,
                          this->program_->readouts))
      return;
    Tensor* lambdas;
    OP_REQUIRES_OK(context, context->allocate_output(0, states.shape(), &lambdas));
    this->RunGuarded(context, [&] {
      this->engine_->StageApplyObservables(batch, states.flat<T>().data(),
                                           upstream.flat<T>().data(), lambdas->flat<T>().data());
    });
  }
};

// Both states back through a stage, in place.
template <class T>
class StageAdjointOp : public ShardOp<T> {
 public:
  explicit StageAdjointOp(OpKernelConstruction* context) : ShardOp<T>(context) {
    if (context->status().ok())
      OP_REQUIRES_OK(context, context->GetAttr("by_each", &want_per_example_));
    if (context->status().ok())
      OP_REQUIRES_OK(context, context->GetAttr("first", &is_first_stage_));
  }

  void Compute(OpKernelContext* context) override {
    Batch batch;
    if (!this->ReadShardInputs(context, -1, &batch)) return;
    for (int input : {2, 3})
      if (!this->CheckStates(context, context->input(input), batch)) return;
    Tensor *shared, *per_example, *seeds;
    if (!AllocateGradients(this, context, *this->program_, batch.size, want_per_example_, &shared,
                           &per_example))
      return;
    OP_REQUIRES_OK(context, this->Allocate(context, 2, is_first_stage_ ? batch.size : 0,
                                           this->seed_width(), &seeds));
    if (is_first_stage_) {
      batch.seed_bits = &this->bit_positions_;
      batch.seed_gradients = seeds->flat<double>().data();
    }
    T* states = this->ForwardInput(context, 2, 3);
    T* lambdas = states ? this->ForwardInput(context, 3, 4) : nullptr;
    if (lambdas)
      this->RunGuarded(context, [&] {
        this->engine_->StageAdjoint(batch, states, lambdas, want_per_example_,
                                    shared->flat<double>().data(),
                                    per_example->flat<double>().data());
      });
  }

 private:
  bool want_per_example_ = true, is_first_stage_ = false;
};

// Pieces of what each worker gets, out of a part of the states and into it.
template <class T>
class RegionOp : public ShardOp<T> {
 public:
  explicit RegionOp(OpKernelConstruction* context) : ShardOp<T>(context) {}

 protected:
  // The region of groups [first, first + count) for each worker; `batch` is the exponents'.
  bool FindRegion(OpKernelContext* context, const Batch& batch, int64_t workers,
                  QubitRegion* region, int64_t* groups) {
    const TileLayout layout = this->engine_->TileLayoutFor(batch);
    for (int64_t bit : this->bit_positions_)
      if (bit < layout.lane_qubits) {
        context->CtxFailure(tf::errors::InvalidArgument("a qubit across lanes is not swapped"));
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
    int64_t groups;
    if (!this->FindRegion(context, batch, this->workers(), &region, &groups)) return;
    const int64_t first = context->input(3).template flat<tf::int64>()(0) / region.group_reals;
    const int64_t count = context->input(4).template flat<tf::int64>()(0) / region.group_reals;
    OP_REQUIRES(context, first >= 0 && count > 0 && first <= groups - count,
                tf::errors::InvalidArgument("a piece lies within the states"));
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
    int64_t groups;
    if (!this->FindRegion(context, batch, this->workers(), &region, &groups)) return;
    const Tensor& packed = context->input(4);
    OP_REQUIRES(context, packed.dims() == 2 && packed.dim_size(0) == this->workers(),
                tf::errors::InvalidArgument("pieces are [workers, reals]"));
    const int64_t first = context->input(3).template flat<tf::int64>()(0) / region.group_reals;
    const int64_t count = packed.dim_size(1) / region.group_reals;
    OP_REQUIRES(context,
                first >= 0 && count > 0 && first <= groups - count &&
                    count * region.group_reals == packed.dim_size(1),
                tf::errors::InvalidArgument("a piece lies within the states"));
    T* states = this->ForwardInput(context, 2, 0);
    if (states)
      CopyRegion<T>(region, states, const_cast<T*>(packed.flat<T>().data()), first, count, false);
  }
};

// Readouts, and lambda, from own groups and those of another worker.
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
    const int64_t first = context->input(4).template flat<tf::int64>()(0) / reals;
    const int64_t count = peers.NumElements() / reals;
    OP_REQUIRES(context,
                count > 0 && (count & (count - 1)) == 0 && count <= layout.groups &&
                    count * reals == peers.NumElements() && first >= 0 && first % count == 0 &&
                    first < layout.tiles * layout.groups,
                tf::errors::InvalidArgument("a piece lies within the states"));
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

tf::Status StatesShapeFn(InferenceContext* context) {
  context->set_output(0, context->UnknownShapeOfRank(1));
  return tf::OkStatus();
}

tf::Status ShardGradientShapeFn(InferenceContext* context) {
  TF_RETURN_IF_ERROR(GradientShapeFn(context));
  context->set_output(2, context->UnknownShapeOfRank(2));
  for (int output = 3; output < context->num_outputs(); ++output)
    context->set_output(output, context->UnknownShapeOfRank(1));
  return tf::OkStatus();
}

tf::Status PackedShapeFn(InferenceContext* context) {
  context->set_output(0, context->UnknownShapeOfRank(2));
  return tf::OkStatus();
}

}  // namespace

#define QFLEET_SHARD_OP(name) QFLEET_OP(name).Attr("T: {float, double}")

QFLEET_SHARD_OP("QfleetPartExpectation")
    .Input("seeds: double")
    .Output("values: T")
    .Output("kept: T")
    .Attr("places: list(int)")
    .Attr("keep: bool")
    .Attr("room: int")
    .SetShapeFn(RowsShapeFn);
QFLEET_SHARD_OP("QfleetPartGradient")
    .Input("seeds: double")
    .Input("upstream: T")
    .Input("kept: T")
    .Output("by_shared: double")
    .Output("by_each_example: double")
    .Output("by_seeds: double")
    .Attr("places: list(int)")
    .Attr("by_each: bool")
    .Attr("room: int")
    .SetShapeFn(ShardGradientShapeFn);
QFLEET_SHARD_OP("QfleetStageStart")
    .Input("seeds: double")
    .Output("states: T")
    .Attr("places: list(int)")
    .Attr("across: int")
    .SetShapeFn(StatesShapeFn);
QFLEET_SHARD_OP("QfleetStage")
    .Input("states: T")
    .Output("after: T")
    .Attr("across: int")
    .SetShapeFn(StatesShapeFn);
QFLEET_SHARD_OP("QfleetStageRead")
    .Input("states: T")
    .Output("values: T")
    .Attr("across: int")
    .SetShapeFn(RowsShapeFn);
QFLEET_SHARD_OP("QfleetStageWeigh")
    .Input("states: T")
    .Input("upstream: T")
    .Output("lambdas: T")
    .Attr("across: int")
    .SetShapeFn(StatesShapeFn);
QFLEET_SHARD_OP("QfleetStageBack")
    .Input("states: T")
    .Input("lambdas: T")
    .Output("by_shared: double")
    .Output("by_each_example: double")
    .Output("by_seeds: double")
    .Output("states_before: T")
    .Output("lambdas_before: T")
    .Attr("places: list(int)")
    .Attr("across: int")
    .Attr("by_each: bool")
    .Attr("first: bool")
    .SetShapeFn(ShardGradientShapeFn);
QFLEET_SHARD_OP("QfleetTakeOut")
    .Input("states: T")
    .Input("first: int64")
    .Input("count: int64")
    .Output("pieces: T")
    .Attr("places: list(int)")
    .Attr("across: int")
    .SetShapeFn(PackedShapeFn);
QFLEET_SHARD_OP("QfleetPutIn")
    .Input("states: T")
    .Input("first: int64")
    .Input("pieces: T")
    .Output("after: T")
    .Attr("places: list(int)")
    .Attr("across: int")
    .SetShapeFn(StatesShapeFn);
QFLEET_SHARD_OP("QfleetCrossRead")
    .Input("states: T")
    .Input("others: T")
    .Input("first: int64")
    .Output("values: T")
    .Attr("across: int")
    .SetShapeFn(RowsShapeFn);
QFLEET_SHARD_OP("QfleetCrossWeigh")
    .Input("lambdas: T")
    .Input("others: T")
    .Input("first: int64")
    .Input("upstream: T")
    .Output("after: T")
    .Attr("across: int")
    .SetShapeFn(StatesShapeFn);

#define QFLEET_SHARD_KERNEL(name, type)    \
  QFLEET_KERNEL(name, type<float>, float); \
  QFLEET_KERNEL(name, type<double>, double);
QFLEET_SHARD_KERNEL("QfleetPartExpectation", ShardExpectationOp)
QFLEET_SHARD_KERNEL("QfleetPartGradient", ShardGradientOp)
QFLEET_SHARD_KERNEL("QfleetStageStart", FirstStageOp)
QFLEET_SHARD_KERNEL("QfleetStage", StageOp)
QFLEET_SHARD_KERNEL("QfleetStageRead", StageExpectationOp)
QFLEET_SHARD_KERNEL("QfleetStageWeigh", StageApplyObservablesOp)
QFLEET_SHARD_KERNEL("QfleetStageBack", StageAdjointOp)
QFLEET_SHARD_KERNEL("QfleetTakeOut", PackOp)
QFLEET_SHARD_KERNEL("QfleetPutIn", UnpackOp)
QFLEET_SHARD_KERNEL("QfleetCrossRead", CrossShardExpectationOp)
QFLEET_SHARD_KERNEL("QfleetCrossWeigh", CrossShardApplyObservablesOp)

}  // namespace qfleet
