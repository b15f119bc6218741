#include "state/sampling.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <vector>

namespace qfleet {
namespace {

constexpr int64_t kShotsPerPart = 256;
constexpr int64_t kShotNanoseconds = 200;

}  // namespace

void RequireNorm(double sum) {
  if (!(sum > 0) || std::isinf(sum))
    throw std::invalid_argument("a state has no finite norm: the exponents must be finite");
}

template <class T>
void SampleState(const T* state, int64_t amplitudes, uint64_t seed, int64_t example, int64_t shots,
                 const Parallel& parallel, int64_t* samples) {
  const int64_t segments = SegmentCount(amplitudes);
  std::vector<double> sums(segments);  // of all probabilities up to the end of each segment
  parallel(segments, kSegmentAmplitudes,
           [&](int64_t segment) { sums[segment] = SegmentSum(state, amplitudes, segment); });
  for (int64_t segment = 1; segment < segments; ++segment) sums[segment] += sums[segment - 1];
  RequireNorm(sums.back());
  const int64_t parts = (shots + kShotsPerPart - 1) / kShotsPerPart;
  parallel(parts, kShotsPerPart * kShotNanoseconds, [&](int64_t part) {
    const int64_t from = part * kShotsPerPart;
    for (int64_t shot = from; shot < std::min(from + kShotsPerPart, shots); ++shot)
      samples[shot] =
          FindShot(state, amplitudes, sums.data(), sums.back() * UniformReal(seed, shot, example));
  });
}

template void SampleState(const float*, int64_t, uint64_t, int64_t, int64_t, const Parallel&,
                          int64_t*);
template void SampleState(const double*, int64_t, uint64_t, int64_t, int64_t, const Parallel&,
                          int64_t*);

}  // namespace qfleet
