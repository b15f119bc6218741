// The TensorFlow ops of a distributed state, each on one worker's shard. TensorFlow's collectives
// transfer data between workers (qfleet/tensorflow/shard_exchange.py).
#include <algorithm>
#include <memory>

#include "tf_shard_op.h"
#include "tf_swap_ops.h"

namespace qfleet {
namespace {

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
        tf::errors::InvalidArgument("the cached states do not belong to this batch"));
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

// The first stage, which starts from seeds.
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

// Any later stage, in place.
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

// The shard's contribution to the expectation values.
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

// lambda = sum_k upstream_k O_k psi.
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

// The adjoint method on one stage, in place.
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

QFLEET_SHARD_OP("QfleetShardExpectation")
    .Input("seeds: double")
    .Output("values: T")
    .Output("kept: T")
    .Attr("places: list(int)")
    .Attr("keep: bool")
    .Attr("room: int")
    .SetShapeFn(RowsShapeFn);
QFLEET_SHARD_OP("QfleetShardGradient")
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
QFLEET_SHARD_OP("QfleetFirstStage")
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
QFLEET_SHARD_OP("QfleetStageExpectation")
    .Input("states: T")
    .Output("values: T")
    .Attr("across: int")
    .SetShapeFn(RowsShapeFn);
QFLEET_SHARD_OP("QfleetStageApplyObservables")
    .Input("states: T")
    .Input("upstream: T")
    .Output("lambdas: T")
    .Attr("across: int")
    .SetShapeFn(StatesShapeFn);
QFLEET_SHARD_OP("QfleetStageAdjoint")
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
QFLEET_SHARD_OP("QfleetPackRegion")
    .Input("states: T")
    .Input("first: int64")
    .Input("count: int64")
    .Output("pieces: T")
    .Attr("places: list(int)")
    .Attr("across: int")
    .SetShapeFn(PackedShapeFn);
QFLEET_SHARD_OP("QfleetUnpackRegion")
    .Input("states: T")
    .Input("first: int64")
    .Input("pieces: T")
    .Output("after: T")
    .Attr("places: list(int)")
    .Attr("across: int")
    .SetShapeFn(StatesShapeFn);
QFLEET_SHARD_OP("QfleetCrossShardExpectation")
    .Input("states: T")
    .Input("others: T")
    .Input("first: int64")
    .Output("values: T")
    .Attr("across: int")
    .SetShapeFn(RowsShapeFn);
QFLEET_SHARD_OP("QfleetCrossShardApplyObservables")
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
QFLEET_SHARD_KERNEL("QfleetShardExpectation", ShardExpectationOp)
QFLEET_SHARD_KERNEL("QfleetShardGradient", ShardGradientOp)
QFLEET_SHARD_KERNEL("QfleetFirstStage", FirstStageOp)
QFLEET_SHARD_KERNEL("QfleetStage", StageOp)
QFLEET_SHARD_KERNEL("QfleetStageExpectation", StageExpectationOp)
QFLEET_SHARD_KERNEL("QfleetStageApplyObservables", StageApplyObservablesOp)
QFLEET_SHARD_KERNEL("QfleetStageAdjoint", StageAdjointOp)
QFLEET_SHARD_KERNEL("QfleetPackRegion", PackOp)
QFLEET_SHARD_KERNEL("QfleetUnpackRegion", UnpackOp)
QFLEET_SHARD_KERNEL("QfleetCrossShardExpectation", CrossShardExpectationOp)
QFLEET_SHARD_KERNEL("QfleetCrossShardApplyObservables", CrossShardApplyObservablesOp)

}  // namespace qfleet
