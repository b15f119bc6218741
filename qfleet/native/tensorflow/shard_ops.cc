// The TensorFlow ops of a distributed state, each on one worker's shard. mesh_ops.cc transfers data
// between workers (qfleet/tensorflow/shard_exchange.py).
#include "program_op.h"

namespace qfleet {
namespace {

class ShardExpectationOp : public ProgramOp {
 public:
  using ProgramOp::ProgramOp;

 protected:
  absl::Status ComputeBatch(OpKernelContext* context, const qfleet_batch& batch) override {
    qfleet_plan plan = {};
    if (keep_states_) TF_RETURN_IF_ERROR(ToStatus(qfleet_plan_batch(program(), &batch, &plan)));
    const qfleet_shard shard = ShardOf(batch);
    Buffer seeds, values, kept;
    TF_RETURN_IF_ERROR(ReadSeeds(context, 2, batch.size, &seeds));
    TF_RETURN_IF_ERROR(Allocate(context, 0, {batch.size, info_.readouts}, &values));
    TF_RETURN_IF_ERROR(Allocate(context, 1, {plan.kept_reals}, &kept));
    return ToStatus(qfleet_shard_expectation(program(), &shard, seeds.doubles(), seeds.count,
                                             values.data, values.count, kept.data, kept.count));
  }
};

class ShardGradientOp : public ProgramOp {
 public:
  using ProgramOp::ProgramOp;

 protected:
  absl::Status ComputeBatch(OpKernelContext* context, const qfleet_batch& batch) override {
    const qfleet_shard shard = ShardOf(batch);
    Buffer seeds, upstream, seed_gradients;
    ExponentGradients gradients;
    TF_RETURN_IF_ERROR(ReadSeeds(context, 2, batch.size, &seeds));
    TF_RETURN_IF_ERROR(ReadMatrix(context, 3, "upstream", batch.size, info_.readouts, &upstream));
    TF_RETURN_IF_ERROR(AllocateGradients(context, batch.size, &gradients));
    TF_RETURN_IF_ERROR(Allocate(context, 2, {batch.size, SeedWidth()}, &seed_gradients));
    const KeptStates kept(context, 4);
    return ToStatus(qfleet_shard_gradient(
        program(), &shard, seeds.doubles(), seeds.count, upstream.data, upstream.count,
        kept.tensor.data(), kept.tensor.NumElements(), kept.owned != nullptr,
        gradients.shared.doubles(), gradients.shared.count, gradients.per_example.doubles(),
        gradients.per_example.count, seed_gradients.doubles(), seed_gradients.count));
  }
};

class FirstStageOp : public ProgramOp {
 public:
  using ProgramOp::ProgramOp;

 protected:
  absl::Status ComputeBatch(OpKernelContext* context, const qfleet_batch& batch) override {
    const qfleet_shard shard = ShardOf(batch);
    Buffer seeds, states;
    qfleet_layout layout;
    TF_RETURN_IF_ERROR(ReadSeeds(context, 2, batch.size, &seeds));
    TF_RETURN_IF_ERROR(ToStatus(qfleet_stage_layout(program(), &shard, &layout)));
    TF_RETURN_IF_ERROR(Allocate(context, 0, {layout.state_reals}, &states));
    return ToStatus(qfleet_first_stage(program(), &shard, seeds.doubles(), seeds.count, states.data,
                                       states.count));
  }
};

class StageOp : public ProgramOp {
 public:
  using ProgramOp::ProgramOp;

 protected:
  absl::Status ComputeBatch(OpKernelContext* context, const qfleet_batch& batch) override {
    const qfleet_shard shard = ShardOf(batch);
    Buffer states;
    TF_RETURN_IF_ERROR(Forward(context, 2, 0, &states));
    return ToStatus(qfleet_stage(program(), &shard, states.data, states.count));
  }
};

class StageExpectationOp : public ProgramOp {
 public:
  using ProgramOp::ProgramOp;

 protected:
  absl::Status ComputeBatch(OpKernelContext* context, const qfleet_batch& batch) override {
    const qfleet_shard shard = ShardOf(batch);
    const Buffer states = Read(context, 2);
    Buffer values;
    TF_RETURN_IF_ERROR(Allocate(context, 0, {batch.size, info_.readouts}, &values));
    return ToStatus(qfleet_stage_expectation(program(), &shard, states.data, states.count,
                                             values.data, values.count));
  }
};

class StageApplyObservablesOp : public ProgramOp {
 public:
  using ProgramOp::ProgramOp;

