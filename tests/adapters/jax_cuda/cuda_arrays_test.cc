// Calls a handler for a GPU's arrays with the driver of driver.cc, whose path is the argument; or
// without a driver.
#include "jax/cuda_arrays.h"

#include <dlfcn.h>

#include <cstdio>
#include <vector>

namespace ffi = xla::ffi;

namespace {

const void* given = nullptr;  // where the handler found its operand

// result = 2 operand; a first number below 0 is refused.
ffi::Error Double(ffi::AnyBuffer operand, ffi::Result<ffi::AnyBuffer> result, ffi::Dictionary) {
  given = operand.untyped_data();
  const double* from = static_cast<const double*>(operand.untyped_data());
  double* to = static_cast<double*>(result->untyped_data());
  for (size_t i = 0; i < operand.element_count(); ++i) to[i] = 2 * from[i];
  if (operand.element_count() && from[0] < 0)
    return ffi::Error(ffi::ErrorCode::kInvalidArgument, "negative");
  return ffi::Error::Success();
}

XLA_FFI_Buffer BufferOf(std::vector<double>* numbers, std::vector<int64_t>* shape) {
  XLA_FFI_Buffer buffer = {};
  buffer.struct_size = XLA_FFI_Buffer_STRUCT_SIZE;
  buffer.dtype = XLA_FFI_DataType_F64;
  buffer.data = numbers->data();
  buffer.rank = static_cast<int64_t>(shape->size());
  buffer.dims = shape->data();
  return buffer;
}

// Returns the error's message, or nothing.
std::string Run(std::vector<double> numbers, std::vector<double>* results, void* stream) {
  std::vector<int64_t> shape = {static_cast<int64_t>(numbers.size())};
  XLA_FFI_Buffer operand = BufferOf(&numbers, &shape), result = BufferOf(results, &shape);
  XLA_FFI_Attrs attributes = {};
  const ffi::Error error = qfleet::OnCuda(Double)(
      stream, ffi::AnyBuffer(&operand), ffi::Result<ffi::AnyBuffer>(ffi::AnyBuffer(&result)),
      ffi::Dictionary(&attributes));
  if (given == numbers.data()) return "the operand is not a copy";
  return error.failure() ? error.message() : "";
}

bool Expect(bool is_right, const char* what) {
  if (!is_right) std::printf("wrong: %s\n", what);
  return is_right;
}

}  // namespace

int main(int count, char** arguments) {
  int stream = 0;
  std::vector<double> results(3), none;
  if (count == 1) {
    const std::string message = Run({1, 2, 3}, &results, &stream);
    return Expect(message == "qfleet: the CUDA driver is not loaded", message.c_str()) ? 0 : 1;
  }
  if (!dlopen(arguments[1], RTLD_NOW)) {
    std::printf("%s\n", dlerror());
    return 1;
  }
  bool is_right = Expect(Run({1, 2, 3}, &results, &stream).empty(), "an error");
  is_right &= Expect(results == std::vector<double>{2, 4, 6}, "results");
  is_right &= Expect(Run({}, &none, &stream).empty(), "an empty array");
  is_right &= Expect(Run({-1, 2, 3}, &results, &stream) == "negative", "the handler's error");
  is_right &= Expect(results[0] == 2, "results of a handler that failed");
  is_right &=
      Expect(Run({1, 2, 3}, &results, nullptr).find("copied from the GPU") != std::string::npos,
             "a copy that failed");
  return is_right ? 0 : 1;
}
