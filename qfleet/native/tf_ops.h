// Shared by the TensorFlow ops: the program, checks of inputs, and registration.
#ifndef QFLEET_TF_OPS_H_
#define QFLEET_TF_OPS_H_

#include <exception>
#include <memory>
#include <new>
#include <stdexcept>
#include <string>

#include "engine.h"
#include "tensorflow/core/framework/common_shape_fns.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/shape_inference.h"
#include "tensorflow/core/util/work_sharder.h"

namespace qfleet {

namespace tf = tensorflow;
using tf::OpKernelConstruction;
using tf::OpKernelContext;
using tf::Tensor;
using tf::TensorShape;
using tf::shape_inference::InferenceContext;
using tf::shape_inference::ShapeHandle;

constexpr int64_t kMaxCachedBytes = int64_t{4} << 30;  // of states cached for the gradient

template <class T>
struct ComplexOf;
template <>
struct ComplexOf<float> {
  using type = tf::complex64;
};
template <>
struct ComplexOf<double> {
  using type = tf::complex128;
};

// Base class of the ops that evaluate a program.
template <class T>
class ProgramOp : public tf::OpKernel {
 public:
  explicit ProgramOp(OpKernelConstruction* context) : OpKernel(context) {
    std::string program;
    OP_REQUIRES_OK(context, context->GetAttr("program", &program));
    try {
      program_ = std::make_shared<Program>(program);
      engine_ = std::make_unique<StateVectorEngine<T>>(program_, BestKernels<T>());
    } catch (const std::exception& error) {
      context->CtxFailure(tf::errors::InvalidArgument(error.what()));
    }
  }

 protected:
  // Reads the exponents; returns false after an error.
  bool ReadInputs(OpKernelContext* context, Batch* batch) {
    const Tensor& shared = context->input(0);
    const Tensor& per_example = context->input(1);
    if (shared.dims() != 1 || shared.dim_size(0) != program_->shared) {
      context->CtxFailure(tf::errors::InvalidArgument(
          "shared exponents must be [", program_->shared, "], not ", shared.shape().DebugString()));
      return false;
    }
    if (per_example.dims() != 2 || per_example.dim_size(1) != program_->per_example) {
      context->CtxFailure(tf::errors::InvalidArgument("per-example exponents must be [batch, ",
                                                      program_->per_example, "], not ",
                                                      per_example.shape().DebugString()));
      return false;
    }
    const auto* workers = context->device()->tensorflow_cpu_worker_threads();
    batch->shared = shared.flat<double>().data();
    batch->per_example = per_example.flat<double>().data();
    batch->size = per_example.dim_size(0);
    batch->threads = workers->num_threads;
    batch->parallel = [workers](int64_t count, int64_t cost, const Work& work) {
      tf::Shard(workers->num_threads, workers->workers, count, cost,
                [&work](int64_t from, int64_t to) {
                  for (int64_t i = from; i < to; ++i) work(i);
                });
    };
    return true;
  }

  bool CheckShape(OpKernelContext* context, const char* name, const Tensor& tensor, int64_t rows,
                  int64_t columns) {
    if (tensor.dims() == 2 && tensor.dim_size(0) == rows && tensor.dim_size(1) == columns)
      return true;
    context->CtxFailure(tf::errors::InvalidArgument(name, " must be [", rows, ", ", columns,
                                                    "], not ", tensor.shape().DebugString()));
    return false;
  }

  // Allocates [rows, columns]; fails if the number of elements overflows.
  static tf::Status Allocate(OpKernelContext* context, int output, int64_t rows, int64_t columns,
                             Tensor** tensor) {
    TensorShape output_shape;
    TF_RETURN_IF_ERROR(TensorShape::BuildTensorShape({rows, columns}, &output_shape));
    return context->allocate_output(output, output_shape, tensor);
  }

  // Runs `body` and reports exceptions to the context.
  template <class Body>
  void RunGuarded(OpKernelContext* context, const Body& body) {
    try {
      body();
    } catch (const std::bad_alloc&) {
      context->CtxFailure(tf::errors::ResourceExhausted("not enough memory for a state of ",
                                                        program_->qubits, " qubits"));
    } catch (const std::exception& error) {
      context->CtxFailure(tf::errors::Internal(error.what()));
    }
  }

  std::shared_ptr<const Program> program_;
  std::unique_ptr<StateVectorEngine<T>> engine_;
};

// Allocates both outputs of a gradient and sets them to 0.
template <class Kernel>
bool AllocateGradients(Kernel*, OpKernelContext* context, const Program& program, int64_t batch,
                       bool want_per_example, Tensor** shared, Tensor** per_example) {
  const int64_t rows = want_per_example ? batch : 0;
  tf::Status status = context->allocate_output(0, TensorShape({program.shared}), shared);
  if (status.ok())
    status = context->allocate_output(1, TensorShape({rows, program.per_example}), per_example);
  if (!status.ok()) {
    context->CtxFailure(status);
    return false;
  }
  (*shared)->template flat<double>().setZero();
  (*per_example)->template flat<double>().setZero();
  return true;
}

inline tf::Status GradientShapeFn(InferenceContext* context) {
  context->set_output(0, context->input(0));
  bool want_per_example;
  TF_RETURN_IF_ERROR(context->GetAttr("by_each", &want_per_example));
  context->set_output(1, want_per_example ? context->input(1) : context->UnknownShapeOfRank(2));
  return tf::OkStatus();
}

inline tf::Status RowsShapeFn(InferenceContext* context) {
  ShapeHandle per_example;
  TF_RETURN_IF_ERROR(context->WithRank(context->input(1), 2, &per_example));
  context->set_output(0, context->Matrix(context->Dim(per_example, 0), context->UnknownDim()));
  if (context->num_outputs() > 1) context->set_output(1, context->UnknownShapeOfRank(1));
  return tf::OkStatus();
}

}  // namespace qfleet

#define QFLEET_OP(name) \
  REGISTER_OP(name).Attr("program: string").Input("shared: double").Input("each: double")

#define QFLEET_KERNEL(name, type, constraint) \
  REGISTER_KERNEL_BUILDER(Name(name).Device(tf::DEVICE_CPU).TypeConstraint<constraint>("T"), type)

#endif  // QFLEET_TF_OPS_H_
