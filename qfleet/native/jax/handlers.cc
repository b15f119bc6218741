// XLA FFI handlers of the engine, for qfleet/jax. They call the C interface only.
//
// Exponents, their tangents and their gradients are F32 or F64 arrays; the engine computes with
// doubles. Values and states have the program's precision. Arrays of a GPU are copied to the host's
// memory, and results back.
#include <cstdint>
#include <string>
#include <vector>

#include "jax/cuda_arrays.h"
#include "qfleet.h"
#include "xla/ffi/api/ffi.h"

namespace ffi = xla::ffi;

namespace {

using Attributes = ffi::Dictionary;

ffi::Error Invalid(const std::string& message) {
  return ffi::Error(ffi::ErrorCode::kInvalidArgument, "qfleet: " + message);
}

ffi::Error ToError(qfleet_status status) {
  if (status == QFLEET_OK) return ffi::Error::Success();
  const std::string message = std::string("qfleet: ") + qfleet_last_error();
  switch (status) {
    case QFLEET_INVALID_ARGUMENT:
      return ffi::Error(ffi::ErrorCode::kInvalidArgument, message);
    case QFLEET_OUT_OF_MEMORY:
      return ffi::Error(ffi::ErrorCode::kResourceExhausted, message);
    case QFLEET_DEVICE_FAILED:
      return ffi::Error(ffi::ErrorCode::kFailedPrecondition, message);
    case QFLEET_DEVICE_LOST:
      return ffi::Error(ffi::ErrorCode::kUnavailable, message);
    default:
      return ffi::Error(ffi::ErrorCode::kInternal, message);
  }
}

bool IsReal(ffi::DataType type) { return type == ffi::DataType::F32 || type == ffi::DataType::F64; }

// An array of reals as doubles: in place for F64, as a copy for F32.
class Doubles {
 public:
  explicit Doubles(const ffi::AnyBuffer& buffer) : count_(buffer.element_count()) {
    if (buffer.element_type() == ffi::DataType::F64) {
      data_ = static_cast<const double*>(buffer.untyped_data());
      return;
    }
    const float* from = static_cast<const float*>(buffer.untyped_data());
    copy_.assign(from, from + count_);
    data_ = copy_.data();
  }
  const double* data() const { return data_; }
  int64_t count() const { return count_; }

 private:
  std::vector<double> copy_;
  const double* data_;
  int64_t count_;
};

// A result of reals that is computed in doubles.
class DoubleResult {
 public:
  explicit DoubleResult(const ffi::AnyBuffer& buffer) : buffer_(buffer) {
    if (buffer.element_type() != ffi::DataType::F64) copy_.resize(buffer.element_count());
  }
  double* data() {
    return copy_.empty() ? static_cast<double*>(buffer_.untyped_data()) : &copy_[0];
  }
  int64_t count() const { return buffer_.element_count(); }
  void Finish() {
    float* to = static_cast<float*>(buffer_.untyped_data());
    for (size_t i = 0; i < copy_.size(); ++i) to[i] = static_cast<float>(copy_[i]);
  }

 private:
  ffi::AnyBuffer buffer_;
  std::vector<double> copy_;
};

bool IsDouble(ffi::DataType type) {
  return type == ffi::DataType::F64 || type == ffi::DataType::C128;
}

// Number of reals of an array of reals or of complex numbers.
int64_t Reals(const ffi::AnyBuffer& buffer) {
  const size_t real_bytes = IsDouble(buffer.element_type()) ? sizeof(double) : sizeof(float);
  return static_cast<int64_t>(buffer.size_bytes() / real_bytes);
}

void* DataOrNull(const ffi::AnyBuffer& buffer) {
  return buffer.element_count() ? buffer.untyped_data() : nullptr;
}

// The program and batch of one call. `initial_states` are empty if the program has its own.
class Call {
 public:
  Call(Attributes attributes, const ffi::AnyBuffer& shared, const ffi::AnyBuffer& per_example,
       const ffi::AnyBuffer& initial_states)
      : shared_(shared), per_example_(per_example) {
    const auto program = attributes.get<int64_t>("program");
    const auto memory_limit = attributes.get<int64_t>("memory_limit");
    const auto order = attributes.get<ffi::Span<const int64_t>>("order");
    if (program.has_value()) program_ = *program;
    if (order.has_value()) order_ = *order;
    batch_.shared = shared_.data();
    batch_.shared_count = shared_.count();
    batch_.per_example = per_example_.data();
    batch_.per_example_count = per_example_.count();
    batch_.size = per_example.dimensions().size() == 2 ? per_example.dimensions()[0] : -1;
    batch_.memory_limit = memory_limit.has_value() ? *memory_limit : 0;
    batch_.check_finite = 1;
    batch_.initial_states = DataOrNull(initial_states);
    batch_.initial_state_count = Reals(initial_states);
    batch_.initial_order = order_.begin();
    batch_.initial_order_count = static_cast<int64_t>(order_.size());
  }
  // Has gradients by the initial states written to an array, unless it is empty.
  void SetInitialGradients(const ffi::AnyBuffer& gradients) {
    batch_.initial_gradients = DataOrNull(gradients);
    batch_.initial_gradient_count = Reals(gradients);
  }
  qfleet_program program() const { return program_; }
  const qfleet_batch* batch() const { return &batch_; }
  const int64_t* order() const { return batch_.initial_order; }
  int64_t order_count() const { return batch_.initial_order_count; }

