// Memory that is aligned for vectors.
#ifndef QFLEET_ALIGNED_ARRAY_H_
#define QFLEET_ALIGNED_ARRAY_H_

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <new>

namespace qfleet {

constexpr int64_t kAlignmentBytes = 64;

template <class T>
class AlignedArray {
 public:
  explicit AlignedArray(int64_t count) : count_(count) {
    const int64_t bytes = count * static_cast<int64_t>(sizeof(T));
    const int64_t size = (bytes + kAlignmentBytes - 1) / kAlignmentBytes * kAlignmentBytes;
    data_.reset(
        static_cast<T*>(std::aligned_alloc(kAlignmentBytes, std::max(size, kAlignmentBytes))));
    if (!data_) throw std::bad_alloc();
  }
  T* data() { return data_.get(); }
  const T* data() const { return data_.get(); }
  int64_t size() const { return count_; }

 private:
  struct Free {
    void operator()(T* memory) const { std::free(memory); }
  };
  std::unique_ptr<T, Free> data_;
  int64_t count_;
};

}  // namespace qfleet

#endif  // QFLEET_ALIGNED_ARRAY_H_
