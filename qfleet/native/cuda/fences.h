// Fences between the arrays of a device's memory. With the address sanitizer, the host executor
// finds each access beyond an array, and what is read before it is written is NaN.
#ifndef QFLEET_CUDA_FENCES_H_
#define QFLEET_CUDA_FENCES_H_

#include <cstdint>
#include <cstring>

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#endif

namespace qfleet {
namespace device {

#ifdef __SANITIZE_ADDRESS__

constexpr int64_t kFenceBytes = 64 << 10;  // at least as far as a wrong place in a tile

// Allows the bytes of an array, and none from there to the next one.
inline void Enclose(char* array, int64_t bytes, int64_t distance) {
  __asan_unpoison_memory_region(array, bytes);
  __asan_poison_memory_region(array + bytes, distance - bytes);
}

// Allows memory that a call reserves, without what the call before it wrote.
inline void Forget(char* data, int64_t bytes) {
  __asan_unpoison_memory_region(data, bytes);
  std::memset(data, 0xff, bytes);
}

// Copies across fences.
__attribute__((no_sanitize("address"))) inline void CopyBytes(void* to, const void* from,
                                                              int64_t bytes) {
  volatile char* target = static_cast<volatile char*>(to);
  const char* source = static_cast<const char*>(from);
  for (int64_t i = 0; i < bytes; ++i) target[i] = source[i];
}

#else

constexpr int64_t kFenceBytes = 0;
inline void Enclose(char*, int64_t, int64_t) {}
inline void Forget(char*, int64_t) {}
inline void CopyBytes(void* to, const void* from, int64_t bytes) {
  if (bytes) std::memcpy(to, from, bytes);
}

#endif

}  // namespace device
}  // namespace qfleet

#endif  // QFLEET_CUDA_FENCES_H_
