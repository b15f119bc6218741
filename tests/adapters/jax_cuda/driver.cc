// A CUDA driver whose device memory is the host's. Copies fail if the stream is null.
#include <cstdint>
#include <cstring>

#define EXPORT extern "C" __attribute__((visibility("default")))

EXPORT int cuMemcpyDtoHAsync_v2(void* to, uintptr_t from, size_t bytes, void* stream) {
  if (!stream) return 1;
  std::memcpy(to, reinterpret_cast<const void*>(from), bytes);
  return 0;
}
EXPORT int cuMemcpyHtoDAsync_v2(uintptr_t to, const void* from, size_t bytes, void* stream) {
  if (!stream) return 1;
  std::memcpy(reinterpret_cast<void*>(to), from, bytes);
  return 0;
}
EXPORT int cuStreamSynchronize(void* stream) { return stream ? 0 : 1; }
