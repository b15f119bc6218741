#include "device/device_fusion.h"

#include <algorithm>
#include <map>
#include <utility>

#include "program/heisenberg_cut.h"
#include "program/program_matrices.h"

namespace qfleet {
namespace {

constexpr double kExact = 1e-14;  // of an entry of a permutation

// Appends blocks to a program and joins them.
class Fusion {
 public:
  explicit Fusion(const Program& program) : source_(program), fused_(program) {
    fused_.blocks.clear();
    fused_.windows.clear();
    fused_.prefix = 0;
    waiting_.resize(program.qubits, kNone);
    last_.resize(program.qubits, kNone);
  }

  Program Run() {
    for (const Block& block : source_.blocks) {
      if (block.qubits == 1)
        AddSingle(block);
      else
        AddPair(block);
    }
    for (int64_t bit = 0; bit < fused_.qubits; ++bit) Emit(bit);
    MarkUncomputed();
    RemoveUnusedGates(&fused_);
    return std::move(fused_);
  }

 private:
  static constexpr int64_t kNone = -1;

  // A block on one qubit joins the block on two qubits before it, or waits for the one after it.
  void AddSingle(const Block& block) {
    const int64_t bit = block.bits[0];
    if (waiting_[bit] != kNone) {
      Join(block, &singles_[waiting_[bit]]);
    } else if (last_[bit] != kNone) {
      Block& pair = fused_.blocks[last_[bit]];
      Join(Widened(block, pair.bits), &pair);
    } else {
      waiting_[bit] = static_cast<int64_t>(singles_.size());
      singles_.push_back(block);
    }
  }

  void AddPair(const Block& block) {
    if (PermutationOf(source_, block)) {
      for (int64_t bit : block.bits) Emit(bit);
      for (int64_t bit : block.bits) last_[bit] = kNone;
      fused_.blocks.push_back(block);
      return;
    }
    Block pair = block;
    for (int64_t bit : block.bits) {
      if (waiting_[bit] == kNone) continue;
      Block first = Widened(singles_[waiting_[bit]], block.bits);
      waiting_[bit] = kNone;
      Join(pair, &first);
      pair = std::move(first);
    }
    Append(std::move(pair));
  }

  // Appends the block that waits on a qubit, together with another one that waits.
  void Emit(int64_t bit) {
    if (waiting_[bit] == kNone) return;
    const Block single = singles_[std::exchange(waiting_[bit], kNone)];
    for (int64_t other = 0; other < fused_.qubits; ++other) {
      if (waiting_[other] == kNone) continue;
      const int64_t bits[2] = {bit, other};
      Block pair = Widened(single, bits);
      Join(Widened(singles_[std::exchange(waiting_[other], kNone)], bits), &pair);
      Append(std::move(pair));
      return;
    }
    fused_.blocks.push_back(single);
  }

  void Append(Block pair) {
    for (int64_t bit : pair.bits) last_[bit] = static_cast<int64_t>(fused_.blocks.size());
    fused_.blocks.push_back(std::move(pair));
  }

  // Appends a block on the same qubits to `block`.
  static void Join(const Block& next, Block* block) {
    block->items.insert(block->items.end(), next.items.begin(), next.items.end());
    block->per_example |= next.per_example;
    for (int mode = 0; mode < 2; ++mode) block->needs_gradient[mode] |= next.needs_gradient[mode];
    block->entries = block->closure = block->qubits == 2 ? 0xffff : 0xf;
  }

  // A block on one of two qubits as a block on both.
  Block Widened(const Block& block, const int64_t (&bits)[2]) {
    Block wide = block;
    wide.qubits = 2;
    std::copy_n(bits, 2, wide.bits);
    const bool upper = block.bits[0] == bits[0];
    for (int64_t& item : wide.items)
      item = item >= 0 ? WidenedSequence(item, upper) : ~WidenedFactor(~item, upper);
    wide.entries = wide.closure = 0xffff;
    return wide;
  }

