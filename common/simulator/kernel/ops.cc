// The TensorFlow ops around sweep.h: forward and adjoint, of expectation values and of states.
#include <chrono>
#include <cstring>

#include "ops.h"

namespace qfleet {
namespace {

// What Expectation and its gradient share: whether the subspace plan may be taken.
template <class T>
class SpanOp : public ProgramOp<T> {
 public:
  explicit SpanOp(OpKernelConstruction* context) : ProgramOp<T>(context) {
    if (context->status().ok()) OP_REQUIRES_OK(context, context->GetAttr("span", &span_));
    if (context->status().ok()) OP_REQUIRES_OK(context, context->GetAttr("room", &room_));
  }

 protected:
  Span SpanOf(const Batch& batch) const {
    return span_ ? this->sweep_->SpanOf(batch, room_) : Span();
  }
  bool span_ = false;
  tf::int64 room_ = 0;  // bytes that states which wait may take
};

template <class T>
class ExpectationOp : public SpanOp<T> {
 public:
  explicit ExpectationOp(OpKernelConstruction* context) : SpanOp<T>(context) {
    if (context->status().ok()) OP_REQUIRES_OK(context, context->GetAttr("keep", &keep_));
  }

  void Compute(OpKernelContext* context) override {
    Batch batch;
    if (!this->Take(context, &batch)) return;
    Span span;
    this->Guard(context, [&] { span = this->SpanOf(batch); });
    if (!context->status().ok()) return;
    int64_t reals = 0;
    if (keep_ && span.states)
      reals = this->sweep_->SpanReals(span);
    else if (keep_ && batch.size)
      reals = this->sweep_->Kept(this->sweep_->ShapeOf(batch),
                                 std::min<int64_t>(kKeptBytes, this->room_));
    Tensor *values, *kept, states;
    OP_REQUIRES_OK(context,
                   this->Allocate(context, 0, batch.size, this->program_->readouts, &values));
    OP_REQUIRES_OK(context, context->allocate_output(1, TensorShape({reals}), &kept));
    if (span.states && !keep_)
      OP_REQUIRES_OK(context,
                     context->allocate_temp(tf::DataTypeToEnum<T>::value,
                                            TensorShape({this->sweep_->SpanReals(span)}), &states));
    T* found = values->flat<T>().data();
    T* waiting = (span.states && !keep_ ? states : *kept).template flat<T>().data();
    this->Guard(context, [&] {
      if (span.states)
        this->sweep_->SpanExpectation(batch, span, found, waiting);
      else
        this->sweep_->Expectation(batch, found, waiting, reals);
    });
  }

 private:
  bool keep_ = false;
};

template <class T>
class ExpectationGradientOp : public SpanOp<T> {
 public:
  explicit ExpectationGradientOp(OpKernelConstruction* context) : SpanOp<T>(context) {
    if (context->status().ok()) OP_REQUIRES_OK(context, context->GetAttr("by_each", &by_each_));
    OP_REQUIRES(context, !by_each_ || !this->span_,
                tf::errors::InvalidArgument("a span has no gradient by each example's exponents"));
  }

  void Compute(OpKernelContext* context) override {
    Batch batch;
    if (!this->Take(context, &batch)) return;
    const Tensor& upstream = context->input(2);
    if (!this->Check(context, "the upstream gradient", upstream, batch.size,
                     this->program_->readouts))
      return;
    Tensor *shared, *each;
    if (!Slopes(this, context, *this->program_, batch.size, by_each_, &shared, &each)) return;
    double* by_shared = shared->flat<double>().data();
    Span span;
    this->Guard(context, [&] { span = this->SpanOf(batch); });
    if (!context->status().ok()) return;
    if (span.states) {
      BySpan(context, batch, span, upstream, by_shared);
      return;
    }
    // What Expectation left may be worked on in place where nobody else holds it.
    std::unique_ptr<Tensor> ours = context->forward_input(
        3, OpKernelContext::Params::kNoReservation, tf::DataTypeToEnum<T>::value,
        context->input(3).shape(), tf::DEVICE_MEMORY, tf::AllocatorAttributes());
    const Tensor& kept = ours ? *ours : context->input(3);
    const Shape shape = this->sweep_->ShapeOf(batch);
    OP_REQUIRES(context,
                kept.NumElements() == 0 ||
                    kept.NumElements() ==
                        this->sweep_->Kept(shape, std::min<int64_t>(kKeptBytes, this->room_)),
                tf::errors::InvalidArgument("the kept states are another batch's"));
    this->Guard(context, [&] {
      this->sweep_->Gradient(batch, upstream.flat<T>().data(),
                             const_cast<T*>(kept.flat<T>().data()), kept.NumElements(),
                             ours != nullptr, by_each_, by_shared, each->flat<double>().data());
    });
  }

 private:
  void BySpan(OpKernelContext* context, const Batch& batch, const Span& span,
              const Tensor& upstream, double* by_shared) {
    Tensor states = context->input(3);
    const bool again = states.NumElements() != this->sweep_->SpanReals(span);
    OP_REQUIRES(context, !again || states.NumElements() == 0,
                tf::errors::InvalidArgument("the kept states are another batch's"));
    Tensor values;
    if (again) {
      const auto type = tf::DataTypeToEnum<T>::value;
      OP_REQUIRES_OK(context, context->allocate_temp(
                                  type, TensorShape({this->sweep_->SpanReals(span)}), &states));
      OP_REQUIRES_OK(context, context->allocate_temp(type, upstream.shape(), &values));
    }
    this->Guard(context, [&] {
      if (again)
        this->sweep_->SpanExpectation(batch, span, values.flat<T>().data(),
                                      states.flat<T>().data());
      this->sweep_->SpanGradient(batch, span, upstream.flat<T>().data(), states.flat<T>().data(),
                                 by_shared);
    });
  }
  bool by_each_ = true;
};

// How many states span a batch, 0 where the direct plan is taken.
class SpanSizeOp : public SpanOp<float> {
 public:
  using SpanOp<float>::SpanOp;

