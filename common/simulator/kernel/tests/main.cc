// Runs the tests whose names are given, or all; 0 if they hold. TensorFlow is not needed.
// `--light`, for emulated processors, takes fewer and smaller circuits.
#include <chrono>
#include <cstdio>
#include <exception>
#include <string>
#include <vector>

#include "tests.h"

namespace {

struct Test {
  const char* name;
  const char* promise;
  void (*run)(bool light);
};

constexpr Test kTests[] = {
    {"reference", "the tests' own gradients are the differences of their values",
     qfleet::tests::ReferenceGradients},
    {"small", "values, gradients and states are right for any batch, threads and instruction set",
     qfleet::tests::SmallCircuits},
    {"wide", "so they are where chunks are copied together and threads share a state",
     qfleet::tests::WideCircuits},
    {"spans", "so they are by the few states that span a batch, where there are few",
     qfleet::tests::SubspaceCircuits},
    {"edges", "so they are without blocks, exponents, readouts or strings",
     qfleet::tests::EmptyPrograms},
    {"behind", "no call leaves anything to the next one, not even NaN",
     qfleet::tests::IndependentCalls},
    {"callers", "several threads may call at once", qfleet::tests::ConcurrentCalls},
    {"damaged",
     "a damaged program is refused, or can be run; it never takes memory it has no use for",
     qfleet::tests::CorruptPrograms},
    {"huge", "indices, sizes and offsets are right up to 40 qubits", qfleet::tests::LargeIndices},
    {"large", "26 qubits (16 in light tests) have the values and gradients of their product state",
     qfleet::tests::LargeState},
};

}  // namespace

int main(int count, char** arguments) {
  bool light = false;
  std::vector<std::string> needs_gradient;
  for (int i = 1; i < count; ++i) {
    if (std::string(arguments[i]) == "--light")
      light = true;
    else
      needs_gradient.push_back(arguments[i]);
  }
  int ran = 0, failed = 0;
  for (const Test& test : kTests) {
    bool chosen = needs_gradient.empty();
    for (const std::string& name : needs_gradient) chosen |= name == test.name;
    if (!chosen) continue;
    ++ran;
    const auto start = std::chrono::steady_clock::now();
    std::string why;
    try {
      test.run(light);
    } catch (const std::exception& error) {
      why = error.what();
      ++failed;
    }
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
    std::printf("%s %s: %s (%.1f s)\n", why.empty() ? "ok  " : "FAIL", test.name, test.promise,
                seconds.count());
    if (!why.empty()) std::printf("     %s\n", why.c_str());
    std::fflush(stdout);
  }
  if (ran < static_cast<int>(needs_gradient.size())) std::printf("no such test\n");
  return failed || ran < static_cast<int>(needs_gradient.size()) || !ran;
}
