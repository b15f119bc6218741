// The TensorFlow ops of engine.h: expectation values, states and their gradients; and a clock.
#include <chrono>
#include <cstring>

#include "tf_ops.h"

namespace qfleet {
namespace {

// Base class of the ops that may use the subspace method.
template <class T>
class SubspaceOp : public ProgramOp<T> {
 public:
  explicit SubspaceOp(OpKernelConstruction* context) : ProgramOp<T>(context) {
    if (context->status().ok()) OP_REQUIRES_OK(context, context->GetAttr("span", &use_subspace_));
    if (context->status().ok())
      OP_REQUIRES_OK(context, context->GetAttr("room", &memory_limit_bytes_));
  }

 protected:
  Subspace SubspaceFor(const Batch& batch) const {
    return use_subspace_ ? this->engine_->SubspaceFor(batch, memory_limit_bytes_) : Subspace();
  }
  bool use_subspace_ = false;
  tf::int64 memory_limit_bytes_ = 0;  // of states cached for the gradient
};

template <class T>
class ExpectationOp : public SubspaceOp<T> {
 public:
  explicit ExpectationOp(OpKernelConstruction* context) : SubspaceOp<T>(context) {
    if (context->status().ok()) OP_REQUIRES_OK(context, context->GetAttr("keep", &keep_));
  }

  void Compute(OpKernelContext* context) override {
    Batch batch;
    if (!this->ReadInputs(context, &batch)) return;
    Subspace subspace;
    this->RunGuarded(context, [&] { subspace = this->SubspaceFor(batch); });
    if (!context->status().ok()) return;
    int64_t reals = 0;
    if (keep_ && subspace.states)
      reals = this->engine_->SubspaceReals(subspace);
    else if (keep_ && batch.size)
      reals =
          this->engine_->CachedReals(this->engine_->TileLayoutFor(batch),
                                     std::min<int64_t>(kMaxCachedBytes, this->memory_limit_bytes_));
    Tensor *values, *cached, states;
    OP_REQUIRES_OK(context,
                   this->Allocate(context, 0, batch.size, this->program_->readouts, &values));
    OP_REQUIRES_OK(context, context->allocate_output(1, TensorShape({reals}), &cached));
    if (subspace.states && !keep_)
      OP_REQUIRES_OK(context, context->allocate_temp(
                                  tf::DataTypeToEnum<T>::value,
                                  TensorShape({this->engine_->SubspaceReals(subspace)}), &states));
    T* results = values->flat<T>().data();
    T* states_buffer = (subspace.states && !keep_ ? states : *cached).template flat<T>().data();
    this->RunGuarded(context, [&] {
      if (subspace.states)
        this->engine_->SubspaceExpectation(batch, subspace, results, states_buffer);
      else
        this->engine_->Expectation(batch, results, states_buffer, reals);
    });
  }

 private:
  bool keep_ = false;
};

template <class T>
class ExpectationGradientOp : public SubspaceOp<T> {
 public:
  explicit ExpectationGradientOp(OpKernelConstruction* context) : SubspaceOp<T>(context) {
    if (context->status().ok())
      OP_REQUIRES_OK(context, context->GetAttr("by_each", &want_per_example_));
    OP_REQUIRES(context, !want_per_example_ || !this->use_subspace_,
                tf::errors::InvalidArgument("the subspace method has no per-example gradients"));
  }

