// The TensorFlow ops around sweep.h: forward and adjoint, of expectation values and of states.
#include <cstring>
#include <exception>
#include <new>
#include <stdexcept>

#include "sweep.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/shape_inference.h"
#include "tensorflow/core/util/work_sharder.h"

namespace qfleet {
namespace {

namespace tf = tensorflow;
using tf::OpKernelConstruction;
using tf::OpKernelContext;
using tf::Tensor;
using tf::TensorShape;
using tf::shape_inference::InferenceContext;
using tf::shape_inference::ShapeHandle;

constexpr int64_t kKeptBytes = int64_t{1} << 30;  // of states that wait for the gradient

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

// What all four ops share: the program, and the exponents' checks.
template <class T>
class ProgramOp : public tf::OpKernel {
 public:
  explicit ProgramOp(OpKernelConstruction* context) : OpKernel(context) {
    std::string program;
    OP_REQUIRES_OK(context, context->GetAttr("program", &program));
    try {
      program_ = std::make_shared<Program>(program);
    } catch (const std::exception& error) {
      context->CtxFailure(tf::errors::InvalidArgument(error.what()));
      return;
    }
    sweep_ = std::make_unique<Sweep<T>>(program_, BestKernels<T>());
  }

 protected:
  // Checks the first two inputs; `batch` is only valid if the context is.
  bool Take(OpKernelContext* context, Batch* batch) {
    const Tensor& shared = context->input(0);
    const Tensor& each = context->input(1);
    if (shared.dims() != 1 || shared.dim_size(0) != program_->shared) {
      context->CtxFailure(tf::errors::InvalidArgument("shared exponents must be [",
          program_->shared, "], not ", shared.shape().DebugString()));
      return false;
    }
    if (each.dims() != 2 || each.dim_size(1) != program_->each) {
      context->CtxFailure(tf::errors::InvalidArgument("exponents of each example must be [batch, ",
          program_->each, "], not ", each.shape().DebugString()));
      return false;
    }
    const auto* workers = context->device()->tensorflow_cpu_worker_threads();
    batch->shared = shared.flat<double>().data();
    batch->each = each.flat<double>().data();
    batch->size = each.dim_size(0);
    batch->threads = workers->num_threads;
    batch->parallel = [workers](int64_t count, int64_t cost, const Work& work) {
      tf::Shard(workers->num_threads, workers->workers, count, cost,
                [&work](int64_t from, int64_t to) {
                  for (int64_t i = from; i < to; ++i) work(i);
                });
    };
    return true;
  }

  bool Check(OpKernelContext* context, const char* name, const Tensor& tensor, int64_t rows,
             int64_t columns) {
    if (tensor.dims() == 2 && tensor.dim_size(0) == rows && tensor.dim_size(1) == columns)
      return true;
    context->CtxFailure(tf::errors::InvalidArgument(name, " must be [", rows, ", ", columns,
                                                    "], not ", tensor.shape().DebugString()));
    return false;
  }

  // Runs what may throw, and tells the context what was thrown.
  template <class Body>
  void Guard(OpKernelContext* context, const Body& body) {
    try {
      body();
    } catch (const std::bad_alloc&) {
      context->CtxFailure(tf::errors::ResourceExhausted(
          "there is not enough memory for a state of ", program_->qubits, " qubits"));
    } catch (const std::exception& error) {
      context->CtxFailure(tf::errors::Internal(error.what()));
    }
  }

  std::shared_ptr<const Program> program_;
  std::unique_ptr<Sweep<T>> sweep_;
};

template <class T>
class ExpectationOp : public ProgramOp<T> {
 public:
  explicit ExpectationOp(OpKernelConstruction* context) : ProgramOp<T>(context) {
    if (context->status().ok()) OP_REQUIRES_OK(context, context->GetAttr("keep", &keep_));
  }

  void Compute(OpKernelContext* context) override {
    Batch batch;
    if (!this->Take(context, &batch)) return;
    Tensor *values, *kept;
    OP_REQUIRES_OK(context, context->allocate_output(
                                0, TensorShape({batch.size, this->program_->readouts}), &values));
    const Shape shape = this->sweep_->ShapeFor(batch.size, batch.threads);
    const int64_t reals = keep_ && batch.size ? this->sweep_->Kept(shape, kKeptBytes) : 0;
    OP_REQUIRES_OK(context, context->allocate_output(1, TensorShape({reals}), &kept));
    this->Guard(context, [&] {
      this->sweep_->Expectation(batch, values->flat<T>().data(), kept->flat<T>().data(), reals);
    });
  }

