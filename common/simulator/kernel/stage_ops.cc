// The TensorFlow ops of a state that is split over workers: each on its worker's part of it. What
// crosses between workers is TensorFlow's own collectives (common/simulator/split_exchange.py).
#include <algorithm>
#include <cstring>

#include "ops.h"
#include "stages.h"

namespace qfleet {
namespace {

// What the ops of a split state share. A seed is [batch, 2**bits] amplitudes as (re, im).
template <class T>
class PartOp : public ProgramOp<T> {
 public:
  explicit PartOp(OpKernelConstruction* context) : ProgramOp<T>(context) {
    if (!context->status().ok()) return;
    OP_REQUIRES(context, this->program_->prefix == 0 && this->program_->initial.empty(),
                tf::errors::InvalidArgument("a part of a state has neither prefix nor start"));
    if (context->HasAttr("places")) {
      OP_REQUIRES_OK(context, context->GetAttr("places", &places_));
      int64_t seen = 0;
      for (int64_t place : places_) {
        OP_REQUIRES(context, place >= 0 && place < this->program_->qubits && !(seen >> place & 1),
                    tf::errors::InvalidArgument("places name a bit of the state each"));
        seen |= int64_t{1} << place;
      }
    }
    if (context->HasAttr("across")) {
      tf::int64 across;
      OP_REQUIRES_OK(context, context->GetAttr("across", &across));
      OP_REQUIRES(context, across >= 0 && across < kAnyLanes,
                  tf::errors::InvalidArgument("across counts qubits"));
      across_ = static_cast<int32_t>(across);
    }
  }

 protected:
  int64_t seed_width() const { return int64_t{2} << places_.size(); }

  // Takes the exponents and, if `seeds` is an input's number, the seeds.
  bool TakePart(OpKernelContext* context, int seeds, Batch* batch) {
    if (!this->Take(context, batch)) return false;
    batch->across_at_most = across_;
    if (seeds < 0) return true;
    const Tensor& given = context->input(seeds);
    if (!this->Check(context, "seeds", given, batch->size, seed_width())) return false;
    batch->seeds = given.flat<double>().data();
    batch->seed_bits = &places_;
    return true;
  }

  // Whether a tensor holds the tiles of this batch.
  bool Holds(OpKernelContext* context, const Tensor& states, const Batch& batch) {
    const Shape shape = this->sweep_->ShapeOf(batch);
    if (states.dims() == 1 && states.NumElements() == shape.tiles * shape.tile_reals) return true;
    context->CtxFailure(tf::errors::InvalidArgument("the states are another batch's"));
    return false;
  }

  // Input `input` as output `output`: in place where nobody else holds it.
  T* InPlace(OpKernelContext* context, int input, int output) {
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

  std::vector<int64_t> places_;
  int32_t across_ = kAnyLanes;
};

template <class T>
class PartExpectationOp : public PartOp<T> {
 public:
  explicit PartExpectationOp(OpKernelConstruction* context) : PartOp<T>(context) {
    if (context->status().ok()) OP_REQUIRES_OK(context, context->GetAttr("keep", &keep_));
    if (context->status().ok()) OP_REQUIRES_OK(context, context->GetAttr("room", &room_));
  }

  void Compute(OpKernelContext* context) override {
    Batch batch;
    if (!this->TakePart(context, 2, &batch)) return;
    const int64_t reals =
        keep_ && batch.size
            ? this->sweep_->Kept(this->sweep_->ShapeOf(batch), std::min<int64_t>(kKeptBytes, room_))
            : 0;
    Tensor *values, *kept;
    OP_REQUIRES_OK(context,
                   this->Allocate(context, 0, batch.size, this->program_->readouts, &values));
    OP_REQUIRES_OK(context, context->allocate_output(1, TensorShape({reals}), &kept));
    this->Guard(context, [&] {
      this->sweep_->Expectation(batch, values->flat<T>().data(), kept->flat<T>().data(), reals);
    });
  }

