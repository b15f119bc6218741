// Run-time dispatch to the widest instruction set that this machine supports.
// The build defines QFLEET_AVX2 and QFLEET_AVX512 where it has their kernels.
#include "cpu/kernels.h"
#include "cpu/split_kernels.h"

#ifdef QFLEET_AVX2
#include <cpuid.h>
#endif

namespace qfleet {

#define QFLEET_DECLARE(set)             \
  namespace set {                       \
  extern const Kernels<float> kFloat;   \
  extern const Kernels<double> kDouble; \
  extern const MatrixKernels kMatrix;   \
  extern const PulseKernels kPulse;     \
  extern const SplitKernels kSplit;     \
  extern const WordKernels kWord;       \
  }
QFLEET_DECLARE(baseline)
QFLEET_DECLARE(avx2)
QFLEET_DECLARE(avx512)

namespace {

enum class InstructionSet { kBaseline, kAvx2, kAvx512 };

#ifdef QFLEET_AVX2
constexpr bool AllSet(uint32_t flags, uint32_t wanted) { return (flags & wanted) == wanted; }

// The registers that the operating system saves and restores (XCR0).
uint32_t SavedRegisters() {
  uint32_t low, high;
  asm("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return low;
}

// Asks the CPU itself: the compilers' own runtime libraries differ in __builtin_cpu_supports.
InstructionSet DetectInstructionSet() {
  constexpr uint32_t kVectors = 0x6;  // YMM registers
  uint32_t a, b, c, d;
  if (!__get_cpuid(1, &a, &b, &c, &d) || !AllSet(c, bit_FMA | bit_AVX | bit_OSXSAVE))
    return InstructionSet::kBaseline;
  const uint32_t saved = SavedRegisters();
  if (!__get_cpuid_count(7, 0, &a, &b, &c, &d) || !AllSet(b, bit_AVX2 | bit_BMI | bit_BMI2) ||
      !AllSet(saved, kVectors))
    return InstructionSet::kBaseline;
#ifdef QFLEET_AVX512
  constexpr uint32_t kWideVectors = 0xe6;  // ZMM and mask registers, too
  const uint32_t wide = bit_AVX512F | bit_AVX512DQ | bit_AVX512CD | bit_AVX512BW | bit_AVX512VL;
  if (AllSet(b, wide) && AllSet(saved, kWideVectors)) return InstructionSet::kAvx512;
#endif
  return InstructionSet::kAvx2;
}
#else
InstructionSet DetectInstructionSet() { return InstructionSet::kBaseline; }
#endif

InstructionSet BestInstructionSet() {
  static const InstructionSet best = DetectInstructionSet();
  return best;
}

}  // namespace

#if defined(QFLEET_AVX512)
#define QFLEET_BEST(table)        \
  switch (BestInstructionSet()) { \
    case InstructionSet::kAvx512: \
      return avx512::table;       \
    case InstructionSet::kAvx2:   \
      return avx2::table;         \
    default:                      \
      return baseline::table;     \
  }
#elif defined(QFLEET_AVX2)
#define QFLEET_BEST(table) \
  return BestInstructionSet() == InstructionSet::kAvx2 ? avx2::table : baseline::table;
#else
#define QFLEET_BEST(table) return baseline::table;
#endif

template <>
const Kernels<float>& BestKernels<float>() {
  QFLEET_BEST(kFloat)
}

template <>
const Kernels<double>& BestKernels<double>() {
  QFLEET_BEST(kDouble)
}

const MatrixKernels& BestMatrixKernels() { QFLEET_BEST(kMatrix) }
const PulseKernels& BestPulseKernels() { QFLEET_BEST(kPulse) }
const SplitKernels& BestSplitKernels() { QFLEET_BEST(kSplit) }
const WordKernels& BestWordKernels() { QFLEET_BEST(kWord) }

const char* InstructionSetName() {
  switch (BestInstructionSet()) {
    case InstructionSet::kAvx512:
      return "avx512";
    case InstructionSet::kAvx2:
      return "avx2";
    default:
      return "baseline";
  }
}

}  // namespace qfleet