  int64_t WidenedSequence(int64_t sequence, bool upper) {
    const auto added = wide_sequences_.emplace(std::make_pair(sequence, upper),
                                               static_cast<int64_t>(fused_.sequences.size()));
    if (added.second) {
      FactorSequence wide = fused_.sequences[sequence];
      wide.size = 4;
      for (int64_t& factor : wide.factors) factor = WidenedFactor(factor, upper);
      fused_.sequences.push_back(std::move(wide));
    }
    return added.first->second;
  }

  int64_t WidenedFactor(int64_t factor, bool upper) {
    const auto added = wide_factors_.emplace(std::make_pair(factor, upper),
                                             static_cast<int64_t>(fused_.factors.size()));
    if (added.second) {
      Factor wide = fused_.factors[factor];
      wide.size = 4;
      wide.projectors = TimesIdentity(wide.projectors, upper);
      wide.generators = TimesIdentity(wide.generators, upper);
      wide.SetDerivatives();
      fused_.factors.push_back(std::move(wide));
    }
    return added.first->second;
  }

  // The Kronecker products of 2 x 2 matrices with the identity, which comes second for `upper`.
  static std::vector<Complex> TimesIdentity(const std::vector<Complex>& matrices, bool upper) {
    std::vector<Complex> wide(4 * matrices.size());
    for (size_t at = 0; at < matrices.size(); ++at) {
      const size_t matrix = at / 4, row = at % 4 / 2, col = at % 2;
      for (size_t same = 0; same < 2; ++same) {
        const size_t wide_row = upper ? 2 * row + same : 2 * same + row;
        const size_t wide_col = upper ? 2 * col + same : 2 * same + col;
        wide[16 * matrix + 4 * wide_row + wide_col] = matrices[at];
      }
    }
    return wide;
  }

  // A block is uncomputed if an earlier block on its light cone, or the initial states, need a
  // gradient.
  void MarkUncomputed() {
    for (int mode = 0; mode < 2; ++mode) {
      int64_t before = fused_.takes_states ? -1 : 0;  // bits that earlier gradients depend on
      for (Block& block : fused_.blocks) {
        int64_t bits = 0;
        for (int32_t q = 0; q < block.qubits; ++q) bits |= int64_t{1} << block.bits[q];
        block.needs_uncompute[mode] = (before & bits) != 0;
        if (block.needs_gradient[mode] || block.needs_uncompute[mode]) before |= bits;
      }
    }
  }

  const Program& source_;
  Program fused_;
  std::vector<Block> singles_;
  std::vector<int64_t> waiting_;  // for each bit, of singles_
  std::vector<int64_t> last_;     // for each bit, the block on two qubits that a single may join
  std::map<std::pair<int64_t, bool>, int64_t> wide_sequences_, wide_factors_;
};

}  // namespace

Program FuseForDevice(const Program& program) { return Fusion(program).Run(); }

std::optional<std::array<int32_t, 4>> PermutationOf(const Program& program, const Block& block) {
  if (block.qubits != 2 || block.per_example) return std::nullopt;
  for (int64_t item : block.items)
    if (program.sequences[item].has_exponents) return std::nullopt;
  std::array<int32_t, 4> image = {};
  const auto times = [&](const std::vector<Complex>& a, const std::vector<Complex>& b) {
    std::vector<Complex> product(16);
    for (int i = 0; i < 4; ++i)
      for (int j = 0; j < 4; ++j)
        for (int m = 0; m < 4; ++m) product[4 * i + j] += a[4 * i + m] * b[4 * m + j];
    return product;
  };
  std::vector<Complex> matrix(16);
  for (int i = 0; i < 4; ++i) matrix[5 * i] = 1;
  for (int64_t item : block.items)
    for (int64_t factor : program.sequences[item].factors)
      matrix = times(program.factors[factor].projectors, matrix);
  for (int32_t col = 0; col < 4; ++col) {
    int32_t ones = 0;
    for (int32_t row = 0; row < 4; ++row) {
      const Complex entry = matrix[4 * row + col];
      if (std::abs(entry - 1.0) < kExact) {
        image[col] = row;
        ++ones;
      } else if (std::abs(entry) > kExact) {
        return std::nullopt;
      }
    }
    if (ones != 1) return std::nullopt;
  }
  return image;
}

}  // namespace qfleet
