// The subspace spanned by the states of a batch.
//
// A factor with two eigenvalues is F(t) = alpha(t) F(0) + beta(t) F(half a period). So an example
// is a weighted sum of basis states, in each of which every per-example exponent is either 0 or
// half a period. If few exponents of an example differ from 0, a batch needs few basis states.
#ifndef QFLEET_SUBSPACE_H_
#define QFLEET_SUBSPACE_H_

#include <cstdint>
#include <vector>

#include "program/program.h"

namespace qfleet {

struct Subspace {
  std::vector<double> per_example;  // [states][F] exponents of the basis states
  std::vector<int64_t> first;       // [examples + 1] offsets of each example's terms
  std::vector<int64_t> state;       // per term: the basis state
  std::vector<Complex> weight;      // per term
  int64_t states = 0;
};

// Finds the subspace of a batch; `states` is 0 if it had more than `most` basis states, or if an
// exponent has more than two eigenvalues.
Subspace FindSubspace(const Program& program, const double* per_example, int64_t examples,
                      int64_t most);

}  // namespace qfleet

#endif  // QFLEET_SUBSPACE_H_
