// Random samples of the basis states of state vectors.
#ifndef QFLEET_SAMPLING_H_
#define QFLEET_SAMPLING_H_

#include <cstdint>

#include "state/engine.h"

namespace qfleet {

// Draws samples[shots] from |amplitude|**2 of state[amplitudes] (re, im). Shot i of example b
// depends on the seed, b and i only. Throws std::invalid_argument if the state has no finite norm.
template <class T>
void SampleState(const T* state, int64_t amplitudes, uint64_t seed, int64_t example, int64_t shots,
                 const Parallel& parallel, int64_t* samples);

// A uniform number in [0, 1) for a counter: Philox4x32-10 (Salmon et al., "Parallel random numbers:
// as easy as 1, 2, 3", 2011), keyed by the seed.
double UniformReal(uint64_t seed, uint64_t counter_low, uint64_t counter_high);

}  // namespace qfleet

#endif  // QFLEET_SAMPLING_H_
