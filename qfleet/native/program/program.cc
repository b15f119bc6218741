#include "program/program.h"

#include <algorithm>
#include <cmath>
#include <functional>

#include "program/fingerprint.h"
#include "program/program_reader.h"

namespace qfleet {
namespace {

constexpr int64_t kMaxQubits = 40;

Block ReadBlock(Reader* in, const Program& program) {
  Block block;
  block.qubits = static_cast<int32_t>(in->Int(1, 2));
  for (int q = 0; q < block.qubits; ++q) block.bits[q] = in->Int(0, program.qubits - 1);
  if (block.qubits == 2 && block.bits[0] == block.bits[1]) throw Corrupt();
  ReadItems(in, program, &block);
  for (bool* flags : {block.needs_gradient, block.needs_uncompute})
    for (int mode = 0; mode < 2; ++mode) flags[mode] = in->Int(0, 1) != 0;
  block.entries = in->Int(0, 0xffff);
  block.closure = in->Int(0, 0xffff);
  return block;
}

std::vector<ExponentSpectrum> ExponentSpectra(const Program& program) {
  // Only the exponents that blocks use: a stage of a program need not use all.
  std::vector<ExponentSpectrum> spectra;
  std::vector<int64_t> uses;
  for (const Block& block : program.blocks)
    for (int64_t item : block.items) {
      if (item >= 0) continue;
      const Factor& factor = program.factors[~item];
      const int64_t exponents = factor.exponents.size();
      for (int64_t e = 0; e < exponents; ++e) {
        if (factor.exponents[e] >= 0) continue;
        const size_t index = ~factor.exponents[e];
        if (index >= spectra.size()) {
          spectra.resize(index + 1, ExponentSpectrum{false, {0, 0}});
          uses.resize(index + 1, 0);
        }
        ExponentSpectrum& spectrum = spectra[index];
        ++uses[index];
        double low = factor.half_turns[e], high = factor.half_turns[e];
        for (int64_t k = 0; k < factor.spaces; ++k) {
          low = std::min(low, factor.half_turns[k * exponents + e]);
          high = std::max(high, factor.half_turns[k * exponents + e]);
        }
        spectrum = {low < high, {low, high}};
        for (int64_t k = 0; k < factor.spaces; ++k) {
          const double eigenvalue = factor.half_turns[k * exponents + e];
          spectrum.has_two_eigenvalues &= eigenvalue == low || eigenvalue == high;
        }
      }
    }
  for (size_t e = 0; e < spectra.size(); ++e) spectra[e].has_two_eigenvalues &= uses[e] == 1;
  return spectra;
}

std::vector<QubitWindow> ReadWindows(Reader* in, const Program& program) {
  const std::vector<Block>& blocks = program.blocks;
  std::vector<QubitWindow> windows;
  int64_t next = 0;
  for (int64_t left = in->Count(); left > 0; --left) {
    QubitWindow window;
    window.first = static_cast<int32_t>(next);
    window.count = static_cast<int32_t>(in->Int(1, blocks.size() - next));
    window.bits = in->Ints(in->Count(), 0, program.qubits - 1);
    if (!std::is_sorted(window.bits.begin(), window.bits.end(), std::less_equal<int64_t>()) ||
        (next < program.prefix && next + window.count > program.prefix))
      throw Corrupt();
    for (int64_t b = next; b < next + window.count; ++b)
      for (int q = 0; q < blocks[b].qubits; ++q)
        if (!std::binary_search(window.bits.begin(), window.bits.end(), blocks[b].bits[q]))
          throw Corrupt();
    next += window.count;
    windows.push_back(window);
  }
  if (!windows.empty() && next != static_cast<int64_t>(blocks.size())) throw Corrupt();
  return windows;
}

}  // namespace

void Factor::SetDerivatives() {
  const size_t entries = size * size;
  derivatives.clear();
  for (size_t first = 0; first < generators.size(); first += entries)
    for (size_t i = 0; i < entries; ++i) {
      const Complex h = generators[first + i % size * size + i / size];  // the transpose
      derivatives.insert(derivatives.end(), {-2 * M_PI * h.imag(), -2 * M_PI * h.real()});
    }
}

Program::Program(const std::string& serialized) {
  Reader in(serialized);
  in.Int(kFormat, kFormat);
  fingerprint = Fingerprint(serialized.data(), serialized.size(), 0);
  qubits = static_cast<int32_t>(in.Int(1, kMaxQubits));
  // The stages of one program share a list of exponents, of which each may use a part.
  shared = in.Int(0, kMaxExponents);
  per_example = in.Int(0, kMaxExponents);
  ReadGateTables(&in, this);
  for (int64_t left = in.Count(); left > 0; --left) blocks.push_back(ReadBlock(&in, *this));
  spectra = ExponentSpectra(*this);
  cost = 0;
  for (const Block& block : blocks)
    cost += 4.0 * __builtin_popcountll(block.entries) / block.size();
  prefix = in.Int(0, blocks.size());
  for (int64_t b = 0; b < prefix; ++b)
    for (int64_t item : blocks[b].items)
      if (item < 0 || sequences[item].has_exponents) throw Corrupt();
  windows = ReadWindows(&in, *this);
  ReadPauliGroups(&in, this);
  readouts = in.Count();
  weights = in.Reals(string_count * readouts);
  offsets = in.Reals(readouts);
  const int64_t start = in.Int(0, 2);
  if (start == 1) initial = in.Reals(int64_t{2} << qubits);
  takes_states = start == 2;
  if (takes_states && prefix) throw Corrupt();
  in.End();
}

}  // namespace qfleet
