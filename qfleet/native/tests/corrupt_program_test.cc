// Corrupt programs: truncated, with out-of-range integers, or with random bytes.
#include <cstddef>
#include <limits>

#include "circuit_case.h"
#include "tests.h"

namespace qfleet {
namespace tests {
namespace {

// Returns the program, or null if it is rejected with std::invalid_argument.
std::shared_ptr<const Program> TryRead(const std::string& serialized) {
  // A copy of exactly this size, so that the sanitizer detects reads beyond the end.
  const std::string exact(serialized.data(), serialized.size());
  ResetLargestAllocation();
  std::shared_ptr<const Program> program;
  try {
    program = std::make_shared<Program>(exact);
  } catch (const std::invalid_argument&) {
  }
  CHECK(LargestAllocation() <= 64 * serialized.size() + 4096,
        "allocated " + std::to_string(LargestAllocation()) + " bytes");
  return program;
}

// A program that is accepted must run without a fault, whatever it computes.
void ReadAndRun(const std::string& serialized) {
  const std::shared_ptr<const Program> program = TryRead(serialized);
  if (!program || program->qubits > 8 || program->shared + program->per_example > 1000) return;
  try {
    StateVectorEngine<float> single_engine(program, BestKernels<float>());
    CallAll(*program, &single_engine, 3, 1, 0.3);
    StateVectorEngine<double> double_engine(program, baseline::kDouble);
    CallAll(*program, &double_engine, 1, 1, 0.3);
  } catch (const std::invalid_argument&) {  // a window too large for chunks of this type
  }
}

std::vector<Circuit> Circuits(Random* random) {
  CircuitSpec spec = {3, 4, 1};
  spec.initial = true;
  return {RandomCircuit(spec, random), RandomCircuit({6, 6, 2, 5}, random)};
}

bool IsRejected(const Circuit& circuit) { return !TryRead(circuit.Serialize()); }

// A valid circuit, which each test below corrupts in one respect.
Circuit ValidCircuit() {
  Random random(8);
  Circuit circuit = RandomCircuit({6, 3, 1, 5}, &random);
  CHECK(!IsRejected(circuit), "the valid circuit");
  return circuit;
}

}  // namespace

void CorruptPrograms(bool light) {
  Random random(7);
  for (const Circuit& circuit : Circuits(&random)) {
    const std::string serialized = circuit.Serialize();
    CHECK(TryRead(serialized), "as serialized");
    for (size_t length = 0; length < serialized.size(); ++length)
      CHECK(!TryRead(serialized.substr(0, length)), "truncated to " + std::to_string(length));
    CHECK(!TryRead(serialized + std::string(8, '\0')), "with a trailing number");

    // Replace each integer by others; the first is the number of integers.
    int64_t count = 0;
    std::memcpy(&count, serialized.data(), sizeof(count));
    const int64_t most = std::numeric_limits<int64_t>::max();
    for (int64_t at = 0; at <= count; at += light ? 5 : 1)
      for (int64_t value : {-most - 1, int64_t{-2}, int64_t{-1}, int64_t{0}, int64_t{1}, int64_t{2},
                            int64_t{3}, int64_t{5}, int64_t{40}, int64_t{41}, int64_t{0xffff},
                            most >> 32, int64_t{1} << 32, most / 16, most}) {
        std::string other = serialized;
        std::memcpy(&other[at * sizeof(value)], &value, sizeof(value));
        ReadAndRun(other);
      }
    for (int64_t trial = 0; trial < (light ? 100 : 2000); ++trial) {
      std::string other = serialized;
      for (int64_t left = RandomInt(&random, 1, 4); left > 0; --left)
        other[RandomInt(&random, 0, other.size() - 1)] ^=
            static_cast<char>(RandomInt(&random, 1, 255));
      ReadAndRun(other);
    }
    for (int64_t trial = 0; trial < 200; ++trial) {
      std::string random_bytes(8 * RandomInt(&random, 0, 40), '\0');
      for (char& byte : random_bytes) byte = static_cast<char>(RandomInt(&random, 0, 255));
      CHECK(!TryRead(random_bytes), "random bytes");
    }
  }

  Circuit circuit = ValidCircuit();
  circuit.blocks[0].bits = {6};
  CHECK(IsRejected(circuit), "a bit out of range");
  circuit = ValidCircuit();
  circuit.blocks[2].bits = {1, 1};
  CHECK(IsRejected(circuit), "a block with a repeated bit");
  circuit = ValidCircuit();
  circuit.windows[0].bits.pop_back();
  circuit.windows[0].bits.insert(circuit.windows[0].bits.begin(), 0);
  CHECK(IsRejected(circuit), "a window with a repeated bit");
  circuit = ValidCircuit();
  circuit.windows[0].count = 2;
  CHECK(IsRejected(circuit), "a window across the prefix's end");
  circuit = ValidCircuit();
  circuit.windows.pop_back();
  CHECK(IsRejected(circuit), "blocks without a window");
  circuit = ValidCircuit();
  circuit.windows.clear();
  circuit.prefix = 3;
  CHECK(IsRejected(circuit), "exponents in the prefix");
  circuit = ValidCircuit();
  for (Gate& gate : circuit.gates)
    if (gate.exponents.empty()) gate.projectors.push_back(gate.projectors[0]);
  CHECK(IsRejected(circuit), "two projectors without an exponent");
  circuit = ValidCircuit();
  circuit.strings[0].flip = 64;
  CHECK(IsRejected(circuit), "a string with a bit out of range");

  // A window with too many bits for a chunk, or without the bits of the lanes.
  for (bool lanes : {false, true}) {
    Circuit wide = RandomCircuit({17, 1, 0, 6}, &random);
    wide.blocks[0].bits = {16};
    wide.blocks[0].gates = {0};
    wide.gates = {RandomGate(2, kDense, {0}, &random)};
    wide.windows[0].bits.clear();
    for (int64_t bit = lanes ? 0 : 3; bit < 17; ++bit)
      if (bit != 9) wide.windows[0].bits.push_back(bit);
    bool rejected = false;
    try {
      const auto program = TryRead(wide.Serialize());
      if (program) {
        StateVectorEngine<double> engine(program, BestKernels<double>());
        CallAll(*program, &engine, 1, 1, 0.3);
      }
      rejected = !program;
    } catch (const std::invalid_argument&) {
      rejected = true;
    }
    CHECK(rejected, "a window larger than a chunk");
  }
}

}  // namespace tests
}  // namespace qfleet
