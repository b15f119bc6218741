// Random samples of the basis states of state vectors.
#ifndef QFLEET_SAMPLING_H_
#define QFLEET_SAMPLING_H_

#include <cstdint>
#include <functional>

#include "state/engine.h"

namespace qfleet {

// A random number in [0, 1) of a shot.
using UniformOfShot = std::function<double(int64_t shot)>;

// Draws samples[shots] from |amplitude|**2 of state[amplitudes] (re, im). Throws
// std::invalid_argument if the state has no finite norm.
template <class T>
void SampleState(const T* state, int64_t amplitudes, const UniformOfShot& uniform, int64_t shots,
                 const Parallel& parallel, int64_t* samples);

// A uniform number in [0, 1) for a counter: Philox4x32-10 (Salmon et al., "Parallel random numbers:
// as easy as 1, 2, 3", 2011), keyed by the seed.
double UniformReal(uint64_t seed, uint64_t counter_low, uint64_t counter_high);

}  // namespace qfleet

#endif  // QFLEET_SAMPLING_H_
