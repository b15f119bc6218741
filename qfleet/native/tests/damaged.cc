// Programs that no compiler wrote: cut short, with absurd numbers, with bytes changed.
#include <cstddef>
#include <limits>

#include "case.h"
#include "tests.h"

namespace qfleet {
namespace tests {
namespace {

// The program, or nothing if it is refused, which must be by std::invalid_argument.
std::shared_ptr<const Program> Read(const std::string& written) {
  // A copy of its own size, in which a read beyond the end is seen.
  const std::string exact(written.data(), written.size());
  WatchRequests();
  std::shared_ptr<const Program> program;
  try {
    program = std::make_shared<Program>(exact);
  } catch (const std::invalid_argument&) {
  }
  CHECK(LargestRequest() <= 64 * written.size() + 4096,
        "asked for " + std::to_string(LargestRequest()) + " bytes");
  return program;
}

// What is not refused must run without a fault, whatever it computes.
void ReadAndRun(const std::string& written) {
  const std::shared_ptr<const Program> program = Read(written);
  if (!program || program->qubits > 8 || program->shared + program->each > 1000) return;
  try {
    Sweep<float> single(program, BestKernels<float>());
    CallAll(*program, &single, 3, 1, 0.3);
    Sweep<double> twice(program, baseline::kDouble);
    CallAll(*program, &twice, 1, 1, 0.3);
  } catch (const std::invalid_argument&) {  // a window that its dtype has no room for
  }
}

std::vector<Circuit> Circuits(Random* random) {
  Wish wish = {3, 4, 1};
  wish.initial = true;
  return {RandomCircuit(wish, random), RandomCircuit({6, 6, 2, 5}, random)};
}

bool Refused(const Circuit& circuit) { return !Read(circuit.Written()); }

// The first three blocks of a whole circuit, without windows; a test breaks one thing of it.
Circuit Whole() {
  Random random(8);
  Circuit circuit = RandomCircuit({6, 3, 1, 5}, &random);
  CHECK(!Refused(circuit), "the whole circuit");
  return circuit;
}

}  // namespace

void DamagedPrograms(bool light) {
  Random random(7);
  for (const Circuit& circuit : Circuits(&random)) {
    const std::string written = circuit.Written();
    CHECK(Read(written), "as written");
    for (size_t length = 0; length < written.size(); ++length)
      CHECK(!Read(written.substr(0, length)), "cut to " + std::to_string(length));
    CHECK(!Read(written + std::string(8, '\0')), "with a number too many");

    // Each integer in turn replaced by absurd ones; the first says how many there are.
    int64_t count = 0;
    std::memcpy(&count, written.data(), sizeof(count));
    const int64_t most = std::numeric_limits<int64_t>::max();
    for (int64_t at = 0; at <= count; at += light ? 5 : 1)
      for (int64_t value : {-most - 1, int64_t{-2}, int64_t{-1}, int64_t{0}, int64_t{1}, int64_t{2},
                            int64_t{3}, int64_t{5}, int64_t{40}, int64_t{41}, int64_t{0xffff},
                            most >> 32, int64_t{1} << 32, most / 16, most}) {
        std::string other = written;
        std::memcpy(&other[at * sizeof(value)], &value, sizeof(value));
        ReadAndRun(other);
      }
    for (int64_t trial = 0; trial < (light ? 100 : 2000); ++trial) {
      std::string other = written;
      for (int64_t left = Draw(&random, 1, 4); left > 0; --left)
        other[Draw(&random, 0, other.size() - 1)] ^= static_cast<char>(Draw(&random, 1, 255));
      ReadAndRun(other);
    }
    for (int64_t trial = 0; trial < 200; ++trial) {
      std::string noise(8 * Draw(&random, 0, 40), '\0');
      for (char& byte : noise) byte = static_cast<char>(Draw(&random, 0, 255));
      CHECK(!Read(noise), "noise");
    }
  }

  Circuit broken = Whole();
  broken.blocks[0].bits = {6};
  CHECK(Refused(broken), "a bit that there is not");
  broken = Whole();
  broken.blocks[2].bits = {1, 1};
  CHECK(Refused(broken), "a block on one bit twice");
  broken = Whole();
  broken.windows[0].bits.pop_back();
  broken.windows[0].bits.insert(broken.windows[0].bits.begin(), 0);
  CHECK(Refused(broken), "a window with a bit twice");
  broken = Whole();
  broken.windows[0].count = 2;
  CHECK(Refused(broken), "a window across the prefix's end");
  broken = Whole();
  broken.windows.pop_back();
  CHECK(Refused(broken), "blocks without a window");
  broken = Whole();
  broken.windows.clear();
  broken.prefix = 3;
  CHECK(Refused(broken), "exponents in the prefix");
  broken = Whole();
  broken.strings[0].flip = 64;
  CHECK(Refused(broken), "a string on a bit that there is not");

  // More bits, or not the lanes' bits, than a chunk has room for.
  for (bool lanes : {false, true}) {
    Circuit wide = RandomCircuit({17, 1, 0, 6}, &random);
    wide.blocks[0].bits = {16};
    wide.blocks[0].gates = {0};
    wide.gates = {RandomGate(2, kDense, {0}, &random)};
    wide.windows[0].bits.clear();
    for (int64_t bit = lanes ? 0 : 3; bit < 17; ++bit)
      if (bit != 9) wide.windows[0].bits.push_back(bit);
    bool refused = false;
    try {
      const auto program = Read(wide.Written());
      if (program) {
        Sweep<double> sweep(program, BestKernels<double>());
        CallAll(*program, &sweep, 1, 1, 0.3);
      }
      refused = !program;
    } catch (const std::invalid_argument&) {
      refused = true;
    }
    CHECK(refused, "a window larger than a chunk");
  }
}

}  // namespace tests
}  // namespace qfleet