 private:
  bool keep_ = false;
  tf::int64 room_ = 0;
};

template <class T>
class PartGradientOp : public PartOp<T> {
 public:
  explicit PartGradientOp(OpKernelConstruction* context) : PartOp<T>(context) {
    if (context->status().ok()) OP_REQUIRES_OK(context, context->GetAttr("by_each", &by_each_));
    if (context->status().ok()) OP_REQUIRES_OK(context, context->GetAttr("room", &room_));
  }

  void Compute(OpKernelContext* context) override {
    Batch batch;
    if (!this->TakePart(context, 2, &batch)) return;
    const Tensor& upstream = context->input(3);
    if (!this->Check(context, "the upstream gradient", upstream, batch.size,
                     this->program_->readouts))
      return;
    Tensor *shared, *each, *seeds;
    if (!Slopes(this, context, *this->program_, batch.size, by_each_, &shared, &each)) return;
    OP_REQUIRES_OK(context, this->Allocate(context, 2, batch.size, this->seed_width(), &seeds));
    batch.seed_slopes = seeds->flat<double>().data();
    std::unique_ptr<Tensor> ours = context->forward_input(
        4, OpKernelContext::Params::kNoReservation, tf::DataTypeToEnum<T>::value,
        context->input(4).shape(), tf::DEVICE_MEMORY, tf::AllocatorAttributes());
    const Tensor& kept = ours ? *ours : context->input(4);
    OP_REQUIRES(context,
                kept.NumElements() == 0 ||
                    (batch.size && kept.NumElements() ==
                                       this->sweep_->Kept(this->sweep_->ShapeOf(batch),
                                                          std::min<int64_t>(kKeptBytes, room_))),
                tf::errors::InvalidArgument("the kept states are another batch's"));
    this->Guard(context, [&] {
      this->sweep_->Gradient(batch, upstream.flat<T>().data(),
                             const_cast<T*>(kept.flat<T>().data()), kept.NumElements(),
                             ours != nullptr, by_each_, shared->flat<double>().data(),
                             each->flat<double>().data());
    });
  }

 private:
  bool by_each_ = true;
  tf::int64 room_ = 0;
};

// The first stage, from seeds.
template <class T>
class StageStartOp : public PartOp<T> {
 public:
  using PartOp<T>::PartOp;

  void Compute(OpKernelContext* context) override {
    Batch batch;
    if (!this->TakePart(context, 2, &batch)) return;
    const Shape shape = this->sweep_->ShapeOf(batch);
    Tensor* states;
    OP_REQUIRES_OK(context, context->allocate_output(
                                0, TensorShape({shape.tiles * shape.tile_reals}), &states));
    this->Guard(context, [&] { this->sweep_->StageForward(batch, states->flat<T>().data()); });
  }
};

// A further stage, in place.
template <class T>
class StageOp : public PartOp<T> {
 public:
  using PartOp<T>::PartOp;

  void Compute(OpKernelContext* context) override {
    Batch batch;
    if (!this->TakePart(context, -1, &batch)) return;
    if (!this->Holds(context, context->input(2), batch)) return;
    T* states = this->InPlace(context, 2, 0);
    if (states) this->Guard(context, [&] { this->sweep_->StageForward(batch, states); });
  }
};

// What this part of the states adds to the readouts.
template <class T>
class StageReadOp : public PartOp<T> {
 public:
  using PartOp<T>::PartOp;

  void Compute(OpKernelContext* context) override {
    Batch batch;
    if (!this->TakePart(context, -1, &batch)) return;
    if (!this->Holds(context, context->input(2), batch)) return;
    Tensor* values;
    OP_REQUIRES_OK(context,
                   this->Allocate(context, 0, batch.size, this->program_->readouts, &values));
    this->Guard(context, [&] {
      this->sweep_->StageRead(batch, context->input(2).template flat<T>().data(),
                              values->flat<T>().data());
    });
  }
};

// lambda, from the states and the readouts' upstream.
template <class T>
class StageWeighOp : public PartOp<T> {
 public:
  using PartOp<T>::PartOp;

