// Records the largest allocation, so that tests see counts of corrupt programs that are too large.
#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <new>

#include "testing.h"

namespace {
std::atomic<size_t> largest{0};
}

void* operator new(size_t size) {
  size_t seen = largest;
  while (size > seen && !largest.compare_exchange_weak(seen, size)) continue;
  if (void* memory = std::malloc(std::max<size_t>(size, 1))) return memory;
  throw std::bad_alloc();
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, size_t) noexcept { std::free(memory); }

namespace qfleet {
namespace tests {

void ResetLargestAllocation() { largest = 0; }
size_t LargestAllocation() { return largest; }

}  // namespace tests
}  // namespace qfleet
