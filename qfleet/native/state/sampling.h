// Random samples of the basis states of state vectors.
#ifndef QFLEET_SAMPLING_H_
#define QFLEET_SAMPLING_H_

#include <cstdint>

#include "cuda/shots.h"
#include "state/engine.h"

namespace qfleet {

// Draws samples[shots] from |amplitude|**2 of state[amplitudes] (re, im). Shot i of example b
// depends on the seed, b and i only. Throws std::invalid_argument if the state has no finite norm.
template <class T>
void SampleState(const T* state, int64_t amplitudes, uint64_t seed, int64_t example, int64_t shots,
                 const Parallel& parallel, int64_t* samples);

// Throws std::invalid_argument unless the sum of a state's probabilities is finite and not 0.
void RequireNorm(double sum);

}  // namespace qfleet

#endif  // QFLEET_SAMPLING_H_
