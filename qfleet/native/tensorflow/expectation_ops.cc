// The TensorFlow ops for expectation values, states and their gradients; and a clock.
#include <chrono>

#include "program_op.h"
#include "tensorflow/core/framework/common_shape_fns.h"

namespace qfleet {
namespace {

class ExpectationOp : public ProgramOp {
 public:
  using ProgramOp::ProgramOp;

 protected:
  absl::Status ComputeBatch(OpKernelContext* context, const qfleet_batch& batch) override {
    qfleet_plan plan = {};
    if (keep_states_) TF_RETURN_IF_ERROR(ToStatus(qfleet_plan_batch(program(), &batch, &plan)));
    Buffer values, kept;
    TF_RETURN_IF_ERROR(Allocate(context, 0, {batch.size, info_.readouts}, &values));
    TF_RETURN_IF_ERROR(Allocate(context, 1, {plan.kept_reals}, &kept));
    return ToStatus(
        qfleet_expectation(program(), &batch, values.data, values.count, kept.data, kept.count));
  }
};

class ExpectationGradientOp : public ProgramOp {
 public:
  using ProgramOp::ProgramOp;

 protected:
  absl::Status ComputeBatch(OpKernelContext* context, const qfleet_batch& batch) override {
    Buffer upstream;
    ExponentGradients gradients;
    qfleet_batch differentiated = batch;
    TF_RETURN_IF_ERROR(ReadMatrix(context, 2, "upstream", batch.size, info_.readouts, &upstream));
    TF_RETURN_IF_ERROR(AllocateGradients(context, batch.size, &gradients));
    TF_RETURN_IF_ERROR(AllocateStateGradients(context, 2, &differentiated));
    const KeptStates kept(context, 3);
    return ToStatus(qfleet_expectation_gradient(
        program(), &differentiated, upstream.data, upstream.count, kept.tensor.data(),
        kept.tensor.NumElements(), kept.owned != nullptr, gradients.shared.doubles(),
        gradients.shared.count, gradients.per_example.doubles(), gradients.per_example.count));
  }
};

// The dimension of a batch's subspace; 0 if the direct method is used.
class SubspaceSizeOp : public ProgramOp {
 public:
  using ProgramOp::ProgramOp;

 protected:
  absl::Status ComputeBatch(OpKernelContext* context, const qfleet_batch& batch) override {
    qfleet_plan plan;
    TF_RETURN_IF_ERROR(ToStatus(qfleet_plan_batch(program(), &batch, &plan)));
    Buffer states;
    TF_RETURN_IF_ERROR(Allocate(context, 0, {}, &states));
    *static_cast<int64_t*>(states.data) = plan.subspace_states;
    return absl::OkStatus();
  }
};

class StateOp : public ProgramOp {
 public:
  using ProgramOp::ProgramOp;

 protected:
  absl::Status ComputeBatch(OpKernelContext* context, const qfleet_batch& batch) override {
    Buffer states;
    TF_RETURN_IF_ERROR(Allocate(context, 0, {batch.size, amplitudes()}, &states));
    return ToStatus(
        qfleet_state(program(), &batch, order_.data(), order_.size(), states.data, states.count));
  }
};

class StateGradientOp : public ProgramOp {
 public:
  using ProgramOp::ProgramOp;

 protected:
  absl::Status ComputeBatch(OpKernelContext* context, const qfleet_batch& batch) override {
    Buffer states, upstream;
    ExponentGradients gradients;
    qfleet_batch differentiated = batch;
    TF_RETURN_IF_ERROR(ReadMatrix(context, 2, "states", batch.size, amplitudes(), &states));
    TF_RETURN_IF_ERROR(ReadMatrix(context, 3, "upstream", batch.size, amplitudes(), &upstream));
    TF_RETURN_IF_ERROR(AllocateGradients(context, batch.size, &gradients));
    TF_RETURN_IF_ERROR(AllocateStateGradients(context, 2, &differentiated));
    return ToStatus(qfleet_state_gradient(
        program(), &differentiated, order_.data(), order_.size(), states.data, states.count,
        upstream.data, upstream.count, gradients.shared.doubles(), gradients.shared.count,
        gradients.per_example.doubles(), gradients.per_example.count));
  }
};

// Reads a steady clock, to time parts of a graph. TensorFlow's Timestamp is rejected if operations
// must be deterministic, and a call into Python takes 50 us.
class ClockOp : public tf::OpKernel {
 public:
  using OpKernel::OpKernel;