 private:
  bool keep_ = false;
};

// The two outputs of a gradient, cleared.
template <class Kernel>
bool Slopes(Kernel*, OpKernelContext* context, const Program& program, int64_t batch, bool by_each,
            Tensor** shared, Tensor** each) {
  const int64_t rows = by_each ? batch : 0;
  tf::Status status = context->allocate_output(0, TensorShape({program.shared}), shared);
  if (status.ok()) status = context->allocate_output(1, TensorShape({rows, program.each}), each);
  if (!status.ok()) {
    context->CtxFailure(status);
    return false;
  }
  (*shared)->template flat<double>().setZero();
  (*each)->template flat<double>().setZero();
  return true;
}

template <class T>
class ExpectationGradientOp : public ProgramOp<T> {
 public:
  explicit ExpectationGradientOp(OpKernelConstruction* context) : ProgramOp<T>(context) {
    if (context->status().ok()) OP_REQUIRES_OK(context, context->GetAttr("by_each", &by_each_));
  }

  void Compute(OpKernelContext* context) override {
    Batch batch;
    if (!this->Take(context, &batch)) return;
    const Tensor& upstream = context->input(2);
    if (!this->Check(context, "the upstream gradient", upstream, batch.size,
                     this->program_->readouts))
      return;
    // What Expectation left may be worked on in place where nobody else holds it.
    std::unique_ptr<Tensor> ours = context->forward_input(
        3, OpKernelContext::Params::kNoReservation, tf::DataTypeToEnum<T>::value,
        context->input(3).shape(), tf::DEVICE_MEMORY, tf::AllocatorAttributes());
    const Tensor& kept = ours ? *ours : context->input(3);
    const Shape shape = this->sweep_->ShapeFor(batch.size, batch.threads);
    OP_REQUIRES(context,
                kept.NumElements() % shape.tile_reals == 0 &&
                    kept.NumElements() / shape.tile_reals <= shape.tiles,
                tf::errors::InvalidArgument("the kept states are another batch's"));
    Tensor *shared, *each;
    if (!Slopes(this, context, *this->program_, batch.size, by_each_, &shared, &each)) return;
    this->Guard(context, [&] {
      this->sweep_->Gradient(batch, upstream.flat<T>().data(),
                             const_cast<T*>(kept.flat<T>().data()), kept.NumElements(),
                             ours != nullptr, by_each_, shared->flat<double>().data(),
                             each->flat<double>().data());
    });
  }

 private:
  bool by_each_ = true;
};

// What State and its gradient share: which bit of the state's index each bit of ours is.
template <class T>
class StateOpBase : public ProgramOp<T> {
 public:
  explicit StateOpBase(OpKernelConstruction* context) : ProgramOp<T>(context) {
    if (!context->status().ok()) return;
    OP_REQUIRES_OK(context, context->GetAttr("order", &order_));
    std::vector<bool> seen(this->program_->qubits);
    bool good = static_cast<int64_t>(order_.size()) == this->program_->qubits;
    for (size_t i = 0; good && i < order_.size(); ++i) {
      good = order_[i] >= 0 && order_[i] < this->program_->qubits && !seen[order_[i]];
      if (good) seen[order_[i]] = true;
    }
    OP_REQUIRES(context, good, tf::errors::InvalidArgument("order names each bit once"));
  }

 protected:
  int64_t size() const { return int64_t{1} << this->program_->qubits; }
  std::vector<int64_t> order_;
};

template <class T>
class StateOp : public StateOpBase<T> {
 public:
  using StateOpBase<T>::StateOpBase;

  void Compute(OpKernelContext* context) override {
    Batch batch;
    if (!this->Take(context, &batch)) return;
    Tensor* states;
    OP_REQUIRES_OK(context,
                   context->allocate_output(0, TensorShape({batch.size, this->size()}), &states));
    using C = typename ComplexOf<T>::type;
    this->Guard(context, [&] {
      this->sweep_->State(batch, this->order_.data(),
                          reinterpret_cast<T*>(states->flat<C>().data()));
    });
  }
};

template <class T>
class StateGradientOp : public StateOpBase<T> {
 public:
  explicit StateGradientOp(OpKernelConstruction* context) : StateOpBase<T>(context) {
    if (context->status().ok()) OP_REQUIRES_OK(context, context->GetAttr("by_each", &by_each_));
  }

