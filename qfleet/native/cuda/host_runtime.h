// What the kernels and their launches need of the host executor. Included by runtime.h.
#ifndef QFLEET_CUDA_HOST_RUNTIME_H_
#define QFLEET_CUDA_HOST_RUNTIME_H_

#include <cstdlib>
#include <cstring>
#include <new>

#include "device_facts.h"
#include "failures.h"
#include "fences.h"
#include "host_functions.h"
#include "host_memory.h"

namespace qfleet {
namespace device {

#define QFLEET_NOINLINE inline

constexpr bool kIsHostExecutor = true;

inline void RequireDevice(int32_t device) { RequireNumber(device, 1); }
inline void UseDevice(int32_t) {}
inline DeviceFacts FactsOf(int32_t) {
  DeviceFacts facts;
  facts.name = "host executor";
  facts.multiprocessors = 2;
  facts.shared_bytes = 32 << 10;  // small, so that tests reach wide states with few qubits
  return facts;
}
inline void FreeMemory(int64_t* free_bytes, int64_t* total_bytes) {
  *total_bytes = HostMemory::Total();
  *free_bytes = *total_bytes - HostMemory::used;
}
inline Stream MakeStream() { return 0; }
inline void EndStream(Stream) {}
inline void* AllocateOnDevice(int64_t bytes) { return HostMemory::Allocate(bytes); }
inline void FreeOnDevice(void* data) { HostMemory::Free(data); }
inline void* AllocatePinned(int64_t bytes) { return ::operator new(bytes); }
inline void FreePinned(void* data) { ::operator delete(data); }
inline void CopyToDevice(void* to, const void* from, int64_t bytes, Stream) {
  HostRecorder::RunOrKeep([=] { CopyBytes(to, from, bytes); });
}
inline void CopyToHost(void* to, const void* from, int64_t bytes, Stream) {
  HostRecorder::RunOrKeep([=] { CopyBytes(to, from, bytes); });
}
inline void FillZero(void* data, int64_t bytes, Stream) {
  HostRecorder::RunOrKeep([=] { std::memset(data, 0, bytes); });
}
inline void Synchronize(Stream) {
  if (std::getenv("HOST_EXECUTOR_LOST"))
    throw FailureOf(Cause::kLost, "the device failed", "HOST_EXECUTOR_LOST is set");
}

}  // namespace device
}  // namespace qfleet

#endif  // QFLEET_CUDA_HOST_RUNTIME_H_
