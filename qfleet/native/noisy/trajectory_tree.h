// The trees of some trajectories of one example. Included by trajectory_engine.cc only.
#ifndef QFLEET_TRAJECTORY_TREE_H_
#define QFLEET_TRAJECTORY_TREE_H_

#include <algorithm>
#include <utility>
#include <vector>

#include "noisy/finite_shots.h"
#include "noisy/trajectory_engine.h"
#include "noisy/trajectory_order.h"
#include "noisy/trajectory_states.h"
#include "state/sampling.h"

namespace qfleet {

constexpr double kMaxGrowth = 4;  // of errors, between two states that are not computed backwards

// One call's matrices of shared blocks.
template <class T>
struct TrajectoryEngine<T>::Call {
  Call(const TrajectoryProgram& program, const Batch& batch_, uint64_t seed_)
      : batch(&batch_), seed(seed_), shared{batch_.shared}, matrices(program, shared) {
    for (const TrajectoryBlock& block : program.blocks)
      unitaries.push_back(block.per_example ? std::vector<SmallMatrix>()
                                            : BlockUnitaries(program, block, matrices, shared));
  }
  const Batch* batch;
  uint64_t seed;
  Exponents shared;
  SharedMatrices matrices;
  std::vector<std::vector<SmallMatrix>> unitaries;  // empty for per-example blocks
};

// Where a gradient goes, and what it is given.
template <class T>
struct TrajectoryEngine<T>::GradientTask {
  std::vector<double> string_weights;  // dL/d<string> of one trajectory
  int64_t max_copies;                  // of states, in each path
  GradientSums* sums;
  bool want_per_example;
  double* per_example_gradients;  // of the example, if wanted
  T* state_gradient;              // by the example's initial state; null if not wanted
};

template <class T>
class TrajectoryEngine<T>::Tree {
 public:
  Tree(const TrajectoryEngine& engine, const Call& call, int64_t example)
      : engine_(engine),
        program_(*engine.program_),
        call_(call),
        example_(example),
        exponents_(call.shared),
        states_(engine) {
    exponents_.per_example = call.batch->per_example + example * program_.per_example;
    exponents_.present = 1;
    key_ = ExampleKey(program_, exponents_);
    for (const TrajectoryBlock& block : program_.blocks)
      own_.push_back(block.per_example ? BlockUnitaries(program_, block, call.matrices, exponents_)
                                       : std::vector<SmallMatrix>());
  }

  // Adds the expectation value of each string and trajectory of a tree to sums[string].
  void AddValues(int64_t tree, double* sums) {
    State psi = states_.Initial(*call_.batch, example_);
    Forward(0, psi->data(), engine_.TrajectoriesOf(tree), sums);
    states_.Release(std::move(psi));
  }

  // Divides trajectories into parts to be measured, which have little in common.
  std::vector<std::vector<int32_t>> Divide(int64_t trajectories, int64_t parts) const {
    return DivideByHistory(program_, trajectories, parts, [&](int32_t one, size_t b, size_t item) {
      return Uniform(one, b, item);
    });
  }

  // Measures trajectories; the results of each are at the place of its number.
  void Measure(const std::vector<int32_t>& trajectories, const BitPermutation& permutation,
               const Measured<T>& results) {
    records_ = {results.records, program_.records};
    State psi = states_.Initial(*call_.batch, example_);
    Measure(0, psi->data(), trajectories, permutation, results);
    states_.Release(std::move(psi));
  }

  // Adds the gradients of a tree.
  void AddGradients(int64_t tree, const GradientTask& task) {
    task_ = &task;
    State psi = states_.Initial(*call_.batch, example_);
    State lambda = Gradient(0, psi->data(), engine_.TrajectoriesOf(tree));
    if (task.state_gradient)
      states_.AddStateGradient(*call_.batch, lambda->data(), task.state_gradient);
    states_.Release(std::move(psi));
    states_.Release(std::move(lambda));
  }

 private:
  using State = typename States::State;

  // The blocks from some block to the end, for trajectories that stay together or branch off.
  struct Path {
    std::vector<std::vector<Branch>> branches;  // the first of each block continues the path
    std::vector<SmallMatrix> inverses;          // of the first branch's matrix
    std::vector<bool> is_invertible;
    std::vector<std::pair<size_t, State>> copies;  // states before blocks, in order
    std::vector<int32_t> last;                     // the trajectories that stay to the end
  };