  void Compute(OpKernelContext* context) override {
    Batch batch;
    if (!this->Take(context, &batch)) return;
    if (!this->Check(context, "the states", context->input(2), batch.size, this->size()) ||
        !this->Check(context, "the upstream gradient", context->input(3), batch.size, this->size()))
      return;
    Tensor *shared, *each;
    if (!Slopes(this, context, *this->program_, batch.size, by_each_, &shared, &each)) return;
    using C = typename ComplexOf<T>::type;
    this->Guard(context, [&] {
      this->sweep_->StateGradient(
          batch, this->order_.data(),
          reinterpret_cast<const T*>(context->input(2).template flat<C>().data()),
          reinterpret_cast<const T*>(context->input(3).template flat<C>().data()), by_each_,
          shared->flat<double>().data(), each->flat<double>().data());
    });
  }

 private:
  bool by_each_ = true;
};

tf::Status GradientShape(InferenceContext* context) {
  context->set_output(0, context->input(0));
  bool by_each;
  TF_RETURN_IF_ERROR(context->GetAttr("by_each", &by_each));
  context->set_output(1, by_each ? context->input(1) : context->UnknownShapeOfRank(2));
  return tf::OkStatus();
}

tf::Status RowsShape(InferenceContext* context) {
  ShapeHandle each;
  TF_RETURN_IF_ERROR(context->WithRank(context->input(1), 2, &each));
  context->set_output(0, context->Matrix(context->Dim(each, 0), context->UnknownDim()));
  if (context->num_outputs() > 1) context->set_output(1, context->UnknownShapeOfRank(1));
  return tf::OkStatus();
}

}  // namespace

#define QFLEET_OP(name) REGISTER_OP(name).Attr("program: string") \
    .Input("shared: double").Input("each: double")

QFLEET_OP("QfleetExpectation")
    .Output("values: T").Output("kept: T")
    .Attr("T: {float, double}").Attr("keep: bool").SetShapeFn(RowsShape);
QFLEET_OP("QfleetExpectationGradient")
    .Input("upstream: T").Input("kept: T")
    .Output("by_shared: double").Output("by_each_example: double")
    .Attr("T: {float, double}").Attr("by_each: bool").SetShapeFn(GradientShape);
QFLEET_OP("QfleetState")
    .Output("states: T")
    .Attr("T: {complex64, complex128}").Attr("order: list(int)").SetShapeFn(RowsShape);
QFLEET_OP("QfleetStateGradient")
    .Input("states: T").Input("upstream: T")
    .Output("by_shared: double").Output("by_each_example: double")
    .Attr("T: {complex64, complex128}").Attr("order: list(int)").Attr("by_each: bool")
    .SetShapeFn(GradientShape);

#define QFLEET_KERNEL(name, type, constraint) \
  REGISTER_KERNEL_BUILDER(Name(name).Device(tf::DEVICE_CPU).TypeConstraint<constraint>("T"), type)

QFLEET_KERNEL("QfleetExpectation", ExpectationOp<float>, float);
QFLEET_KERNEL("QfleetExpectation", ExpectationOp<double>, double);
QFLEET_KERNEL("QfleetExpectationGradient", ExpectationGradientOp<float>, float);
QFLEET_KERNEL("QfleetExpectationGradient", ExpectationGradientOp<double>, double);
QFLEET_KERNEL("QfleetState", StateOp<float>, tf::complex64);
QFLEET_KERNEL("QfleetState", StateOp<double>, tf::complex128);
QFLEET_KERNEL("QfleetStateGradient", StateGradientOp<float>, tf::complex64);
QFLEET_KERNEL("QfleetStateGradient", StateGradientOp<double>, tf::complex128);

}  // namespace qfleet

extern "C" {

// What Python asks without TensorFlow: the instruction set's name, its lanes, a batch's layout.
const char* qfleet_instruction_set() { return qfleet::BestName(); }
int32_t qfleet_lanes(int32_t is_double) {
  return is_double ? qfleet::BestKernels<double>().lanes : qfleet::BestKernels<float>().lanes;
}
}
