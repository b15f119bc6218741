// A number by which arrays differ, for states that a caller hands back. Not against attacks.
#ifndef QFLEET_FINGERPRINT_H_
#define QFLEET_FINGERPRINT_H_

#include <cstdint>
#include <cstring>

namespace qfleet {

// Of whole words of 8 bytes; `seed` joins several arrays.
inline uint64_t Fingerprint(const void* data, int64_t bytes, uint64_t seed) {
  uint64_t value = seed ^ (0x9e3779b97f4a7c15ULL + static_cast<uint64_t>(bytes));
  const char* from = static_cast<const char*>(data);
  for (int64_t at = 0; at + 8 <= bytes; at += 8) {
    uint64_t word;
    std::memcpy(&word, from + at, sizeof(word));
    value = (value ^ word) * 0xff51afd7ed558ccdULL;
    value ^= value >> 32;
  }
  return value;
}

}  // namespace qfleet

#endif  // QFLEET_FINGERPRINT_H_
