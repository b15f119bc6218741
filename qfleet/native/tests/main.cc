// Runs the named tests, or all; exits with 0 if they pass. Does not need TensorFlow.
// `--light` uses fewer and smaller circuits, for emulated processors.
#include <chrono>
#include <cstdio>
#include <exception>
#include <string>
#include <vector>

#include "tests.h"

namespace {

struct Test {
  const char* name;
  const char* description;
  void (*run)(bool light);
};

constexpr Test kTests[] = {
    {"reference", "gradients of the reference equal finite differences",
     qfleet::tests::ReferenceGradients},
    {"small", "results are correct for any batch, threads and instruction set",
     qfleet::tests::SmallCircuits},
    {"wide", "results are correct with copied chunks and shared tiles",
     qfleet::tests::WideCircuits},
    {"subspace", "results are correct in the subspace of a batch", qfleet::tests::SubspaceCircuits},
    {"heisenberg", "results are correct with the last blocks applied to the observables",
     qfleet::tests::HeisenbergCircuits},
    {"heisenberg-choice", "large batches have the last blocks applied to the observables",
     qfleet::tests::HeisenbergChoice},
    {"empty", "results are correct without blocks, exponents, readouts or strings",
     qfleet::tests::EmptyPrograms},
    {"absent", "factors of exponents that are 0 are left out", qfleet::tests::AbsentFactors},
    {"independent", "a call does not affect later calls, even after NaN",
     qfleet::tests::IndependentCalls},
    {"concurrent", "several threads may call at once", qfleet::tests::ConcurrentCalls},
    {"hvp-reference", "Hessian-vector products of the reference equal finite differences",
     qfleet::tests::ReferenceHvps},
    {"hvp-small", "Hessian-vector products are correct for any batch, threads, instruction set",
     qfleet::tests::SmallHvps},
    {"hvp-wide", "Hessian-vector products are correct with copied chunks and shared tiles",
     qfleet::tests::WideHvps},
    {"hvp-empty", "Hessian-vector products without blocks, exponents, readouts or strings",
     qfleet::tests::EmptyHvps},
    {"hvp-differences", "Hessian-vector products equal differences of the engine's gradients",
     qfleet::tests::HvpsEqualDifferences},
    {"hvp-concurrent", "several threads may compute Hessian-vector products at once",
     qfleet::tests::ConcurrentHvps},
    {"hvp-c", "the C interface computes Hessian-vector products and checks their arguments",
     qfleet::tests::CInterfaceHvps},
    {"corrupt", "corrupt programs are rejected or run without a fault, and allocate little",
     qfleet::tests::CorruptPrograms},
    {"network", "results of a network are correct for any batch, threads and instruction set",
     qfleet::tests::NetworkResults},
    {"network-corrupt", "corrupt networks are rejected or run without a fault",
     qfleet::tests::CorruptNetworks},
    {"density", "noise has its known result for any width, batch, threads and instruction set",
     qfleet::tests::DensityResults},
    {"density-corrupt", "corrupt density programs are rejected or run without a fault",
     qfleet::tests::CorruptDensity},
    {"trajectories", "drawn operators have a known result for any width, batch and threads",
     qfleet::tests::TrajectoryResults},
    {"binomial", "binomial samples have the mean and the variance", qfleet::tests::BinomialMoments},
    {"trajectories-corrupt", "corrupt trajectory programs are rejected or run without a fault",
     qfleet::tests::CorruptTrajectories},
    {"measurements", "measurements and classical control have their known outcomes",
     qfleet::tests::Measurements},
    {"phases", "cosines and sines of half-turns are exact to the last place",
     qfleet::tests::HalfTurnPhases},
    {"matrices", "products of small matrices are correct for any samples",
     qfleet::tests::MatrixProducts},
    {"words", "matrices on Pauli words are correct", qfleet::tests::PauliWordMatrices},
    {"pulses",
     "products of exponentials equal a long Taylor series for any size and instruction set",
     qfleet::tests::PulseProducts},
    {"pulse-gradients", "gradients of pulses equal differences for any size and instruction set",
     qfleet::tests::PulseGradients},
    {"split", "states under small matrices and their seeds are correct for any levels and lanes",
     qfleet::tests::SplitStates},
    {"capi", "the C interface has correct results for any pool, alignment and number of threads",
     qfleet::tests::CInterface},
    {"fuzz", "the C interface returns a status for any arguments", qfleet::tests::RandomCalls},
    {"indices", "indices, sizes and offsets are correct up to 40 qubits",
     qfleet::tests::LargeIndices},
    {"large", "26 qubits (16 if light) have the results of their product state",
     qfleet::tests::LargeState},
    {"executor", "the host executor finds faults of kernels", qfleet::tests::KernelFaults},
    {"failures", "sentences of devices that cannot be used", qfleet::tests::DeviceFailures},
    {"device-banks", "lanes meet different banks of the shared memory", qfleet::tests::DeviceBanks},
    {"device-exchanges", "clusters read each amplitude from where it was",
     qfleet::tests::DeviceExchanges},
};

}  // namespace

int main(int count, char** arguments) {
  bool light = false;
  std::vector<std::string> selected_names;
  for (int i = 1; i < count; ++i) {
    if (std::string(arguments[i]) == "--light")
      light = true;
    else
      selected_names.push_back(arguments[i]);
  }
  int ran = 0, failed = 0;
  for (const Test& test : kTests) {
    bool selected = selected_names.empty();
    for (const std::string& name : selected_names) selected |= name == test.name;
    if (!selected) continue;
    ++ran;
    const auto start = std::chrono::steady_clock::now();
    std::string failure;
    try {
      test.run(light);
    } catch (const std::exception& error) {
      failure = error.what();
      ++failed;
    }
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
    std::printf("%s %s: %s (%.1f s)\n", failure.empty() ? "ok  " : "FAIL", test.name,
                test.description, seconds.count());
    if (!failure.empty()) std::printf("     %s\n", failure.c_str());
    std::fflush(stdout);
  }
  if (ran < static_cast<int>(selected_names.size())) std::printf("unknown test\n");
  return failed || ran < static_cast<int>(selected_names.size()) || !ran;
}
