// A digest of a replica's weights and optimizer state, for the comparison of replicas.
//
// The tensors are read as one sequence of 32-bit words w[0], w[1], ... The digest is
//     sum of w[i]  and  sum of (2 i + 1) w[i],  both modulo 2**32.
// A flipped bit changes both sums. training/step/replica_state.py has the same in NumPy and
// TensorFlow.
#include <algorithm>
#include <cstdint>
#include <cstring>

#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/shape_inference.h"

namespace qfleet {
namespace {

namespace tf = tensorflow;

constexpr int64_t kOutputs = 3;
constexpr uint32_t kFloatExponent = 0x7f800000;  // all ones: infinite or NaN
constexpr uint32_t kDoubleExponent = 0x7ff00000;

class StateDigestOp : public tf::OpKernel {
 public:
  using OpKernel::OpKernel;

  void Compute(tf::OpKernelContext* context) override {
    uint32_t sum = 0, weighted = 0, place = 0;
    int64_t nonfinite = 0;
    for (int i = 0; i < context->num_inputs(); ++i) {
      const tf::Tensor& tensor = context->input(i);
      OP_REQUIRES(context, tf::DataTypeCanUseMemcpy(tensor.dtype()),
                  tf::errors::InvalidArgument("values must be numbers, not ",
                                              tf::DataTypeString(tensor.dtype())));
      const char* bytes = tensor.tensor_data().data();
      const int64_t size = static_cast<int64_t>(tensor.tensor_data().size());
      for (int64_t at = 0; at < size; at += sizeof(uint32_t), ++place) {
        uint32_t word = 0;  // zeros fill the last word
        std::memcpy(&word, bytes + at, std::min<int64_t>(sizeof(word), size - at));
        sum += word;
        weighted += (2 * place + 1) * word;
        if (tensor.dtype() == tf::DT_FLOAT)
          nonfinite += (word & kFloatExponent) == kFloatExponent;
        else if (tensor.dtype() == tf::DT_DOUBLE && at % 8 == 4)  // the high word
          nonfinite += (word & kDoubleExponent) == kDoubleExponent;
      }
    }
    tf::Tensor* digest = nullptr;
    OP_REQUIRES_OK(context, context->allocate_output(0, tf::TensorShape({kOutputs}), &digest));
    auto out = digest->flat<int64_t>();
    out(0) = sum;
    out(1) = weighted;
    out(2) = nonfinite;
  }
};

}  // namespace

REGISTER_OP("QfleetStateDigest")
    .Input("values: T")
    .Output("digest: int64")  // both sums, and the count of numbers that are infinite or NaN
    .Attr("T: list(type) >= 1")
    .SetShapeFn([](tf::shape_inference::InferenceContext* context) {
      context->set_output(0, context->Vector(kOutputs));
      return tf::OkStatus();
    });
REGISTER_KERNEL_BUILDER(Name("QfleetStateDigest").Device(tf::DEVICE_CPU), StateDigestOp);

}  // namespace qfleet
