// Memory of a device and of its host, which is freed with its owner.
#ifndef QFLEET_CUDA_MEMORY_H_
#define QFLEET_CUDA_MEMORY_H_

#include <algorithm>
#include <atomic>
#include <utility>
#include <vector>

#include "runtime.h"

namespace qfleet {
namespace device {

inline int64_t Aligned(int64_t bytes) { return (bytes + 255) / 256 * 256; }

// Grows when more is asked for, and loses its contents then.
template <void* (*ALLOCATE)(int64_t), void (*FREE)(void*)>
class Memory {
 public:
  Memory() = default;
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  ~Memory() { Release(); }

  char* Reserve(int64_t bytes) {
    if (bytes > bytes_) {
      Release();
      data_ = static_cast<char*>(ALLOCATE(bytes));
      bytes_ = bytes;
      allocation_ = ++allocations;
    }
    Forget(data_, bytes);
    return data_;
  }
  void Release() {
    if (data_) FREE(data_);
    data_ = nullptr;
    bytes_ = 0;
  }
  char* data() { return data_; }
  int64_t bytes() const { return bytes_; }
  // A number of its own for each allocation, even at an address that was used before.
  uint64_t allocation() const { return allocation_; }

 private:
  inline static std::atomic<uint64_t> allocations{0};

  char* data_ = nullptr;
  int64_t bytes_ = 0;
  uint64_t allocation_ = 0;
};

using DeviceMemory = Memory<AllocateOnDevice, FreeOnDevice>;
using PinnedMemory = Memory<AllocatePinned, FreePinned>;

// Divides a range of memory among arrays, whose places are known before it is allocated.
class Layout {
 public:
  template <class T>
  struct Array {
    int64_t offset = 0, count = 0;
    T* in(char* base) const {
      if (count > 0) Enclose(base + offset, bytes(), Distance(bytes()));
      return reinterpret_cast<T*>(base + offset);
    }
    int64_t bytes() const { return count * static_cast<int64_t>(sizeof(T)); }
  };
  template <class T>
  Array<T> Add(int64_t count) {
    Array<T> array;
    array.offset = bytes_;
    array.count = count;
    bytes_ += Distance(array.bytes());
    return array;
  }
  int64_t bytes() const { return bytes_; }

 private:
  // From an array to the next one.
  static int64_t Distance(int64_t bytes) { return Aligned(bytes) + kFenceBytes; }
  int64_t bytes_ = 0;
};

// Tables that are written once.
class DeviceTables {
 public:
  DeviceTables() = default;
  DeviceTables(const DeviceTables&) = delete;
  DeviceTables& operator=(const DeviceTables&) = delete;
  ~DeviceTables() {
    for (void* data : tables_) FreeOnDevice(data);
  }
  template <class T>
  const T* Add(const T* from, int64_t count, Stream stream) {
    const int64_t bytes = count * static_cast<int64_t>(sizeof(T));
    tables_.push_back(nullptr);
    tables_.back() = AllocateOnDevice(bytes ? bytes : 1);
    CopyToDevice(tables_.back(), from, bytes, stream);
    Synchronize(stream);  // `from` may be gone afterwards
    return static_cast<const T*>(tables_.back());
  }
  template <class T>
  const T* Add(const std::vector<T>& from, Stream stream) {
    return Add(from.data(), static_cast<int64_t>(from.size()), stream);
  }

 private:
  std::vector<void*> tables_;
};

}  // namespace device
}  // namespace qfleet

#endif  // QFLEET_CUDA_MEMORY_H_