  void Compute(OpKernelContext* context) override {
    Batch batch;
    if (!this->ReadInputs(context, &batch)) return;
    const Tensor& upstream = context->input(2);
    if (!this->CheckShape(context, "the upstream gradient", upstream, batch.size,
                          this->program_->readouts))
      return;
    Tensor *shared, *per_example;
    if (!AllocateGradients(this, context, *this->program_, batch.size, want_per_example_, &shared,
                           &per_example))
      return;
    double* shared_gradient = shared->flat<double>().data();
    Subspace subspace;
    this->RunGuarded(context, [&] { subspace = this->SubspaceFor(batch); });
    if (!context->status().ok()) return;
    if (subspace.states) {
      ComputeInSubspace(context, batch, subspace, upstream, shared_gradient);
      return;
    }
    // Overwrite the cached states if this op owns the only reference.
    std::unique_ptr<Tensor> owned = context->forward_input(
        3, OpKernelContext::Params::kNoReservation, tf::DataTypeToEnum<T>::value,
        context->input(3).shape(), tf::DEVICE_MEMORY, tf::AllocatorAttributes());
    const Tensor& cached = owned ? *owned : context->input(3);
    const TileLayout layout = this->engine_->TileLayoutFor(batch);
    OP_REQUIRES(context,
                cached.NumElements() == 0 ||
                    cached.NumElements() ==
                        this->engine_->CachedReals(
                            layout, std::min<int64_t>(kMaxCachedBytes, this->memory_limit_bytes_)),
                tf::errors::InvalidArgument("the cached states do not belong to this batch"));
    this->RunGuarded(context, [&] {
      this->engine_->Gradient(batch, upstream.flat<T>().data(),
                              const_cast<T*>(cached.flat<T>().data()), cached.NumElements(),
                              owned != nullptr, want_per_example_, shared_gradient,
                              per_example->flat<double>().data());
    });
  }

 private:
  void ComputeInSubspace(OpKernelContext* context, const Batch& batch, const Subspace& subspace,
                         const Tensor& upstream, double* shared_gradient) {
    Tensor states = context->input(3);
    const bool recompute = states.NumElements() != this->engine_->SubspaceReals(subspace);
    OP_REQUIRES(context, !recompute || states.NumElements() == 0,
                tf::errors::InvalidArgument("the cached states do not belong to this batch"));
    Tensor values;
    if (recompute) {
      const auto type = tf::DataTypeToEnum<T>::value;
      OP_REQUIRES_OK(context,
                     context->allocate_temp(
                         type, TensorShape({this->engine_->SubspaceReals(subspace)}), &states));
      OP_REQUIRES_OK(context, context->allocate_temp(type, upstream.shape(), &values));
    }
    this->RunGuarded(context, [&] {
      if (recompute)
        this->engine_->SubspaceExpectation(batch, subspace, values.flat<T>().data(),
                                           states.flat<T>().data());
      this->engine_->SubspaceGradient(batch, subspace, upstream.flat<T>().data(),
                                      states.flat<T>().data(), shared_gradient);
    });
  }
  bool want_per_example_ = true;
};

// The dimension of a batch's subspace; 0 if the direct method is used.
class SubspaceSizeOp : public SubspaceOp<float> {
 public:
  using SubspaceOp<float>::SubspaceOp;

  void Compute(OpKernelContext* context) override {
    Batch batch;
    if (!ReadInputs(context, &batch)) return;
    Tensor* states;
    OP_REQUIRES_OK(context, context->allocate_output(0, TensorShape({}), &states));
    RunGuarded(context, [&] { states->scalar<tf::int64>()() = SubspaceFor(batch).states; });
  }
};

// Reads a steady clock, to time parts of a graph. TensorFlow's Timestamp is rejected if operations
// must be deterministic, and a call into Python takes 50 us.
class ClockOp : public tf::OpKernel {
 public:
  using OpKernel::OpKernel;

  void Compute(OpKernelContext* context) override {
    Tensor* seconds;
    OP_REQUIRES_OK(context, context->allocate_output(0, TensorShape({}), &seconds));
    const auto now = std::chrono::steady_clock::now().time_since_epoch();
    seconds->scalar<double>()() = std::chrono::duration<double>(now).count();
  }