  void Compute(OpKernelContext* context) override {
    Batch batch;
    if (!this->TakePart(context, -1, &batch)) return;
    const Tensor &states = context->input(2), &upstream = context->input(3);
    if (!this->Holds(context, states, batch) ||
        !this->Check(context, "the upstream gradient", upstream, batch.size,
                     this->program_->readouts))
      return;
    Tensor* lambdas;
    OP_REQUIRES_OK(context, context->allocate_output(0, states.shape(), &lambdas));
    this->Guard(context, [&] {
      this->sweep_->StageWeigh(batch, states.flat<T>().data(), upstream.flat<T>().data(),
                               lambdas->flat<T>().data());
    });
  }
};

// Both states back through a stage, in place.
template <class T>
class StageBackOp : public PartOp<T> {
 public:
  explicit StageBackOp(OpKernelConstruction* context) : PartOp<T>(context) {
    if (context->status().ok()) OP_REQUIRES_OK(context, context->GetAttr("by_each", &by_each_));
    if (context->status().ok()) OP_REQUIRES_OK(context, context->GetAttr("first", &first_));
  }

  void Compute(OpKernelContext* context) override {
    Batch batch;
    if (!this->TakePart(context, -1, &batch)) return;
    for (int input : {2, 3})
      if (!this->Holds(context, context->input(input), batch)) return;
    Tensor *shared, *each, *seeds;
    if (!Slopes(this, context, *this->program_, batch.size, by_each_, &shared, &each)) return;
    OP_REQUIRES_OK(context,
                   this->Allocate(context, 2, first_ ? batch.size : 0, this->seed_width(), &seeds));
    if (first_) {
      batch.seed_bits = &this->places_;
      batch.seed_slopes = seeds->flat<double>().data();
    }
    T* states = this->InPlace(context, 2, 3);
    T* lambdas = states ? this->InPlace(context, 3, 4) : nullptr;
    if (lambdas)
      this->Guard(context, [&] {
        this->sweep_->StageBack(batch, states, lambdas, by_each_, shared->flat<double>().data(),
                                each->flat<double>().data());
      });
  }

 private:
  bool by_each_ = true, first_ = false;
};

// Pieces of what each worker gets, out of a part of the states and into it.
template <class T>
class SwapOp : public PartOp<T> {
 public:
  explicit SwapOp(OpKernelConstruction* context) : PartOp<T>(context) {}

 protected:
  // The region of groups [first, first + count) for each worker; `batch` is the exponents'.
  bool Where(OpKernelContext* context, const Batch& batch, int64_t workers, Region* region,
             int64_t* groups) {
    const Shape shape = this->sweep_->ShapeOf(batch);
    for (int64_t place : this->places_)
      if (place < shape.lane_qubits) {
        context->CtxFailure(tf::errors::InvalidArgument("a qubit across lanes is not swapped"));
        return false;
      }
    for (int64_t place : this->places_)
      region->ranks.push_back(static_cast<int32_t>(place) - shape.lane_qubits);
    region->bits = region->ranks;
    std::sort(region->bits.begin(), region->bits.end());
    region->reals = shape.tile_reals / shape.groups;
    *groups = shape.tiles * shape.groups / workers;
    return true;
  }
  int64_t workers() const { return int64_t{1} << this->places_.size(); }
};

template <class T>
class TakeOutOp : public SwapOp<T> {
 public:
  using SwapOp<T>::SwapOp;

  void Compute(OpKernelContext* context) override {
    Batch batch;
    if (!this->TakePart(context, -1, &batch)) return;
    const Tensor& states = context->input(2);
    if (!this->Holds(context, states, batch)) return;
    Region region;
    int64_t groups;
    if (!this->Where(context, batch, this->workers(), &region, &groups)) return;
    const int64_t first = context->input(3).template flat<tf::int64>()(0) / region.reals;
    const int64_t count = context->input(4).template flat<tf::int64>()(0) / region.reals;
    OP_REQUIRES(context, first >= 0 && count > 0 && first <= groups - count,
                tf::errors::InvalidArgument("a piece lies within the states"));
    Tensor* pieces;
    OP_REQUIRES_OK(context,
                   this->Allocate(context, 0, this->workers(), count * region.reals, &pieces));
    Swap<T>(region, const_cast<T*>(states.flat<T>().data()), pieces->flat<T>().data(), first, count,
            true);
  }
};

template <class T>
class PutInOp : public SwapOp<T> {
 public:
  using SwapOp<T>::SwapOp;