  const std::vector<SmallMatrix>& UnitariesOf(size_t b) const {
    return program_.blocks[b].per_example ? own_[b] : call_.unitaries[b];
  }

  std::vector<Branch> BranchesAt(size_t b, T* psi, const std::vector<int32_t>& trajectories) {
    const TrajectoryBlock& block = program_.blocks[b];
    SmallMatrix density;
    if (block.depends_on_state) {
      states_.Flush(psi);
      density = states_.Correlate(b, nullptr, psi, psi);
    }
    return DrawBranches(
        program_, block, engine_.operators_, UnitariesOf(b),
        block.depends_on_state ? &density : nullptr, trajectories, records_,
        [&](int32_t trajectory, size_t item) { return Uniform(trajectory, b, item); });
  }

  // A random number of a trajectory, for an item of a block.
  double Uniform(int32_t trajectory, size_t b, size_t item) const {
    const uint64_t counter = static_cast<uint64_t>(trajectory) << 32 |
                             static_cast<uint64_t>(b) << 8 | static_cast<uint64_t>(item & 0xff);
    return UniformReal(call_.seed, counter, key_ + (item >> 8));
  }

  // Queues a block for the path. Calls visit(state, trajectories) for those that branch off;
  // it flushes the state before it returns.
  template <class Visit>
  void Advance(size_t b, T* psi, std::vector<int32_t>* trajectories, const Visit& visit) {
    const std::vector<Branch> branches = BranchesAt(b, psi, *trajectories);
    if (branches.size() > 1) states_.Flush(psi);
    for (size_t i = 1; i < branches.size(); ++i) {
      State other = states_.CopyOf(psi);
      states_.Queue(b, branches[i].product, other->data());
      visit(other->data(), branches[i].trajectories);
      states_.Release(std::move(other));
    }
    states_.Queue(b, branches[0].product, psi);
    *trajectories = branches[0].trajectories;
  }

  void Forward(size_t b, T* psi, std::vector<int32_t> trajectories, double* sums) {
    for (; b < program_.blocks.size(); ++b)
      Advance(b, psi, &trajectories, [&](T* other, const std::vector<int32_t>& others) {
        Forward(b + 1, other, others, sums);
      });
    states_.Flush(psi);
    states_.Measure(psi, static_cast<double>(trajectories.size()), sums);
  }

  void Measure(size_t b, T* psi, std::vector<int32_t> trajectories,
               const BitPermutation& permutation, const Measured<T>& results) {
    for (; b < program_.blocks.size(); ++b)
      Advance(b, psi, &trajectories, [&](T* other, const std::vector<int32_t>& others) {
        Measure(b + 1, other, others, permutation, results);
      });
    states_.Flush(psi);
    if (results.states)
      for (const int32_t trajectory : trajectories)
        states_.Write(psi, permutation, results.states + trajectory * states_.ExampleReals());
    if (!results.samples) return;
    std::vector<int64_t> drawn(trajectories.size());
    const auto uniform = [&](size_t i) { return Uniform(trajectories[i], b, 0); };
    states_.Sample(psi, permutation, uniform, &drawn);
    for (size_t i = 0; i < drawn.size(); ++i) results.samples[trajectories[i]] = drawn[i];
  }

  // Evolves psi from block `first` to the end, and keeps what the way back needs.
  Path EvolvePath(size_t first, T* psi, std::vector<int32_t> trajectories) {
    Path path;
    double growth = 1;
    size_t spacing = 1;  // of copies in blocks, once they are many
    for (size_t b = first; b < program_.blocks.size(); ++b) {
      path.branches.push_back(BranchesAt(b, psi, trajectories));
      const Branch& branch = path.branches.back().front();
      path.inverses.emplace_back();
      path.is_invertible.push_back(true);
      if (!branch.is_unitary) {
        growth *= Invert(program_.blocks[b].size(), branch.product, &path.inverses.back());
        if (!(growth <= kMaxGrowth)) {
          growth = 1;
          path.is_invertible.back() = false;
          if (path.copies.empty() || b - path.copies.back().first >= spacing) {
            if (static_cast<int64_t>(path.copies.size()) == task_->max_copies) {
              spacing = 2 * std::max(spacing, b / path.copies.size());
              Thin(&path.copies);
            }
            states_.Flush(psi);
            path.copies.emplace_back(b, states_.CopyOf(psi));
          }
        }
      }
      states_.Queue(b, branch.product, psi);
      trajectories = branch.trajectories;
    }
    states_.Flush(psi);
    path.last = std::move(trajectories);
    return path;
  }

