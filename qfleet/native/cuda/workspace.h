// The memory that calls of a program use. Programs of a process lend it to one another: the memory
// of one that computes nothing is freed where another needs it.
#ifndef QFLEET_CUDA_WORKSPACE_H_
#define QFLEET_CUDA_WORKSPACE_H_

#include <mutex>
#include <set>
#include <string>

#include "memory.h"

namespace qfleet {
namespace device {

constexpr double kUsableMemory = 0.9;  // of the free memory of the device

inline int64_t DivideUp(int64_t a, int64_t b) { return (a + b - 1) / b; }

// A part of a sentence, such as "17 MiB of the device's memory, but 8 MiB are free, enough for ".
inline std::string Shortage(int64_t needed, int64_t usable) {
  constexpr int64_t kMebibyte = 1 << 20;
  return std::to_string(DivideUp(needed, kMebibyte)) + " MiB of the device's memory, but " +
         std::to_string(usable / kMebibyte) + " MiB are free, enough for ";
}

// What a call uses, one call at a time. Programs with and without tangents share it, so that the
// states of one do not keep memory from the other. The device must be in use.
struct Workspace {
  explicit Workspace(int32_t device) : device(device) {
    const std::lock_guard<std::mutex> lock(all_mutex);
    all.insert(this);
  }
  ~Workspace() {
    {
      const std::lock_guard<std::mutex> lock(all_mutex);
      all.erase(this);
    }
    EndStream(stream);
  }

  // Bytes that the owner of `mutex` can reserve in place of `held`.
  int64_t UsableBytes(const DeviceMemory& held) {
    int64_t free_bytes, total_bytes;
    FreeMemory(&free_bytes, &total_bytes);
    const int64_t bytes = free_bytes + held.bytes() + IdleBytes(device, this);
    return std::max<int64_t>(static_cast<int64_t>(kUsableMemory * static_cast<double>(bytes)), 0);
  }

  char* Reserve(DeviceMemory* memory, int64_t bytes) {
    try {
      return memory->Reserve(bytes);
    } catch (const DeviceError& error) {
      if (!error.is_memory) throw;
    }
    ReleaseIdle(device, this);
    return memory->Reserve(bytes);
  }

  static void ReleaseIdle(int32_t device, const Workspace* held = nullptr) {
    ForEachIdle(device, held, [](Workspace* idle) {
      for (DeviceMemory* memory : {&idle->inputs, &idle->results, &idle->scratch})
        memory->Release();
    });
  }

  // Bytes of the workspaces of a device that no call uses; the caller may hold one of them.
  static int64_t IdleBytes(int32_t device, const Workspace* held = nullptr) {
    int64_t bytes = 0;
    ForEachIdle(device, held, [&](Workspace* idle) {
      bytes += idle->inputs.bytes() + idle->results.bytes() + idle->scratch.bytes();
    });
    return bytes;
  }

  const int32_t device;
  std::mutex mutex;
  const Stream stream = MakeStream();
  PinnedMemory pinned_inputs, pinned_results;
  DeviceMemory inputs, results, scratch;

 private:
  template <class Visit>
  static void ForEachIdle(int32_t device, const Workspace* held, const Visit& visit) {
    const std::lock_guard<std::mutex> lock(all_mutex);
    for (Workspace* one : all) {
      if (one == held || one->device != device || !one->mutex.try_lock()) continue;
      const std::lock_guard<std::mutex> idle(one->mutex, std::adopt_lock);
      visit(one);
    }
  }

  inline static std::mutex all_mutex;
  inline static std::set<Workspace*> all;  // guarded by all_mutex
};

}  // namespace device
}  // namespace qfleet

#endif  // QFLEET_CUDA_WORKSPACE_H_