  void Compute(OpKernelContext* context) override {
    Batch batch;
    if (!Take(context, &batch)) return;
    Tensor* states;
    OP_REQUIRES_OK(context, context->allocate_output(0, TensorShape({}), &states));
    Guard(context, [&] { states->scalar<tf::int64>()() = SpanOf(batch).states; });
  }
};

// Seconds of a steady clock, for who times the parts of a graph: TensorFlow's own Timestamp is
// refused where operations must be deterministic, and a call into Python costs 50 us.
class ClockOp : public tf::OpKernel {
 public:
  using OpKernel::OpKernel;

  void Compute(OpKernelContext* context) override {
    Tensor* seconds;
    OP_REQUIRES_OK(context, context->allocate_output(0, TensorShape({}), &seconds));
    const auto now = std::chrono::steady_clock::now().time_since_epoch();
    seconds->scalar<double>()() = std::chrono::duration<double>(now).count();
  }

  bool IsExpensive() override { return false; }  // it runs where it is found, not in a queue
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
    OP_REQUIRES_OK(context, this->Allocate(context, 0, batch.size, this->size(), &states));
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

}  // namespace

QFLEET_OP("QfleetExpectation")
    .Output("values: T")
    .Output("kept: T")
    .Attr("T: {float, double}")
    .Attr("keep: bool")
    .Attr("span: bool")
    .Attr("room: int")
    .SetShapeFn(RowsShape);
QFLEET_OP("QfleetExpectationGradient")
    .Input("upstream: T")
    .Input("kept: T")
    .Output("by_shared: double")
    .Output("by_each_example: double")
    .Attr("T: {float, double}")
    .Attr("by_each: bool")
    .Attr("span: bool")
    .Attr("room: int")
    .SetShapeFn(GradientShape);
QFLEET_OP("QfleetSpan")
    .Output("states: int64")
    .Attr("span: bool")
    .Attr("room: int")
    .SetShapeFn(tf::shape_inference::ScalarShape);
REGISTER_OP("QfleetClock")
    .Output("seconds: double")
    .SetIsStateful()
    .SetShapeFn(tf::shape_inference::ScalarShape);
QFLEET_OP("QfleetState")
    .Output("states: T")
    .Attr("T: {complex64, complex128}")
    .Attr("order: list(int)")
    .SetShapeFn(RowsShape);
QFLEET_OP("QfleetStateGradient")
    .Input("states: T")
    .Input("upstream: T")
    .Output("by_shared: double")
    .Output("by_each_example: double")
    .Attr("T: {complex64, complex128}")
    .Attr("order: list(int)")
    .Attr("by_each: bool")
    .SetShapeFn(GradientShape);

REGISTER_KERNEL_BUILDER(Name("QfleetSpan").Device(tf::DEVICE_CPU), SpanSizeOp);
REGISTER_KERNEL_BUILDER(Name("QfleetClock").Device(tf::DEVICE_CPU), ClockOp);

QFLEET_KERNEL("QfleetExpectation", ExpectationOp<float>, float);
QFLEET_KERNEL("QfleetExpectation", ExpectationOp<double>, double);
QFLEET_KERNEL("QfleetExpectationGradient", ExpectationGradientOp<float>, float);
QFLEET_KERNEL("QfleetExpectationGradient", ExpectationGradientOp<double>, double);
QFLEET_KERNEL("QfleetState", StateOp<float>, tf::complex64);
QFLEET_KERNEL("QfleetState", StateOp<double>, tf::complex128);
QFLEET_KERNEL("QfleetStateGradient", StateGradientOp<float>, tf::complex64);
QFLEET_KERNEL("QfleetStateGradient", StateGradientOp<double>, tf::complex128);

}  // namespace qfleet

#define QFLEET_EXPORT extern "C" __attribute__((visibility("default")))

// What Python asks without an op: the instruction set's name, how many reals a vector holds, and
// how a batch is laid out (as the fields of Shape, in order).
QFLEET_EXPORT const char* qfleet_instruction_set() { return qfleet::BestName(); }

QFLEET_EXPORT int32_t qfleet_lanes(int32_t real_bytes) {
  return real_bytes == 8 ? qfleet::BestKernels<double>().lanes : qfleet::BestKernels<float>().lanes;
}

QFLEET_EXPORT void qfleet_shape(int32_t qubits, int32_t real_bytes, int64_t batch, int64_t threads,
                                int64_t* fields) {
  const qfleet::Shape shape =
      qfleet::ShapeFor(qubits, qfleet_lanes(real_bytes), real_bytes, batch, threads);
  fields[0] = shape.lane_qubits;
  fields[1] = shape.samples;
  fields[2] = shape.tiles;
  fields[3] = shape.groups;
  fields[4] = shape.tile_reals;
  fields[5] = shape.shared_tile;
}
