// The basis state of a shot: the same steps on the CPU and on devices, so that equal states and
// seeds give equal samples.
#ifndef QFLEET_CUDA_SHOTS_H_
#define QFLEET_CUDA_SHOTS_H_

#include <cstdint>

#ifdef __CUDACC__
#define QFLEET_ANYWHERE __host__ __device__ inline
#else
#define QFLEET_ANYWHERE inline
#endif

namespace qfleet {

constexpr int64_t kSegmentAmplitudes = 256;  // a shot finds its segment, then adds up one segment

QFLEET_ANYWHERE int64_t SegmentCount(int64_t amplitudes) {
  return (amplitudes + kSegmentAmplitudes - 1) / kSegmentAmplitudes;
}

// A uniform number in [0, 1) for a counter: Philox4x32-10 (Salmon et al., "Parallel random numbers:
// as easy as 1, 2, 3", 2011), keyed by the seed.
QFLEET_ANYWHERE double UniformReal(uint64_t seed, uint64_t counter_low, uint64_t counter_high) {
  uint32_t word[4] = {static_cast<uint32_t>(counter_low), static_cast<uint32_t>(counter_low >> 32),
                      static_cast<uint32_t>(counter_high),
                      static_cast<uint32_t>(counter_high >> 32)};
  uint32_t key[2] = {static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)};
  for (int round = 0; round < 10; ++round) {
    const uint64_t first = uint64_t{0xD2511F53} * word[0], second = uint64_t{0xCD9E8D57} * word[2];
    word[0] = static_cast<uint32_t>(second >> 32) ^ word[1] ^ key[0];
    word[1] = static_cast<uint32_t>(second);
    word[2] = static_cast<uint32_t>(first >> 32) ^ word[3] ^ key[1];
    word[3] = static_cast<uint32_t>(first);
    key[0] += 0x9E3779B9;
    key[1] += 0xBB67AE85;
  }
  const uint64_t bits = uint64_t{word[1]} << 32 | word[0];
  return static_cast<double>(bits >> 11) * 0x1p-53;
}

template <class T>
QFLEET_ANYWHERE double Probability(const T* amplitude) {
  const double re = static_cast<double>(amplitude[0]), im = static_cast<double>(amplitude[1]);
  return re * re + im * im;
}

// The index after the last one of a segment.
QFLEET_ANYWHERE int64_t SegmentEnd(int64_t segment, int64_t amplitudes) {
  const int64_t end = (segment + 1) * kSegmentAmplitudes;
  return end < amplitudes ? end : amplitudes;
}

// The probabilities of a segment of state[amplitudes] (re, im), added up.
template <class T>
QFLEET_ANYWHERE double SegmentSum(const T* state, int64_t amplitudes, int64_t segment) {
  double sum = 0;
  for (int64_t i = segment * kSegmentAmplitudes; i < SegmentEnd(segment, amplitudes); ++i)
    sum += Probability(state + 2 * i);
  return sum;
}

// The number of ascending sums below `target`, and of those that equal it if `or_equal`.
QFLEET_ANYWHERE int64_t SumsBelow(const double* sums, int64_t count, double target, bool or_equal) {
  int64_t from = 0;
  while (count > 0) {
    const int64_t half = count / 2;
    const double sum = sums[from + half];
    if (sum < target || (or_equal && sum == target)) {
      from += half + 1;
      count -= half + 1;
    } else {
      count = half;
    }
  }
  return from;
}

// The first index whose sum of probabilities, including its own, is larger than `target`; the last
// index with a probability if rounding leaves none. sums[s] is the sum up to the end of segment s.
template <class T>
QFLEET_ANYWHERE int64_t FindShot(const T* state, int64_t amplitudes, const double* sums,
                                 double target) {
  const int64_t segments = SegmentCount(amplitudes);
  int64_t segment = SumsBelow(sums, segments, target, true);
  if (segment == segments) segment = SumsBelow(sums, segments, sums[segments - 1], false);
  double sum = segment ? sums[segment - 1] : 0.0;
  int64_t found = segment * kSegmentAmplitudes;
  for (int64_t index = found; index < SegmentEnd(segment, amplitudes); ++index) {
    const double probability = Probability(state + 2 * index);
    if (probability <= 0) continue;
    sum += probability;
    found = index;
    if (sum > target) break;
  }
  return found;
}

}  // namespace qfleet

#endif  // QFLEET_CUDA_SHOTS_H_
