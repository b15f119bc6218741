// Handlers for arrays in the memory of a CUDA device, made of handlers for the host's memory.
#ifndef QFLEET_JAX_CUDA_ARRAYS_H_
#define QFLEET_JAX_CUDA_ARRAYS_H_

#include <dlfcn.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "xla/ffi/api/ffi.h"

namespace qfleet {

using CudaStream = void*;  // CUstream

// The functions of the CUDA driver that copies need. JAX has loaded the driver before it calls a
// handler with a stream, so that nothing is linked to it.
struct CudaDriver {
  using Result = int;  // CUresult, 0 for success
  Result (*copy_to_host)(void* to, uintptr_t from, size_t bytes, CudaStream stream);
  Result (*copy_to_device)(uintptr_t to, const void* from, size_t bytes, CudaStream stream);
  Result (*synchronize)(CudaStream stream);

  // Null if the driver is not loaded.
  static const CudaDriver* Loaded() {
    static const std::unique_ptr<const CudaDriver> driver = Load();
    return driver.get();
  }

 private:
  static std::unique_ptr<const CudaDriver> Load() {
    void* library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
    if (!library) return nullptr;
    auto driver = std::make_unique<CudaDriver>();
    const auto find = [&](const char* name, auto* function) {
      *function = reinterpret_cast<std::remove_pointer_t<decltype(function)>>(dlsym(library, name));
      return *function != nullptr;
    };
    if (!find("cuMemcpyDtoHAsync_v2", &driver->copy_to_host) ||
        !find("cuMemcpyHtoDAsync_v2", &driver->copy_to_device) ||
        !find("cuStreamSynchronize", &driver->synchronize))
      return nullptr;
    return driver;
  }
};

// Copies of a call's arrays in the host's memory.
class HostCopies {
 public:
  HostCopies(const CudaDriver& driver, CudaStream stream) : driver_(driver), stream_(stream) {}

  xla::ffi::AnyBuffer Of(const xla::ffi::AnyBuffer& operand) {
    const xla::ffi::AnyBuffer copy = Allocate(operand);
    if (operand.size_bytes())
      failure_ |=
          driver_.copy_to_host(copy.untyped_data(), Place(operand), operand.size_bytes(), stream_);
    return copy;
  }
  xla::ffi::Result<xla::ffi::AnyBuffer> Of(xla::ffi::Result<xla::ffi::AnyBuffer>& result) {
    const xla::ffi::AnyBuffer copy = Allocate(*result);
    results_.emplace_back(*result, copy);
    return copy;
  }
  xla::ffi::Dictionary Of(const xla::ffi::Dictionary& attributes) { return attributes; }

  // Waits for the operands' copies; false if the device failed.
  bool Receive() { return Synchronize(); }
  // Returns the results to the device; false if it failed.
  bool Return() {
    for (const auto& [result, copy] : results_)
      if (copy.size_bytes())
        failure_ |=
            driver_.copy_to_device(Place(result), copy.untyped_data(), copy.size_bytes(), stream_);
    return Synchronize();  // the copies are freed next
  }

 private:
  bool Synchronize() {
    failure_ |= driver_.synchronize(stream_);
    return failure_ == 0;
  }
  static uintptr_t Place(const xla::ffi::AnyBuffer& buffer) {
    return reinterpret_cast<uintptr_t>(buffer.untyped_data());
  }
  xla::ffi::AnyBuffer Allocate(const xla::ffi::AnyBuffer& like) {
    memory_.emplace_back(like.size_bytes() / sizeof(std::max_align_t) + 1);
    XLA_FFI_Buffer buffer = {};
    buffer.struct_size = XLA_FFI_Buffer_STRUCT_SIZE;
    buffer.dtype = static_cast<XLA_FFI_DataType>(like.element_type());
    buffer.data = memory_.back().data();
    buffer.rank = static_cast<int64_t>(like.dimensions().size());
    buffer.dims = const_cast<int64_t*>(like.dimensions().begin());
    buffers_.push_back(buffer);
    return xla::ffi::AnyBuffer(&buffers_.back());
  }

  const CudaDriver& driver_;
  CudaStream stream_;
  CudaDriver::Result failure_ = 0;
  std::deque<std::vector<std::max_align_t>> memory_;
  std::deque<XLA_FFI_Buffer> buffers_;
  std::vector<std::pair<xla::ffi::AnyBuffer, xla::ffi::AnyBuffer>> results_;  // device, host
};

template <class... Operands>
auto OnCuda(xla::ffi::Error (*handler)(Operands...)) {
  return [handler](CudaStream stream, Operands... operands) {
    const auto failed = [](const char* message) {
      return xla::ffi::Error(xla::ffi::ErrorCode::kInternal, std::string("qfleet: ") + message);
    };
    const CudaDriver* driver = CudaDriver::Loaded();
    if (!driver) return failed("the CUDA driver is not loaded");
    HostCopies copies(*driver, stream);
    std::tuple<Operands...> on_host{copies.Of(operands)...};
    if (!copies.Receive()) return failed("operands could not be copied from the GPU");
    xla::ffi::Error error = std::apply(handler, on_host);
    if (error.failure()) return error;
    if (!copies.Return()) return failed("results could not be copied to the GPU");
    return error;
  };
}

}  // namespace qfleet

#endif  // QFLEET_JAX_CUDA_ARRAYS_H_