  void Compute(OpKernelContext* context) override {
    Batch batch;
    if (!this->TakePart(context, -1, &batch)) return;
    if (!this->Holds(context, context->input(2), batch)) return;
    Region region;
    int64_t groups;
    if (!this->Where(context, batch, this->workers(), &region, &groups)) return;
    const Tensor& pieces = context->input(4);
    OP_REQUIRES(context, pieces.dims() == 2 && pieces.dim_size(0) == this->workers(),
                tf::errors::InvalidArgument("pieces are [workers, reals]"));
    const int64_t first = context->input(3).template flat<tf::int64>()(0) / region.reals;
    const int64_t count = pieces.dim_size(1) / region.reals;
    OP_REQUIRES(context,
                first >= 0 && count > 0 && first <= groups - count &&
                    count * region.reals == pieces.dim_size(1),
                tf::errors::InvalidArgument("a piece lies within the states"));
    T* states = this->InPlace(context, 2, 0);
    if (states)
      Swap<T>(region, states, const_cast<T*>(pieces.flat<T>().data()), first, count, false);
  }
};

// Readouts, and lambda, from own groups and those of another worker.
template <class T, bool READ>
class CrossOp : public PartOp<T> {
 public:
  using PartOp<T>::PartOp;

  void Compute(OpKernelContext* context) override {
    Batch batch;
    if (!this->TakePart(context, -1, &batch)) return;
    const Tensor &states = context->input(2), &others = context->input(3);
    if (!this->Holds(context, states, batch)) return;
    const Shape shape = this->sweep_->ShapeOf(batch);
    const int64_t reals = shape.tile_reals / shape.groups;
    const int64_t first = context->input(4).template flat<tf::int64>()(0) / reals;
    const int64_t count = others.NumElements() / reals;
    OP_REQUIRES(context,
                count > 0 && (count & (count - 1)) == 0 && count <= shape.groups &&
                    count * reals == others.NumElements() && first >= 0 && first % count == 0 &&
                    first < shape.tiles * shape.groups,
                tf::errors::InvalidArgument("a piece lies within the states"));
    const T* theirs = others.flat<T>().data();
    if constexpr (READ) {
      Tensor* values;
      OP_REQUIRES_OK(context,
                     this->Allocate(context, 0, batch.size, this->program_->readouts, &values));
      values->flat<T>().setZero();
      this->Guard(context, [&] {
        this->sweep_->CrossRead(batch, states.flat<T>().data(), theirs, first, count,
                                values->flat<T>().data());
      });
    } else {
      const Tensor& upstream = context->input(5);
      if (!this->Check(context, "the upstream gradient", upstream, batch.size,
                       this->program_->readouts))
        return;
      T* lambdas = this->InPlace(context, 2, 0);
      if (lambdas)
        this->Guard(context, [&] {
          this->sweep_->CrossWeigh(batch, theirs, first, count, upstream.flat<T>().data(), lambdas);
        });
    }
  }
};

template <class T>
using CrossReadOp = CrossOp<T, true>;
template <class T>
using CrossWeighOp = CrossOp<T, false>;

tf::Status StatesShape(InferenceContext* context) {
  context->set_output(0, context->UnknownShapeOfRank(1));
  return tf::OkStatus();
}

tf::Status PartGradientShape(InferenceContext* context) {
  TF_RETURN_IF_ERROR(GradientShape(context));
  context->set_output(2, context->UnknownShapeOfRank(2));
  for (int output = 3; output < context->num_outputs(); ++output)
    context->set_output(output, context->UnknownShapeOfRank(1));
  return tf::OkStatus();
}

tf::Status PiecesShape(InferenceContext* context) {
  context->set_output(0, context->UnknownShapeOfRank(2));
  return tf::OkStatus();
}

}  // namespace

#define QFLEET_PART(name) QFLEET_OP(name).Attr("T: {float, double}")

QFLEET_PART("QfleetPartExpectation")
    .Input("seeds: double")
    .Output("values: T")
    .Output("kept: T")
    .Attr("places: list(int)")
    .Attr("keep: bool")
    .Attr("room: int")
    .SetShapeFn(RowsShape);
QFLEET_PART("QfleetPartGradient")
    .Input("seeds: double")
    .Input("upstream: T")
    .Input("kept: T")
    .Output("by_shared: double")
    .Output("by_each_example: double")
    .Output("by_seeds: double")
    .Attr("places: list(int)")
    .Attr("by_each: bool")
    .Attr("room: int")
    .SetShapeFn(PartGradientShape);
QFLEET_PART("QfleetStageStart")
    .Input("seeds: double")
    .Output("states: T")
    .Attr("places: list(int)")
    .Attr("across: int")
    .SetShapeFn(StatesShape);
QFLEET_PART("QfleetStage")
    .Input("states: T")
    .Output("after: T")
    .Attr("across: int")
    .SetShapeFn(StatesShape);
QFLEET_PART("QfleetStageRead")
    .Input("states: T")
    .Output("values: T")
    .Attr("across: int")
    .SetShapeFn(RowsShape);
QFLEET_PART("QfleetStageWeigh")
    .Input("states: T")
    .Input("upstream: T")
    .Output("lambdas: T")
    .Attr("across: int")
    .SetShapeFn(StatesShape);
QFLEET_PART("QfleetStageBack")
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
    .SetShapeFn(PartGradientShape);
QFLEET_PART("QfleetTakeOut")
    .Input("states: T")
    .Input("first: int64")
    .Input("count: int64")
    .Output("pieces: T")
    .Attr("places: list(int)")
    .Attr("across: int")
    .SetShapeFn(PiecesShape);
QFLEET_PART("QfleetPutIn")
    .Input("states: T")
    .Input("first: int64")
    .Input("pieces: T")
    .Output("after: T")
    .Attr("places: list(int)")
    .Attr("across: int")
    .SetShapeFn(StatesShape);
QFLEET_PART("QfleetCrossRead")
    .Input("states: T")
    .Input("others: T")
    .Input("first: int64")
    .Output("values: T")
    .Attr("across: int")
    .SetShapeFn(RowsShape);
QFLEET_PART("QfleetCrossWeigh")
    .Input("lambdas: T")
    .Input("others: T")
    .Input("first: int64")
    .Input("upstream: T")
    .Output("after: T")
    .Attr("across: int")
    .SetShapeFn(StatesShape);

#define QFLEET_PART_KERNEL(name, type)     \
  QFLEET_KERNEL(name, type<float>, float); \
  QFLEET_KERNEL(name, type<double>, double);
QFLEET_PART_KERNEL("QfleetPartExpectation", PartExpectationOp)
QFLEET_PART_KERNEL("QfleetPartGradient", PartGradientOp)
QFLEET_PART_KERNEL("QfleetStageStart", StageStartOp)
QFLEET_PART_KERNEL("QfleetStage", StageOp)
QFLEET_PART_KERNEL("QfleetStageRead", StageReadOp)
QFLEET_PART_KERNEL("QfleetStageWeigh", StageWeighOp)
QFLEET_PART_KERNEL("QfleetStageBack", StageBackOp)
QFLEET_PART_KERNEL("QfleetTakeOut", TakeOutOp)
QFLEET_PART_KERNEL("QfleetPutIn", PutInOp)
QFLEET_PART_KERNEL("QfleetCrossRead", CrossReadOp)
QFLEET_PART_KERNEL("QfleetCrossWeigh", CrossWeighOp)

}  // namespace qfleet
