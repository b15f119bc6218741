// Serialized programs that tests write by hand.
#ifndef QFLEET_TESTS_PROGRAM_WORDS_H_
#define QFLEET_TESTS_PROGRAM_WORDS_H_

#include <cstdint>
#include <string>
#include <vector>

namespace qfleet {
namespace tests {

// Integers and reals, in the order of a writer in qfleet/compiler/.
struct Words {
  std::vector<int64_t> ints;
  std::vector<double> reals;

  // Appends the factor X**exponent.
  void AddPowerOfX(int64_t exponent);
  std::string Bytes() const;
};

// Calls everything for a program without states, which may be corrupt.
void TryAll(const std::string& serialized);

bool IsRejected(const Words& words);

// Calls everything for a valid program, for its beginnings, and with each integer replaced.
void TryCorrupted(const Words& valid, bool light);

}  // namespace tests
}  // namespace qfleet

#endif  // QFLEET_TESTS_PROGRAM_WORDS_H_