  // Drops every other copy, but not the first.
  void Thin(std::vector<std::pair<size_t, State>>* copies) {
    size_t kept = 0;
    for (size_t i = 0; i < copies->size(); ++i) {
      if (i % 2)
        states_.Release(std::move((*copies)[i].second));
      else if (i != kept++)
        (*copies)[kept - 1] = std::move((*copies)[i]);
    }
    copies->resize(kept);
  }

  // Computes psi before a block that has no inverse: from the last copy before it.
  void Restore(size_t first, size_t b, Path* path, T* psi) {
    while (path->copies.back().first > b) {
      states_.Release(std::move(path->copies.back().second));
      path->copies.pop_back();
    }
    std::copy_n(path->copies.back().second->data(), engine_.layout_.tile_reals, psi);
    for (size_t at = path->copies.back().first; at < b; ++at)
      states_.Apply(at, path->branches[at - first].front().product, false, psi);
  }

  // Returns lambda before block `first`, or before the first one with a gradient if that comes
  // later; given psi before block `first`, which is overwritten.
  State Gradient(size_t first, T* psi, std::vector<int32_t> trajectories) {
    // Nothing is computed backwards through the blocks before, but trajectories branch off there.
    const size_t first_needed =
        task_->state_gradient ? 0 : program_.first_needed[task_->want_per_example];
    for (; first < first_needed; ++first)
      Advance(first, psi, &trajectories, [&](T* other, const std::vector<int32_t>& others) {
        states_.Release(Gradient(first + 1, other, others));
      });
    states_.Flush(psi);
    Path path = EvolvePath(first, psi, std::move(trajectories));
    State lambda = states_.Acquire();
    states_.ApplyStrings(psi, static_cast<double>(path.last.size()), task_->string_weights,
                         lambda->data());
    for (size_t b = program_.blocks.size(); b-- > first;) {
      const std::vector<Branch>& branches = path.branches[b - first];
      const Branch& main = branches.front();
      if (main.is_unitary) {
        // Both states are uncomputed in one pass.
        const int32_t size = program_.blocks[b].size();
        const SmallMatrix after = states_.Correlate(b, &main.product, psi, lambda->data());
        AddBranch(b, main, Times(size, AdjointOf(size, main.product), after));
      } else {
        if (path.is_invertible[b - first])
          states_.Apply(b, path.inverses[b - first], false, psi);
        else
          Restore(first, b, &path, psi);
        AddBlock(b, main, psi, lambda->data());
      }
      for (size_t i = 1; i < branches.size(); ++i) {
        State other = states_.CopyOf(psi);
        states_.Apply(b, branches[i].product, false, other->data());
        State from_other = Gradient(b + 1, other->data(), branches[i].trajectories);
        states_.Release(std::move(other));
        AddBlock(b, branches[i], psi, from_other->data());
        const T* from = from_other->data();
        T* to = lambda->data();
        for (int64_t at = 0; at < engine_.layout_.tile_reals; ++at) to[at] += from[at];
        states_.Release(std::move(from_other));
      }
    }
    for (auto& copy : path.copies) states_.Release(std::move(copy.second));
    return lambda;
  }

  // Adds a branch's gradients, given psi before the block and lambda after it. Then uncomputes
  // lambda.
  void AddBlock(size_t b, const Branch& branch, T* psi, T* lambda) {
    if (program_.blocks[b].needs_gradient[task_->want_per_example])
      AddBranch(b, branch, states_.Correlate(b, nullptr, psi, lambda));
    states_.Apply(b, branch.product, true, lambda);
  }

  // Adds a branch's gradients, if the block has any.
  void AddBranch(size_t b, const Branch& branch, const SmallMatrix& correlation) {
    if (!program_.blocks[b].needs_gradient[task_->want_per_example]) return;
    BranchGradients(program_, program_.blocks[b], call_.matrices, exponents_, branch, correlation,
                    task_->want_per_example, &task_->sums->sequences, task_->sums->shared.data(),
                    task_->per_example_gradients);
  }

  const TrajectoryEngine& engine_;
  const TrajectoryProgram& program_;
  const Call& call_;
  int64_t example_;
  Exponents exponents_;
  uint64_t key_;
  std::vector<std::vector<SmallMatrix>> own_;
  States states_;
  const GradientTask* task_ = nullptr;
  Records records_;
};

}  // namespace qfleet

#endif  // QFLEET_TRAJECTORY_TREE_H_