  bool IsExpensive() override { return false; }  // run inline, not in a queue
};

// Base class of the ops on states. Bit i of the engine's index is bit order[i] of the state's.
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
    OP_REQUIRES(context, good,
                tf::errors::InvalidArgument("order must be a permutation of the bits"));
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
    if (!this->ReadInputs(context, &batch)) return;
    Tensor* states;
    OP_REQUIRES_OK(context, this->Allocate(context, 0, batch.size, this->size(), &states));
    using C = typename ComplexOf<T>::type;
    this->RunGuarded(context, [&] {
      this->engine_->State(batch, this->order_.data(),
                           reinterpret_cast<T*>(states->flat<C>().data()));
    });
  }
};

template <class T>
class StateGradientOp : public StateOpBase<T> {
 public:
  explicit StateGradientOp(OpKernelConstruction* context) : StateOpBase<T>(context) {
    if (context->status().ok())
      OP_REQUIRES_OK(context, context->GetAttr("by_each", &want_per_example_));
  }

  void Compute(OpKernelContext* context) override {
    Batch batch;
    if (!this->ReadInputs(context, &batch)) return;
    if (!this->CheckShape(context, "the states", context->input(2), batch.size, this->size()) ||
        !this->CheckShape(context, "the upstream gradient", context->input(3), batch.size,
                          this->size()))
      return;
    Tensor *shared, *per_example;
    if (!AllocateGradients(this, context, *this->program_, batch.size, want_per_example_, &shared,
                           &per_example))
      return;
    using C = typename ComplexOf<T>::type;
    this->RunGuarded(context, [&] {
      this->engine_->StateGradient(
          batch, this->order_.data(),
          reinterpret_cast<const T*>(context->input(2).template flat<C>().data()),
          reinterpret_cast<const T*>(context->input(3).template flat<C>().data()),
          want_per_example_, shared->flat<double>().data(), per_example->flat<double>().data());
    });
  }

 private:
  bool want_per_example_ = true;
};

}  // namespace

QFLEET_OP("QfleetExpectation")
    .Output("values: T")
    .Output("kept: T")
    .Attr("T: {float, double}")
    .Attr("keep: bool")
    .Attr("span: bool")
    .Attr("room: int")
    .SetShapeFn(RowsShapeFn);
QFLEET_OP("QfleetExpectationGradient")
    .Input("upstream: T")
    .Input("kept: T")
    .Output("by_shared: double")
    .Output("by_each_example: double")
    .Attr("T: {float, double}")
    .Attr("by_each: bool")
    .Attr("span: bool")
    .Attr("room: int")
    .SetShapeFn(GradientShapeFn);
QFLEET_OP("QfleetSubspaceSize")
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
    .SetShapeFn(RowsShapeFn);
QFLEET_OP("QfleetStateGradient")
    .Input("states: T")
    .Input("upstream: T")
    .Output("by_shared: double")
    .Output("by_each_example: double")
    .Attr("T: {complex64, complex128}")
    .Attr("order: list(int)")
    .Attr("by_each: bool")
    .SetShapeFn(GradientShapeFn);

REGISTER_KERNEL_BUILDER(Name("QfleetSubspaceSize").Device(tf::DEVICE_CPU), SubspaceSizeOp);
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

// Called through ctypes: the instruction set, the reals per vector, and the fields of TileLayout.
QFLEET_EXPORT const char* qfleet_instruction_set() { return qfleet::InstructionSetName(); }

QFLEET_EXPORT int32_t qfleet_simd_lanes(int32_t real_bytes) {
  return real_bytes == 8 ? qfleet::BestKernels<double>().lanes : qfleet::BestKernels<float>().lanes;
}

QFLEET_EXPORT void qfleet_tile_layout(int32_t qubits, int32_t real_bytes, int64_t batch,
                                      int64_t threads, int64_t* fields) {
  const qfleet::TileLayout layout =
      qfleet::ChooseTileLayout(qubits, qfleet_simd_lanes(real_bytes), real_bytes, batch, threads);
  fields[0] = layout.lane_qubits;
  fields[1] = layout.samples;
  fields[2] = layout.tiles;
  fields[3] = layout.groups;
  fields[4] = layout.tile_reals;
  fields[5] = layout.shared_tile;
}