 protected:
  absl::Status ComputeBatch(OpKernelContext* context, const qfleet_batch& batch) override {
    const qfleet_shard shard = ShardOf(batch);
    const Buffer states = Read(context, 2);
    Buffer upstream, lambdas;
    TF_RETURN_IF_ERROR(ReadMatrix(context, 3, "upstream", batch.size, info_.readouts, &upstream));
    TF_RETURN_IF_ERROR(Allocate(context, 0, {states.count}, &lambdas));
    return ToStatus(qfleet_stage_apply_observables(program(), &shard, states.data, states.count,
                                                   upstream.data, upstream.count, lambdas.data,
                                                   lambdas.count));
  }
};

class StageAdjointOp : public ProgramOp {
 public:
  using ProgramOp::ProgramOp;

 protected:
  absl::Status ComputeBatch(OpKernelContext* context, const qfleet_batch& batch) override {
    const qfleet_shard shard = ShardOf(batch);
    Buffer seed_gradients, states, lambdas;
    ExponentGradients gradients;
    TF_RETURN_IF_ERROR(AllocateGradients(context, batch.size, &gradients));
    TF_RETURN_IF_ERROR(
        Allocate(context, 2, {first_stage_ ? batch.size : 0, SeedWidth()}, &seed_gradients));
    if (!first_stage_) seed_gradients = {};
    TF_RETURN_IF_ERROR(Forward(context, 2, 3, &states));
    TF_RETURN_IF_ERROR(Forward(context, 3, 4, &lambdas));
    return ToStatus(qfleet_stage_adjoint(
        program(), &shard, states.data, states.count, lambdas.data, lambdas.count,
        gradients.shared.doubles(), gradients.shared.count, gradients.per_example.doubles(),
        gradients.per_example.count, seed_gradients.doubles(), seed_gradients.count));
  }
};

class PackRegionOp : public ProgramOp {
 public:
  using ProgramOp::ProgramOp;

 protected:
  absl::Status ComputeBatch(OpKernelContext* context, const qfleet_batch& batch) override {
    const qfleet_shard shard = ShardOf(batch);
    const Buffer states = Read(context, 2);
    int64_t first, count;
    Buffer packed;
    TF_RETURN_IF_ERROR(ReadScalar(context, 3, "first", &first));
    TF_RETURN_IF_ERROR(ReadScalar(context, 4, "count", &count));
    // Other counts are rejected below: do not allocate such an output.
    const int64_t within = count > 0 && count <= states.count / Workers() ? count : 0;
    TF_RETURN_IF_ERROR(Allocate(context, 0, {Workers(), within}, &packed));
    return ToStatus(qfleet_pack_region(program(), &shard, states.data, states.count, first, count,
                                       packed.data, packed.count));
  }
};

class UnpackRegionOp : public ProgramOp {
 public:
  using ProgramOp::ProgramOp;

 protected:
  absl::Status ComputeBatch(OpKernelContext* context, const qfleet_batch& batch) override {
    const qfleet_shard shard = ShardOf(batch);
    int64_t first;
    Buffer pieces, states;
    TF_RETURN_IF_ERROR(ReadScalar(context, 3, "first", &first));
    const int64_t count = context->input(4).dims() == 2 ? context->input(4).dim_size(1) : 0;
    TF_RETURN_IF_ERROR(ReadMatrix(context, 4, "pieces", Workers(), count, &pieces));
    TF_RETURN_IF_ERROR(Forward(context, 2, 0, &states));
    return ToStatus(qfleet_unpack_region(program(), &shard, pieces.data, pieces.count, first, count,
                                         states.data, states.count));
  }
};

class CrossShardExpectationOp : public ProgramOp {
 public:
  using ProgramOp::ProgramOp;

 protected:
  absl::Status ComputeBatch(OpKernelContext* context, const qfleet_batch& batch) override {
    const qfleet_shard shard = ShardOf(batch);
    const Buffer states = Read(context, 2), peer = Read(context, 3);
    int64_t first;
    Buffer values;
    TF_RETURN_IF_ERROR(ReadScalar(context, 4, "first", &first));
    TF_RETURN_IF_ERROR(Allocate(context, 0, {batch.size, info_.readouts}, &values));
    return ToStatus(qfleet_cross_shard_expectation(program(), &shard, states.data, states.count,
                                                   peer.data, peer.count, first, values.data,
                                                   values.count));
  }
};

class CrossShardApplyObservablesOp : public ProgramOp {
 public:
  using ProgramOp::ProgramOp;

