// The base class of the TensorFlow ops that call the engine's C interface with a program.
#ifndef QFLEET_TENSORFLOW_PROGRAM_OP_H_
#define QFLEET_TENSORFLOW_PROGRAM_OP_H_

#include <initializer_list>
#include <memory>
#include <string>
#include <vector>

#include "../qfleet.h"
#include "../qfleet_stages.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/shape_inference.h"

namespace qfleet {

namespace tf = tensorflow;
using tf::OpKernelConstruction;
using tf::OpKernelContext;
using tf::Tensor;
using tf::shape_inference::InferenceContext;

// A tensor as the C interface takes it: reals (two per complex number) or doubles.
struct Buffer {
  void* data = nullptr;
  int64_t count = 0;
  double* doubles() const { return static_cast<double*>(data); }
};

// Converts the status of the last call of the C interface in this thread.
absl::Status ToStatus(qfleet_status status);

// The gradients of the exponents, which several ops return as outputs 0 and 1.
struct ExponentGradients {
  Buffer shared, per_example;
};

// An input that the op may overwrite, because it owns the only reference, or just read.
struct KeptStates {
  KeptStates(OpKernelContext* context, int input)
      : owned(context->forward_input(input, OpKernelContext::Params::kNoReservation,
                                     context->input_dtype(input), context->input(input).shape(),
                                     tf::DEVICE_MEMORY, tf::AllocatorAttributes())),
        tensor(owned ? *owned : context->input(input)) {}
  std::unique_ptr<Tensor> owned;
  const Tensor tensor;
};

// Inputs 0 and 1 are the shared [E] and the per-example [batch, F] exponents. The last one of an op
// with the attribute S is the initial states [batch, amplitudes], for a program that takes them, or
// density matrices by rows, [batch, amplitudes * amplitudes].
class ProgramOp : public tf::OpKernel {
 public:
  explicit ProgramOp(OpKernelConstruction* context);
  ~ProgramOp() override;

  void Compute(OpKernelContext* context) final;

 protected:
  virtual absl::Status ComputeBatch(OpKernelContext* context, const qfleet_batch& batch) = 0;

  // Checks that an input is [rows, columns].
  static absl::Status ReadMatrix(OpKernelContext* context, int input, const char* name,
                                 int64_t rows, int64_t columns, Buffer* buffer);
  static absl::Status ReadScalar(OpKernelContext* context, int input, const char* name,
                                 int64_t* value);
  // Seeds are [rows, 2 * amplitudes], with an amplitude (re, im) per value of bit_positions_.
  absl::Status ReadSeeds(OpKernelContext* context, int input, int64_t rows, Buffer* seeds) const;
  static Buffer Read(OpKernelContext* context, int input);
  // Fails if the number of elements overflows, or if there is not enough memory.
  static absl::Status Allocate(OpKernelContext* context, int output,
                               std::initializer_list<int64_t> shape, Buffer* buffer);
  absl::Status AllocateGradients(OpKernelContext* context, int64_t batch,
                                 ExponentGradients* gradients) const;
  // Returns an input as an output, without a copy if the op owns the only reference.
  static absl::Status Forward(OpKernelContext* context, int input, int output, Buffer* buffer);

  // A shard whose batch is `batch`, with the op's attributes.
  qfleet_shard ShardOf(const qfleet_batch& batch) const;

  // An output for gradients of the initial states' shape, which is empty if they are not wanted.
  // The batch gets its buffer.
  absl::Status AllocateStateGradients(OpKernelContext* context, int output,
                                      qfleet_batch* batch) const;

  int64_t Workers() const { return int64_t{1} << bit_positions_.size(); }
  int64_t SeedWidth() const { return 2 * Workers(); }
  int64_t amplitudes() const { return int64_t{1} << info_.qubits; }
  qfleet_program program() const { return program_; }

  qfleet_program_info info_ = {};
  // Attributes, of which each op has some:
  bool keep_states_ = false;            // for the gradient
  bool per_example_gradients_ = false;  // are wanted
  bool state_gradients_ = false;        // by initial states are wanted
  bool first_stage_ = false;
  std::vector<int64_t> order_;          // bit i of the program's index is bit order[i] of a state's
  std::vector<int64_t> bit_positions_;  // of seeds, or of the bits that are swapped

 private:
  absl::Status ReadInitialStates(OpKernelContext* context, qfleet_batch* batch) const;
  // Numbers of an initial state: amplitudes, or their square for density matrices by rows.
  int64_t InitialColumns(OpKernelContext* context) const;

  qfleet_program program_ = 0;
  bool has_initial_states_ = false;  // as the last input
  bool allow_subspace_ = false;
  int64_t memory_limit_ = 0;
  int64_t lane_qubits_ = QFLEET_ANY_LANE_QUBITS;
  bool fixed_layout_ = false;
};

// Shape functions.
absl::Status RowsShape(InferenceContext* context);      // output 0: a matrix with a row per example
absl::Status VectorShape(InferenceContext* context);    // output 0: a vector
absl::Status MatrixShape(InferenceContext* context);    // output 0: a matrix
absl::Status GradientShape(InferenceContext* context);  // outputs 0 and 1: ExponentGradients

}  // namespace qfleet

// With fixed_layout, the bits of results do not depend on the number of threads, which are those of
// the library's own pool.
#define QFLEET_OP(name)                   \
  REGISTER_OP(name)                       \
      .Attr("program: string")            \
      .Attr("fixed_layout: bool = false") \
      .Input("shared: double")            \
      .Input("per_example: double")

#define QFLEET_KERNEL(name, type) REGISTER_KERNEL_BUILDER(Name(name).Device(tf::DEVICE_CPU), type)

#endif  // QFLEET_TENSORFLOW_PROGRAM_OP_H_
