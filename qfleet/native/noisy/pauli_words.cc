#include "noisy/pauli_words.h"

namespace qfleet {
namespace {

// values[z] = sum_x (-1)^|x & z| values[x].
void WalshHadamard(std::vector<Complex>* values) {
  const int64_t size = static_cast<int64_t>(values->size());
  for (int64_t half = 1; half < size; half *= 2)
    for (int64_t first = 0; first < size; first += 2 * half)
      for (int64_t i = first; i < first + half; ++i) {
        const Complex a = (*values)[i], b = (*values)[i + half];
        (*values)[i] = a + b;
        (*values)[i + half] = a - b;
      }
}

Complex PowerOfI(int64_t power) {
  static const Complex kPowers[] = {{1, 0}, {0, 1}, {-1, 0}, {0, -1}};
  return kPowers[power % 4];
}

}  // namespace

int64_t WordIndex(int64_t flip, int64_t z) {
  int64_t index = 0;
  for (int32_t q = 0; (flip | z) >> q; ++q)
    index |= ((flip ^ z) >> q & 1) << 2 * q | (z >> q & 1) << (2 * q + 1);
  return index;
}

std::vector<double> WordsOfEntries(const std::vector<Complex>& entries, int64_t flip,
                                   int32_t live) {
  const int64_t size = int64_t{1} << live;
  std::vector<Complex> sums(size);
  for (int64_t x = 0; x < static_cast<int64_t>(entries.size()); ++x)
    sums[x & (size - 1)] += entries[x];
  WalshHadamard(&sums);
  std::vector<double> found(size);
  for (int64_t z = 0; z < size; ++z)
    found[z] = (PowerOfI(__builtin_popcountll(flip & z)) * sums[z]).real();
  return found;
}

std::vector<double> WordsOfFlip(const std::vector<Complex>& psi, int64_t flip, int32_t live) {
  std::vector<Complex> entries(psi.size());
  for (int64_t x = 0; x < static_cast<int64_t>(psi.size()); ++x)
    entries[x] = psi[x] * std::conj(psi[x ^ flip]);
  return WordsOfEntries(entries, flip, live);
}

std::vector<Complex> EntriesOfWords(int64_t flip, int32_t live,
                                    const std::vector<double>& weights) {
  std::vector<Complex> factors(int64_t{1} << live);
  for (int64_t z = 0; z < static_cast<int64_t>(factors.size()); ++z)
    factors[z] = weights[z] * PowerOfI(__builtin_popcountll(flip & z));
  WalshHadamard(&factors);
  return factors;
}

void AddWords(const std::vector<Complex>& psi, int64_t flip, int32_t live,
              const std::vector<double>& weights, std::vector<Complex>* out) {
  const int64_t size = int64_t{1} << live;
  const std::vector<Complex> factors = EntriesOfWords(flip, live, weights);
  for (int64_t x = 0; x < static_cast<int64_t>(psi.size()); ++x)
    (*out)[x ^ flip] += factors[x & (size - 1)] * psi[x];
}

}  // namespace qfleet