 protected:
  absl::Status ComputeBatch(OpKernelContext* context, const qfleet_batch& batch) override {
    const qfleet_shard shard = ShardOf(batch);
    const Buffer peer = Read(context, 3);
    int64_t first;
    Buffer upstream, lambdas;
    TF_RETURN_IF_ERROR(ReadScalar(context, 4, "first", &first));
    TF_RETURN_IF_ERROR(ReadMatrix(context, 5, "upstream", batch.size, info_.readouts, &upstream));
    TF_RETURN_IF_ERROR(Forward(context, 2, 0, &lambdas));
    return ToStatus(qfleet_cross_shard_apply_observables(program(), &shard, peer.data, peer.count,
                                                         first, upstream.data, upstream.count,
                                                         lambdas.data, lambdas.count));
  }
};

}  // namespace

#define QFLEET_SHARD_OP(name) QFLEET_OP(name).Attr("T: {float, double}")

QFLEET_SHARD_OP("QfleetShardExpectation")
    .Input("seeds: double")
    .Output("values: T")
    .Output("kept: T")
    .Attr("bit_positions: list(int)")
    .Attr("keep_states: bool")
    .Attr("memory_limit: int")
    .SetShapeFn(RowsShape);
QFLEET_SHARD_OP("QfleetShardGradient")
    .Input("seeds: double")
    .Input("upstream: T")
    .Input("kept: T")
    .Output("shared_gradients: double")
    .Output("example_gradients: double")
    .Output("seed_gradients: double")
    .Attr("bit_positions: list(int)")
    .Attr("per_example_gradients: bool")
    .Attr("memory_limit: int")
    .SetShapeFn(GradientShape);
QFLEET_SHARD_OP("QfleetFirstStage")
    .Input("seeds: double")
    .Output("states: T")
    .Attr("bit_positions: list(int)")
    .Attr("lane_qubits: int")
    .SetShapeFn(VectorShape);
QFLEET_SHARD_OP("QfleetStage")
    .Input("states: T")
    .Output("after: T")
    .Attr("lane_qubits: int")
    .SetShapeFn(VectorShape);
QFLEET_SHARD_OP("QfleetStageExpectation")
    .Input("states: T")
    .Output("values: T")
    .Attr("lane_qubits: int")
    .SetShapeFn(RowsShape);
QFLEET_SHARD_OP("QfleetStageApplyObservables")
    .Input("states: T")
    .Input("upstream: T")
    .Output("lambdas: T")
    .Attr("lane_qubits: int")
    .SetShapeFn(VectorShape);
QFLEET_SHARD_OP("QfleetStageAdjoint")
    .Input("states: T")
    .Input("lambdas: T")
    .Output("shared_gradients: double")
    .Output("example_gradients: double")
    .Output("seed_gradients: double")
    .Output("states_before: T")
    .Output("lambdas_before: T")
    .Attr("bit_positions: list(int)")
    .Attr("lane_qubits: int")
    .Attr("per_example_gradients: bool")
    .Attr("first_stage: bool")
    .SetShapeFn(GradientShape);
QFLEET_SHARD_OP("QfleetPackRegion")
    .Input("states: T")
    .Input("first: int64")
    .Input("count: int64")
    .Output("pieces: T")
    .Attr("bit_positions: list(int)")
    .Attr("lane_qubits: int")
    .SetShapeFn(MatrixShape);
QFLEET_SHARD_OP("QfleetUnpackRegion")
    .Input("states: T")
    .Input("first: int64")
    .Input("pieces: T")
    .Output("after: T")
    .Attr("bit_positions: list(int)")
    .Attr("lane_qubits: int")
    .SetShapeFn(VectorShape);
QFLEET_SHARD_OP("QfleetCrossShardExpectation")
    .Input("states: T")
    .Input("peer: T")
    .Input("first: int64")
    .Output("values: T")
    .Attr("lane_qubits: int")
    .SetShapeFn(RowsShape);
QFLEET_SHARD_OP("QfleetCrossShardApplyObservables")
    .Input("lambdas: T")
    .Input("peer: T")
    .Input("first: int64")
    .Input("upstream: T")
    .Output("after: T")
    .Attr("lane_qubits: int")
    .SetShapeFn(VectorShape);

QFLEET_KERNEL("QfleetShardExpectation", ShardExpectationOp);
QFLEET_KERNEL("QfleetShardGradient", ShardGradientOp);
QFLEET_KERNEL("QfleetFirstStage", FirstStageOp);
QFLEET_KERNEL("QfleetStage", StageOp);
QFLEET_KERNEL("QfleetStageExpectation", StageExpectationOp);
QFLEET_KERNEL("QfleetStageApplyObservables", StageApplyObservablesOp);
QFLEET_KERNEL("QfleetStageAdjoint", StageAdjointOp);
QFLEET_KERNEL("QfleetPackRegion", PackRegionOp);
QFLEET_KERNEL("QfleetUnpackRegion", UnpackRegionOp);
QFLEET_KERNEL("QfleetCrossShardExpectation", CrossShardExpectationOp);
QFLEET_KERNEL("QfleetCrossShardApplyObservables", CrossShardApplyObservablesOp);

}  // namespace qfleet
