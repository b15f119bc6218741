// The memory of the host executor: counted and limited like that of a device.
#ifndef QFLEET_CUDA_HOST_MEMORY_H_
#define QFLEET_CUDA_HOST_MEMORY_H_

#include <malloc.h>

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <new>

#include "failures.h"

namespace qfleet {
namespace device {

struct HostMemory {
  // The environment variable HOST_EXECUTOR_BYTES, or 2 GiB.
  static int64_t Total() {
    const char* const text = std::getenv("HOST_EXECUTOR_BYTES");
    return text ? std::atoll(text) : int64_t{1} << 31;
  }
  static void* Allocate(int64_t bytes) {
    if (used + bytes > Total()) throw FailureOf(Cause::kMemory, "the device's memory", "");
    void* const data = ::operator new(bytes);
    used += static_cast<int64_t>(malloc_usable_size(data));
    return data;
  }
  static void Free(void* data) {
    used -= static_cast<int64_t>(malloc_usable_size(data));
    ::operator delete(data);
  }

  inline static std::atomic<int64_t> used{0};
};

}  // namespace device
}  // namespace qfleet

#endif  // QFLEET_CUDA_HOST_MEMORY_H_
