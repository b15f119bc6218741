// Pauli coefficients of state vectors, and their derivatives, word by word.
//
// A word is P|x> = i^|flip & z| (-1)^|x & z| |x ^ flip>: X where a bit is in `flip` only, Z where
// it is in `z` only, Y where it is in both. All words of one flip are one Walsh-Hadamard transform.
#ifndef QFLEET_PAULI_WORDS_H_
#define QFLEET_PAULI_WORDS_H_

#include <cstdint>
#include <vector>

#include "program/program.h"

namespace qfleet {

// The index of a word among the Pauli coefficients of a density matrix (noisy_program.h).
int64_t WordIndex(int64_t flip, int64_t z);

// <psi|P|psi> of the words with this flip, by their z; both are below 2**live.
std::vector<double> WordsOfFlip(const std::vector<Complex>& psi, int64_t flip, int32_t live);

// out += sum_z weights[z] P psi, for the words with this flip.
void AddWords(const std::vector<Complex>& psi, int64_t flip, int32_t live,
              const std::vector<double>& weights, std::vector<Complex>* out);

}  // namespace qfleet

#endif  // QFLEET_PAULI_WORDS_H_
