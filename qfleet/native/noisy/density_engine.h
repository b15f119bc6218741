// Expectation values of a noisy circuit and their gradients, by evolution of density matrices.
//
// Channels cannot be undone, so the reverse pass needs the state before each block with a gradient.
// These states are kept if they fit; otherwise only every few, and the others are evolved again.
#ifndef QFLEET_DENSITY_ENGINE_H_
#define QFLEET_DENSITY_ENGINE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "cpu/aligned_array.h"
#include "noisy/density_matrices.h"
#include "program/stateless_engine.h"
#include "state/engine.h"

namespace qfleet {

template <class T>
class DensityEngine : public StatelessEngine<T> {
 public:
  DensityEngine(std::shared_ptr<const DensityProgram> program, const Kernels<T>& kernels);

  const DensityProgram& program() const override { return *program_; }
  int64_t WorkspaceBytes(const Batch& batch) const override;
  void Expectation(const Batch& batch, T* values) const override;
  void Gradient(const Batch& batch, const T* upstream, double* shared_gradients,
                double* per_example_gradients) const override;

 private:
  struct Layout {
    int64_t samples, tiles;  // examples per tile: 1, or as many as lanes
    bool shared_tile;        // all threads work on each tile
  };
  struct Call;
  struct Tile;
  struct Sums;

  Layout LayoutFor(const Batch& batch) const;
  // Blocks per segment of the reverse pass, whose states are in memory at a time.
  int64_t SegmentBlocks(const Batch& batch, const Layout& layout) const;
  int64_t Reals(const Layout& layout, int64_t live) const {
    return (int64_t{1} << 2 * live) * layout.samples;
  }
  // Columns of a block, and how the kernels find them.
  DensityView ViewOf(const DensityBlock& block, const Layout& layout, int64_t* columns) const;
  // to = the block's matrix, or its transpose, times `from`, which may be `to`.
  void Apply(const Tile& tile, int64_t block, bool transpose, const T* from, T* to) const;
  // Adds a block's derivatives to the sums, or gradients if examples have matrices of their own.
  void AddGradients(const Tile& tile, int64_t block, const T* lambda, const T* before, Sums* sums,
                    double* per_example_gradients) const;
  // Writes the density matrices before the first block: of |0>, or of the caller's states
  // or matrices.
  void Initialize(const Tile& tile, T* state) const;
  std::vector<Complex> InitialState(const Tile& tile, int64_t sample) const;
  // A tile's sample as a density matrix [2**N][2**N] (re, im), and the number of its reals.
  int64_t MatrixReals() const { return int64_t{2} << 2 * program_->qubits; }
  const T* InitialMatrix(const Tile& tile, int64_t sample) const;
  // A function of a flip: the Pauli coefficients of the words with it, of a tile's sample.
  std::function<std::vector<double>(int64_t)> Words(const Tile& tile, int64_t sample,
                                                    int32_t live) const;
  // Writes the gradients by the caller's states, given those by their Pauli coefficients.
  void StoreStateGradients(const Tile& tile, const T* lambda) const;
  void StoreMatrixGradients(const Tile& tile, const T* lambda) const;
  // Digits of the state before the first block; all higher ones are traced out.
  int32_t LiveAtStart() const {
    const std::vector<DensityBlock>& blocks = program_->blocks;
    return static_cast<int32_t>(blocks.empty() ? program_->live_at_end : blocks.front().live);
  }
  void ReverseTile(const Tile& tile, const T* upstream, int64_t segment, Sums* sums,
                   double* per_example_gradients) const;
  // Calls job(range, tile, parallel) for all tiles, in order within each of a fixed number of
  // ranges.
  template <class Job>
  void ForEachTile(const Call& call, const Job& job) const;

  std::shared_ptr<const DensityProgram> program_;
  const Kernels<T>& kernels_;
};

}  // namespace qfleet

#endif  // QFLEET_DENSITY_ENGINE_H_