  // Plans the batch, whose values are checked later.
  qfleet_status Plan(qfleet_plan* plan) const {
    qfleet_batch unchecked = batch_;
    unchecked.check_finite = 0;
    return qfleet_plan_batch(program_, &unchecked, plan);
  }
  // True if all values and states are of the program's precision.
  template <class... Buffers>
  bool HasPrecision(const Buffers&... buffers) const {
    qfleet_program_info info;
    if (qfleet_program_describe(program_, &info) != QFLEET_OK) return true;  // reported later
    return (... && (IsDouble(buffers.element_type()) == (info.real_bytes == sizeof(double))));
  }

 private:
  Doubles shared_, per_example_;
  qfleet_program program_ = 0;
  ffi::Span<const int64_t> order_;
  qfleet_batch batch_ = {};
};

template <class... Buffers>
bool AllReal(const Buffers&... buffers) {
  return (... && IsReal(buffers.element_type()));
}

ffi::Error WrongPrecision() {
  return Invalid("values, states and their gradients must have the program's precision");
}

ffi::Error Expectation(ffi::AnyBuffer shared, ffi::AnyBuffer per_example,
                       ffi::AnyBuffer initial_states, ffi::Result<ffi::AnyBuffer> values,
                       ffi::Result<ffi::AnyBuffer> kept, Attributes attributes) {
  if (!AllReal(shared, per_example, *values, *kept)) return Invalid("operands must be F32 or F64");
  const Call call(attributes, shared, per_example, initial_states);
  if (!call.HasPrecision(initial_states, *values, *kept)) return WrongPrecision();
  qfleet_plan plan;
  const qfleet_status planned = call.Plan(&plan);
  if (planned != QFLEET_OK) return ToError(planned);
  // After a change of the number of threads, the states are not kept: the gradient recomputes them.
  const int64_t reals = kept->element_count();
  const bool keep = reals > 0 && plan.kept_reals == reals;
  return ToError(qfleet_expectation(call.program(), call.batch(), values->untyped_data(),
                                    values->element_count(), keep ? kept->untyped_data() : nullptr,
                                    keep ? reals : 0));
}

ffi::Error ExpectationGradient(ffi::AnyBuffer shared, ffi::AnyBuffer per_example,
                               ffi::AnyBuffer initial_states, ffi::AnyBuffer upstream,
                               ffi::AnyBuffer kept, ffi::Result<ffi::AnyBuffer> shared_gradients,
                               ffi::Result<ffi::AnyBuffer> per_example_gradients,
                               ffi::Result<ffi::AnyBuffer> initial_gradients,
                               Attributes attributes) {
  if (!AllReal(shared, per_example, upstream, kept, *shared_gradients, *per_example_gradients))
    return Invalid("operands must be F32 or F64");
  Call call(attributes, shared, per_example, initial_states);
  if (!call.HasPrecision(initial_states, upstream, kept, *initial_gradients))
    return WrongPrecision();
  call.SetInitialGradients(*initial_gradients);
  qfleet_plan plan;
  const qfleet_status planned = call.Plan(&plan);
  if (planned != QFLEET_OK) return ToError(planned);
  const int64_t reals = kept.element_count();
  const bool use_kept = reals > 0 && plan.kept_reals == reals;
  DoubleResult by_shared(*shared_gradients), by_example(*per_example_gradients);
  const bool wanted = by_example.count() > 0;
  const qfleet_status status = qfleet_expectation_gradient(
      call.program(), call.batch(), upstream.untyped_data(), upstream.element_count(),
      use_kept ? kept.untyped_data() : nullptr, use_kept ? reals : 0, 0, by_shared.data(),
      by_shared.count(), wanted ? by_example.data() : nullptr, by_example.count());
  by_shared.Finish();
  by_example.Finish();
  return ToError(status);
}

ffi::Error ExpectationHvp(ffi::AnyBuffer shared, ffi::AnyBuffer per_example,
                          ffi::AnyBuffer initial_states, ffi::AnyBuffer shared_tangents,
                          ffi::AnyBuffer per_example_tangents, ffi::AnyBuffer upstream,
                          ffi::Result<ffi::AnyBuffer> value_tangents,
                          ffi::Result<ffi::AnyBuffer> shared_results,
                          ffi::Result<ffi::AnyBuffer> per_example_results, Attributes attributes) {
  if (!AllReal(shared, per_example, shared_tangents, per_example_tangents, upstream,
               *value_tangents, *shared_results, *per_example_results))
    return Invalid("operands must be F32 or F64");
  const Call call(attributes, shared, per_example, initial_states);
  if (!call.HasPrecision(initial_states, upstream, *value_tangents)) return WrongPrecision();
  const Doubles by_shared(shared_tangents), by_example(per_example_tangents);
  DoubleResult shared_result(*shared_results), per_example_result(*per_example_results);
  const qfleet_status status = qfleet_expectation_hvp(
      call.program(), call.batch(), by_shared.data(), by_shared.count(), by_example.data(),
      by_example.count(), upstream.untyped_data(), upstream.element_count(),
      value_tangents->untyped_data(), value_tangents->element_count(), shared_result.data(),
      shared_result.count(), per_example_result.data(), per_example_result.count());
  shared_result.Finish();
  per_example_result.Finish();
  return ToError(status);
}

ffi::Error State(ffi::AnyBuffer shared, ffi::AnyBuffer per_example, ffi::AnyBuffer initial_states,
                 ffi::Result<ffi::AnyBuffer> states, Attributes attributes) {
  if (!AllReal(shared, per_example)) return Invalid("operands must be F32 or F64");
  const Call call(attributes, shared, per_example, initial_states);
  if (!call.HasPrecision(initial_states, *states)) return WrongPrecision();
  return ToError(qfleet_state(call.program(), call.batch(), call.order(), call.order_count(),
                              states->untyped_data(), Reals(*states)));
}

ffi::Error StateGradient(ffi::AnyBuffer shared, ffi::AnyBuffer per_example,
                         ffi::AnyBuffer initial_states, ffi::AnyBuffer states,
                         ffi::AnyBuffer upstream, ffi::Result<ffi::AnyBuffer> shared_gradients,
                         ffi::Result<ffi::AnyBuffer> per_example_gradients,
                         ffi::Result<ffi::AnyBuffer> initial_gradients, Attributes attributes) {
  if (!AllReal(shared, per_example, *shared_gradients, *per_example_gradients))
    return Invalid("operands must be F32 or F64");
  Call call(attributes, shared, per_example, initial_states);
  if (!call.HasPrecision(initial_states, states, upstream, *initial_gradients))
    return WrongPrecision();
  call.SetInitialGradients(*initial_gradients);
  DoubleResult by_shared(*shared_gradients), by_example(*per_example_gradients);
  const bool wanted = by_example.count() > 0;
  const qfleet_status status = qfleet_state_gradient(
      call.program(), call.batch(), call.order(), call.order_count(), states.untyped_data(),
      Reals(states), upstream.untyped_data(), Reals(upstream), by_shared.data(), by_shared.count(),
      wanted ? by_example.data() : nullptr, by_example.count());
  by_shared.Finish();
  by_example.Finish();
  return ToError(status);
}

}  // namespace