  void Compute(OpKernelContext* context) override {
    Tensor* seconds;
    OP_REQUIRES_OK(context, context->allocate_output(0, tf::TensorShape({}), &seconds));
    const auto now = std::chrono::steady_clock::now().time_since_epoch();
    seconds->scalar<double>()() = std::chrono::duration<double>(now).count();
  }

  bool IsExpensive() override { return false; }  // run inline, not in a queue
};

}  // namespace

// The last input: empty, unless the program takes states.
#define QFLEET_INITIAL_STATES Input("initial_states: S").Attr("S: {complex64, complex128}")

// An op of a whole program, on the CPU unless device_library is the path of a device library.
#define QFLEET_WHOLE_OP(name) \
  QFLEET_OP(name).Attr("device_library: string = ''").Attr("device: int = 0")

QFLEET_WHOLE_OP("QfleetExpectation")
    .Output("values: T")
    .Output("kept: T")
    .Attr("T: {float, double}")
    .Attr("keep_states: bool")
    .Attr("allow_subspace: bool")
    .Attr("memory_limit: int")
    .Attr("order: list(int) = []")
    .QFLEET_INITIAL_STATES.SetShapeFn(RowsShape);
QFLEET_WHOLE_OP("QfleetExpectationGradient")
    .Input("upstream: T")
    .Input("kept: T")
    .Output("shared_gradients: double")
    .Output("example_gradients: double")
    .Attr("T: {float, double}")
    .Attr("per_example_gradients: bool")
    .Attr("allow_subspace: bool")
    .Attr("memory_limit: int")
    .Attr("order: list(int) = []")
    .Attr("state_gradients: bool = false")
    .QFLEET_INITIAL_STATES.Output("initial_gradients: S")
    .SetShapeFn(GradientShape);
QFLEET_WHOLE_OP("QfleetSubspaceSize")
    .Output("states: int64")
    .Attr("allow_subspace: bool")
    .Attr("memory_limit: int")
    .SetShapeFn(tf::shape_inference::ScalarShape);
QFLEET_WHOLE_OP("QfleetState")
    .Output("states: T")
    .Attr("T: {complex64, complex128}")
    .Attr("order: list(int)")
    .QFLEET_INITIAL_STATES.SetShapeFn(RowsShape);
QFLEET_WHOLE_OP("QfleetStateGradient")
    .Input("states: T")
    .Input("upstream: T")
    .Output("shared_gradients: double")
    .Output("example_gradients: double")
    .Attr("T: {complex64, complex128}")
    .Attr("order: list(int)")
    .Attr("per_example_gradients: bool")
    .Attr("state_gradients: bool = false")
    .QFLEET_INITIAL_STATES.Output("initial_gradients: S")
    .SetShapeFn(GradientShape);
REGISTER_OP("QfleetClock")
    .Output("seconds: double")
    .SetIsStateful()
    .SetShapeFn(tf::shape_inference::ScalarShape);

QFLEET_KERNEL("QfleetExpectation", ExpectationOp);
QFLEET_KERNEL("QfleetExpectationGradient", ExpectationGradientOp);
QFLEET_KERNEL("QfleetSubspaceSize", SubspaceSizeOp);
QFLEET_KERNEL("QfleetState", StateOp);
QFLEET_KERNEL("QfleetStateGradient", StateGradientOp);
QFLEET_KERNEL("QfleetClock", ClockOp);

}  // namespace qfleet
