// Run-time dispatch to the widest instruction set that this machine supports.
#include "kernels.h"

namespace qfleet {

#define QFLEET_DECLARE(set)             \
  namespace set {                       \
  extern const Kernels<float> kFloat;   \
  extern const Kernels<double> kDouble; \
  }
QFLEET_DECLARE(baseline)
#ifdef __x86_64__
QFLEET_DECLARE(avx2)
QFLEET_DECLARE(avx512)
#endif

namespace {

enum class InstructionSet { kBaseline, kAvx2, kAvx512 };

InstructionSet DetectInstructionSet() {
#ifdef __x86_64__
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
      __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512cd"))
    return InstructionSet::kAvx512;
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
      __builtin_cpu_supports("bmi2"))
    return InstructionSet::kAvx2;
#endif
  return InstructionSet::kBaseline;
}

}  // namespace

template <>
const Kernels<float>& BestKernels<float>() {
  switch (DetectInstructionSet()) {
#ifdef __x86_64__
    case InstructionSet::kAvx512:
      return avx512::kFloat;
    case InstructionSet::kAvx2:
      return avx2::kFloat;
#endif
    default:
      return baseline::kFloat;
  }
}

template <>
const Kernels<double>& BestKernels<double>() {
  switch (DetectInstructionSet()) {
#ifdef __x86_64__
    case InstructionSet::kAvx512:
      return avx512::kDouble;
    case InstructionSet::kAvx2:
      return avx2::kDouble;
#endif
    default:
      return baseline::kDouble;
  }
}

const char* InstructionSetName() {
  switch (DetectInstructionSet()) {
    case InstructionSet::kAvx512:
      return "AVX-512";
    case InstructionSet::kAvx2:
      return "AVX2";
    default:
      return "baseline";
  }
}

}  // namespace qfleet