using Any = ffi::AnyBuffer;

// A handler for arrays in the host's memory, and one for arrays in that of a CUDA device.
#define QFLEET_SYMBOL(name, implementation, binding)                     \
  extern "C" __attribute__((visibility("default"))) XLA_FFI_Error* name( \
      XLA_FFI_CallFrame* call_frame);                                    \
  XLA_FFI_DEFINE_HANDLER_SYMBOL(name, implementation, binding)
#define QFLEET_HANDLER(name, implementation, operands)                         \
  QFLEET_SYMBOL(qfleet_jax_##name, implementation, ffi::Ffi::Bind() operands); \
  QFLEET_SYMBOL(qfleet_jax_##name##_cuda, qfleet::OnCuda(implementation),      \
                ffi::Ffi::Bind().Ctx<ffi::PlatformStream<qfleet::CudaStream>>() operands)

#define QFLEET_3_ARGS .Arg<Any>().Arg<Any>().Arg<Any>()

QFLEET_HANDLER(expectation, Expectation, QFLEET_3_ARGS.Ret<Any>().Ret<Any>().Attrs());
QFLEET_HANDLER(expectation_gradient, ExpectationGradient,
               QFLEET_3_ARGS.Arg<Any>().Arg<Any>().Ret<Any>().Ret<Any>().Ret<Any>().Attrs());
QFLEET_HANDLER(expectation_hvp, ExpectationHvp,
               QFLEET_3_ARGS QFLEET_3_ARGS.Ret<Any>().Ret<Any>().Ret<Any>().Attrs());
QFLEET_HANDLER(state, State, QFLEET_3_ARGS.Ret<Any>().Attrs());
QFLEET_HANDLER(state_gradient, StateGradient,
               QFLEET_3_ARGS.Arg<Any>().Arg<Any>().Ret<Any>().Ret<Any>().Ret<Any>().Attrs());
