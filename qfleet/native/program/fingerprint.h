// A number by which arrays differ, for states that a caller hands back. Not against attacks.
#ifndef QFLEET_FINGERPRINT_H_
#define QFLEET_FINGERPRINT_H_

#include <cstdint>
#include <cstring>

namespace qfleet {

// Of whole words of 8 bytes; `seed` joins several arrays.
inline uint64_t Fingerprint(const void* data, int64_t bytes, uint64_t seed) {
  const auto join = [](uint64_t value, uint64_t word) {
    value = (value ^ word) * 0xff51afd7ed558ccdULL;
    return value ^ value >> 32;
  };
  uint64_t value = seed ^ (0x9e3779b97f4a7c15ULL + static_cast<uint64_t>(bytes));
  const char* from = static_cast<const char*>(data);
  constexpr int64_t kWords = 4;  // at a time: a multiplication need not wait for the one before
  uint64_t words[kWords], chains[kWords] = {1, 2, 3, 4};
  int64_t at = 0;
  for (; at + static_cast<int64_t>(sizeof(words)) <= bytes; at += sizeof(words)) {
    std::memcpy(words, from + at, sizeof(words));
    for (int64_t i = 0; i < kWords; ++i) chains[i] = join(chains[i], words[i]);
  }
  for (uint64_t chain : chains) value = join(value, chain);
  for (; at + 8 <= bytes; at += 8) {
    std::memcpy(words, from + at, sizeof(words[0]));
    value = join(value, words[0]);
  }
  return value;
}

}  // namespace qfleet

#endif  // QFLEET_FINGERPRINT_H_
