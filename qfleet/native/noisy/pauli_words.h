// Pauli coefficients of states and of density matrices, and their derivatives, word by word.
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

// tr(P rho) of the words with this flip, by their z, for the entries rho[x][x ^ flip] by x.
std::vector<double> WordsOfEntries(const std::vector<Complex>& entries, int64_t flip, int32_t live);

// The entries [x ^ flip][x] of sum_z weights[z] P, by x below 2**live, which repeat above.
std::vector<Complex> EntriesOfWords(int64_t flip, int32_t live, const std::vector<double>& weights);

// out += sum_z weights[z] P psi, for the words with this flip.
void AddWords(const std::vector<Complex>& psi, int64_t flip, int32_t live,
              const std::vector<double>& weights, std::vector<Complex>* out);

}  // namespace qfleet

#endif  // QFLEET_PAULI_WORDS_H_
