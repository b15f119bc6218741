#include "program_op.h"

#include <cstring>

#include "tensorflow/core/util/work_sharder.h"

namespace qfleet {
namespace {

using tf::DeviceBase;

// The qfleet_executor of TensorFlow's threads.
void RunOnWorkers(void* context, int64_t count, int64_t cost, qfleet_work work, void* argument) {
  const auto& workers = *static_cast<const DeviceBase::CpuWorkerThreads*>(context);
  tf::Shard(workers.num_threads, workers.workers, count, cost, [&](int64_t from, int64_t to) {
    for (int64_t i = from; i < to; ++i) work(argument, i);
  });
}

int32_t RealBytes(tf::DataType type) {
  return type == tf::DT_DOUBLE || type == tf::DT_COMPLEX128 ? 8 : 4;
}

Buffer BufferOf(const Tensor& tensor) {
  const bool is_complex = tensor.dtype() == tf::DT_COMPLEX64 || tensor.dtype() == tf::DT_COMPLEX128;
  return {tensor.data(), (is_complex ? 2 : 1) * tensor.NumElements()};
}

template <class Value>
void ReadAttribute(OpKernelConstruction* context, const char* name, Value* value) {
  if (context->HasAttr(name)) OP_REQUIRES_OK(context, context->GetAttr(name, value));
}

}  // namespace

absl::Status ToStatus(qfleet_status status) {
  switch (status) {
    case QFLEET_OK:
      return absl::OkStatus();
    case QFLEET_INVALID_ARGUMENT:
      return tf::errors::InvalidArgument(qfleet_last_error());
    case QFLEET_OUT_OF_MEMORY:
      return tf::errors::ResourceExhausted(qfleet_last_error());
    case QFLEET_DEVICE_FAILED:
      return tf::errors::FailedPrecondition(qfleet_last_error());
    case QFLEET_DEVICE_LOST:
      return tf::errors::Unavailable(qfleet_last_error());
    default:
      return tf::errors::Internal(qfleet_last_error());
  }
}

ProgramOp::ProgramOp(OpKernelConstruction* context) : OpKernel(context) {
  std::string bytes, library;
  int32_t device = 0;
  tf::DataType type = tf::DT_FLOAT, state_type = tf::DT_COMPLEX64;
  ReadAttribute(context, "program", &bytes);
  ReadAttribute(context, "T", &type);
  ReadAttribute(context, "keep_states", &keep_states_);
  ReadAttribute(context, "per_example_gradients", &per_example_gradients_);
  ReadAttribute(context, "state_gradients", &state_gradients_);
  ReadAttribute(context, "S", &state_type);
  ReadAttribute(context, "first_stage", &first_stage_);
  ReadAttribute(context, "order", &order_);
  ReadAttribute(context, "bit_positions", &bit_positions_);
  ReadAttribute(context, "allow_subspace", &allow_subspace_);
  ReadAttribute(context, "memory_limit", &memory_limit_);
  ReadAttribute(context, "lane_qubits", &lane_qubits_);
  ReadAttribute(context, "fixed_layout", &fixed_layout_);
  ReadAttribute(context, "device_library", &library);
  ReadAttribute(context, "device", &device);
  if (!context->status().ok()) return;
  OP_REQUIRES(context, lane_qubits_ >= 0 && lane_qubits_ <= QFLEET_ANY_LANE_QUBITS,
              tf::errors::InvalidArgument("lane_qubits must be a number of qubits"));
  const int64_t size = bytes.size();
  const int32_t real_bytes = RealBytes(type);
  const qfleet_status created =
      library.empty() ? qfleet_program_create(bytes.data(), size, real_bytes, &program_)
                      : qfleet_program_create_on(bytes.data(), size, real_bytes, library.c_str(),
                                                 device, &program_);
  OP_REQUIRES_OK(context, ToStatus(created));
  OP_REQUIRES_OK(context, ToStatus(qfleet_program_describe(program_, &info_)));
  has_initial_states_ = context->HasAttr("S");
  OP_REQUIRES(context, !info_.takes_states || RealBytes(state_type) == real_bytes,
              tf::errors::InvalidArgument("initial_states must have the precision of T"));
  // The sizes of outputs depend on it; the C interface checks the rest.
  OP_REQUIRES(context, static_cast<int64_t>(bit_positions_.size()) <= info_.qubits,
              tf::errors::InvalidArgument("bit_positions must be distinct bits of the state"));
}

ProgramOp::~ProgramOp() {
  if (program_) qfleet_program_destroy(program_);
}

void ProgramOp::Compute(OpKernelContext* context) {
  const Tensor &shared = context->input(0), &per_example = context->input(1);
  OP_REQUIRES(context, shared.dims() == 1 && shared.dim_size(0) == info_.shared,
              tf::errors::InvalidArgument("shared must be [", info_.shared, "], not ",
                                          shared.shape().DebugString()));
  OP_REQUIRES(context, per_example.dims() == 2 && per_example.dim_size(1) == info_.per_example,
              tf::errors::InvalidArgument("per_example must be [batch, ", info_.per_example,
                                          "], not ", per_example.shape().DebugString()));
  const DeviceBase::CpuWorkerThreads* workers = context->device()->tensorflow_cpu_worker_threads();
  const qfleet_executor executor = {
      RunOnWorkers, const_cast<DeviceBase::CpuWorkerThreads*>(workers), workers->num_threads};
  qfleet_batch batch = {};
  batch.shared = BufferOf(shared).doubles();
  batch.shared_count = shared.NumElements();
  batch.per_example = BufferOf(per_example).doubles();
  batch.per_example_count = per_example.NumElements();
  batch.size = per_example.dim_size(0);
  batch.memory_limit = memory_limit_;
  batch.allow_subspace = allow_subspace_;
  // TensorFlow has one thread then, since the bits of its own operations depend on the number.
  batch.executor = fixed_layout_ ? nullptr : &executor;
  batch.fixed_layout = fixed_layout_;
  if (has_initial_states_) OP_REQUIRES_OK(context, ReadInitialStates(context, &batch));
  OP_REQUIRES_OK(context, ComputeBatch(context, batch));
}

absl::Status ProgramOp::ReadInitialStates(OpKernelContext* context, qfleet_batch* batch) const {
  const int input = context->num_inputs() - 1;
  if (!info_.takes_states) {
    if (context->input(input).NumElements() == 0) return absl::OkStatus();
    return tf::errors::InvalidArgument(
        "initial_states must be empty: the program has an initial state of its own");
  }
  Buffer states;
  const int64_t columns = InitialColumns(context);
  TF_RETURN_IF_ERROR(ReadMatrix(context, input, "initial_states", batch->size, columns, &states));
  batch->initial_states = states.data;
  batch->initial_state_count = states.count;
  batch->initial_order = order_.data();
  batch->initial_order_count = order_.size();
  batch->check_finite = 1;  // norms, too
  return absl::OkStatus();
}

int64_t ProgramOp::InitialColumns(OpKernelContext* context) const {
  const Tensor& states = context->input(context->num_inputs() - 1);
  // The C interface refuses matrices for a program that does not take them.
  const int64_t matrix = amplitudes() * amplitudes();
  return states.dims() == 2 && states.dim_size(1) == matrix ? matrix : amplitudes();
}

Buffer ProgramOp::Read(OpKernelContext* context, int input) {
  return BufferOf(context->input(input));
}

absl::Status ProgramOp::ReadMatrix(OpKernelContext* context, int input, const char* name,
                                   int64_t rows, int64_t columns, Buffer* buffer) {
  const Tensor& tensor = context->input(input);
  if (tensor.dims() != 2 || tensor.dim_size(0) != rows || tensor.dim_size(1) != columns)
    return tf::errors::InvalidArgument(name, " must be [", rows, ", ", columns, "], not ",
                                       tensor.shape().DebugString());
  *buffer = BufferOf(tensor);
  return absl::OkStatus();
}

absl::Status ProgramOp::ReadSeeds(OpKernelContext* context, int input, int64_t rows,
                                  Buffer* seeds) const {
  return ReadMatrix(context, input, "seeds", rows, SeedWidth(), seeds);
}

absl::Status ProgramOp::ReadScalar(OpKernelContext* context, int input, const char* name,
                                   int64_t* value) {
  const Tensor& tensor = context->input(input);
  if (tensor.dims() != 0)
    return tf::errors::InvalidArgument(name, " must be a scalar, not ",
                                       tensor.shape().DebugString());
  *value = tensor.scalar<int64_t>()();
  return absl::OkStatus();
}

absl::Status ProgramOp::Allocate(OpKernelContext* context, int output,
                                 std::initializer_list<int64_t> shape, Buffer* buffer) {
  tf::TensorShape checked;
  Tensor* tensor = nullptr;
  TF_RETURN_IF_ERROR(tf::TensorShape::BuildTensorShape(shape, &checked));
  TF_RETURN_IF_ERROR(context->allocate_output(output, checked, &tensor));
  *buffer = BufferOf(*tensor);
  return absl::OkStatus();
}

absl::Status ProgramOp::AllocateGradients(OpKernelContext* context, int64_t batch,
                                          ExponentGradients* gradients) const {
  TF_RETURN_IF_ERROR(Allocate(context, 0, {info_.shared}, &gradients->shared));
  TF_RETURN_IF_ERROR(Allocate(context, 1, {per_example_gradients_ ? batch : 0, info_.per_example},
                              &gradients->per_example));
  if (!per_example_gradients_) gradients->per_example = {};
  return absl::OkStatus();
}

absl::Status ProgramOp::AllocateStateGradients(OpKernelContext* context, int output,
                                               qfleet_batch* batch) const {
  Buffer gradients;
  if (!info_.takes_states || !state_gradients_)
    return Allocate(context, output, {0, 0}, &gradients);
  TF_RETURN_IF_ERROR(Allocate(context, output, {batch->size, InitialColumns(context)}, &gradients));
  batch->initial_gradients = gradients.data;
  batch->initial_gradient_count = gradients.count;
  return absl::OkStatus();
}

absl::Status ProgramOp::Forward(OpKernelContext* context, int input, int output, Buffer* buffer) {
  const Tensor& from = context->input(input);
  Tensor* to = nullptr;
  TF_RETURN_IF_ERROR(context->forward_input_or_allocate_output({input}, output, from.shape(), &to));
  if (to->data() != from.data()) std::memcpy(to->data(), from.data(), from.TotalBytes());
  *buffer = BufferOf(*to);
  return absl::OkStatus();
}

qfleet_shard ProgramOp::ShardOf(const qfleet_batch& batch) const {
  return {&batch, static_cast<int32_t>(lane_qubits_), bit_positions_.data(),
          static_cast<int64_t>(bit_positions_.size())};
}

absl::Status RowsShape(InferenceContext* context) {
  tf::shape_inference::ShapeHandle per_example;
  TF_RETURN_IF_ERROR(context->WithRank(context->input(1), 2, &per_example));
  context->set_output(0, context->Matrix(context->Dim(per_example, 0), context->UnknownDim()));
  for (int output = 1; output < context->num_outputs(); ++output)
    context->set_output(output, context->UnknownShapeOfRank(1));
  return absl::OkStatus();
}

absl::Status VectorShape(InferenceContext* context) {
  context->set_output(0, context->UnknownShapeOfRank(1));
  return absl::OkStatus();
}

absl::Status MatrixShape(InferenceContext* context) {
  context->set_output(0, context->UnknownShapeOfRank(2));
  return absl::OkStatus();
}

absl::Status GradientShape(InferenceContext* context) {
  context->set_output(0, context->input(0));
  bool per_example_gradients;
  TF_RETURN_IF_ERROR(context->GetAttr("per_example_gradients", &per_example_gradients));
  context->set_output(1,
                      per_example_gradients ? context->input(1) : context->UnknownShapeOfRank(2));
  if (context->num_outputs() > 2) context->set_output(2, context->UnknownShapeOfRank(2));
  for (int output = 3; output < context->num_outputs(); ++output)
    context->set_output(output, context->UnknownShapeOfRank(1));
  return absl::OkStatus();
}

}  // namespace qfleet
