#include "noisy/trajectory_engine.h"

#include <numeric>

#include "noisy/finite_shots.h"
#include "noisy/trajectory_tree.h"
#include "state/engine_internal.h"

namespace qfleet {
namespace {

// Trajectories of a tree. More of them share more blocks, fewer keep more threads at work.
constexpr int64_t kTreeTrajectories = 16;
constexpr int64_t kMaxTreeBytes = int64_t{256} << 20;  // of one state per trajectory
constexpr int64_t kMaxCopyBytes = int64_t{4} << 30;
constexpr int64_t kMaxJobs = 64;  // of an example
constexpr int64_t kMeasuredTreesPerThread = 2;

int64_t CeilDivide(int64_t a, int64_t b) { return (a + b - 1) / b; }

}  // namespace

template <class T>
TrajectoryEngine<T>::TrajectoryEngine(std::shared_ptr<const TrajectoryProgram> program,
                                      const Kernels<T>& kernels)
    : program_(std::move(program)),
      kernels_(kernels),
      layout_(ChooseTileLayout(program_->qubits, kernels.lanes, sizeof(T), 1, 1)),
      plan_(MakeKernelPlan(program_->states, layout_, kernels.lanes, Region::kForward)),
      operators_(*program_) {
  const std::vector<TrajectoryBlock>& blocks = program_->blocks;
  depends_on_state_ = std::any_of(blocks.begin(), blocks.end(),
                                  [](const TrajectoryBlock& b) { return b.depends_on_state; });
  tree_trajectories_ = std::clamp<int64_t>(kMaxTreeBytes / StateBytes(), 1, kTreeTrajectories);
  trees_ = CeilDivide(program_->trajectories, tree_trajectories_);
  jobs_ = std::min(trees_, kMaxJobs);
  levels_ = 1 + Log2(std::min(tree_trajectories_, program_->trajectories));
}

template <class T>
std::vector<int32_t> TrajectoryEngine<T>::TrajectoriesOf(int64_t tree) const {
  const int64_t first = tree * tree_trajectories_;
  std::vector<int32_t> trajectories(std::min(tree_trajectories_, program_->trajectories - first));
  std::iota(trajectories.begin(), trajectories.end(), static_cast<int32_t>(first));
  return trajectories;
}

template <class T>
int64_t TrajectoryEngine<T>::MaxCopies(const Batch& batch) const {
  const int64_t paths = std::min(batch.size * jobs_, batch.threads) * levels_;
  return std::max(kLeastCopies, std::min(batch.memory_limit, kMaxCopyBytes) / StateBytes() / paths);
}

template <class T>
int64_t TrajectoryEngine<T>::WorkspaceBytes(const Batch& batch) const {
  if (batch.size == 0) return 0;
  const TrajectoryProgram& program = *program_;
  // psi, lambda and copies of each path. There are few copies, unless many blocks have no inverse.
  int64_t copies = 0;
  if (depends_on_state_) copies = std::min<int64_t>(MaxCopies(batch), program.blocks.size());
  const int64_t paths = std::min(batch.size * jobs_, batch.threads) * levels_;
  // Numbers of each job, which may be more than an int64_t holds.
  const double sums = 8.0 * static_cast<double>(batch.size * jobs_) *
                      static_cast<double>(std::max(program.string_count, program.per_example));
  const int64_t by_states = batch.initial_gradients ? batch.size * jobs_ * StateBytes() : 0;
  return paths * (2 + copies) * StateBytes() + by_states +
         static_cast<int64_t>(std::min(sums, 1e18));
}

template <class T>
void TrajectoryEngine<T>::Expectation(const Batch& batch, T* values) const {
  RefuseRecords();
  if (batch.size == 0) return;
  const TrajectoryProgram& program = *program_;
  const Call call(program, batch, program.shots.seed);
  const int64_t strings = program.string_count;
  std::vector<double> found(batch.size * jobs_ * strings);
  const int64_t cost = layout_.groups * 4 * static_cast<int64_t>(program.blocks.size() + 1);
  batch.parallel(batch.size * jobs_, cost, [&](int64_t at) {
    const int64_t job = at % jobs_;
    Tree tree(*this, call, at / jobs_);
    for (int64_t i = job * trees_ / jobs_; i < (job + 1) * trees_ / jobs_; ++i)
      tree.AddValues(i, found.data() + at * strings);
  });
  for (int64_t b = 0; b < batch.size; ++b) {
    Exponents exponents = call.shared;
    exponents.per_example = batch.per_example + b * program.per_example;
    std::vector<double> means(strings);
    for (int64_t i = 0; i < strings; ++i) {
      for (int64_t job = 0; job < jobs_; ++job) means[i] += found[(b * jobs_ + job) * strings + i];
      means[i] /= static_cast<double>(program.trajectories);
    }
    const std::vector<double> readouts = Readouts(program, exponents, means);
    std::copy(readouts.begin(), readouts.end(), values + b * program.readouts);
  }
}

template <class T>
void TrajectoryEngine<T>::Gradient(const Batch& batch, const T* upstream, double* shared_gradients,
                                   double* per_example_gradients) const {
  const TrajectoryProgram& program = *program_;
  const bool want_per_example = per_example_gradients != nullptr;
  const bool by_states = batch.initial_gradients != nullptr;
  RefuseRecords();
  if (batch.size == 0) return;
  if (program.first_needed[want_per_example] == program.blocks.size() && !by_states) return;
  const Call call(program, batch, program.shots.seed);
  const int64_t jobs = batch.size * jobs_, width = program.per_example;
  // Each range of jobs has its own sums, which are added in order, so that the result does not
  // depend on the timing of threads.
  std::vector<GradientSums> sums(std::min(jobs, kMaxRanges), GradientSums(program));
  std::vector<double> rows(want_per_example ? jobs * width : 0);
  const int64_t reals = int64_t{2} << program.qubits;
  std::vector<T> by_state(by_states ? jobs * reals : 0);
  const int64_t cost = layout_.groups * 16 * static_cast<int64_t>(program.blocks.size() + 1);
  ForEachRange(batch.parallel, jobs, cost, [&](int64_t range, int64_t first, int64_t end) {
    GradientTask task = {{}, MaxCopies(batch), &sums[range], want_per_example, nullptr, nullptr};
    for (int64_t at = first; at < end; ++at) {
      const int64_t b = at / jobs_, job = at % jobs_;
      const T* row = upstream + b * program.readouts;
      task.string_weights = StringWeights(program, {row, row + program.readouts});
      for (double& weight : task.string_weights)
        weight /= static_cast<double>(program.trajectories);
      if (want_per_example) task.per_example_gradients = rows.data() + at * width;
      if (by_states) task.state_gradient = by_state.data() + at * reals;
      Tree tree(*this, call, b);
      for (int64_t i = job * trees_ / jobs_; i < (job + 1) * trees_ / jobs_; ++i)
        tree.AddGradients(i, task);
    }
  });
  for (int64_t at = 0; at < static_cast<int64_t>(rows.size()); ++at)
    per_example_gradients[at / width / jobs_ * width + at % width] += rows[at];
  T* by_example = static_cast<T*>(batch.initial_gradients);
  if (by_states) std::fill_n(by_example, batch.size * reals, T{0});
  for (int64_t at = 0; at < static_cast<int64_t>(by_state.size()); ++at)
    by_example[at / reals / jobs_ * reals + at % reals] += by_state[at];
  GradientSums& total = sums.front();
  for (size_t range = 1; range < sums.size(); ++range) total.Add(sums[range]);
  for (int64_t e = 0; e < program.shared; ++e) shared_gradients[e] += total.shared[e];
  ParameterGradients(program, call.matrices, total.sequences, false, shared_gradients);
}

template <class T>
void TrajectoryEngine<T>::RefuseRecords() const {
  if (program_->records)
    throw std::invalid_argument("a program with measurements has no expectation values");
}

template <class T>
int64_t TrajectoryEngine<T>::MeasuredTrees(const Batch& batch, int64_t trajectories) {
  return std::clamp<int64_t>(trajectories / kTreeTrajectories, 1,
                             kMeasuredTreesPerThread * batch.threads);
}

template <class T>
int64_t TrajectoryEngine<T>::MeasurementBytes(const Batch& batch, int64_t trajectories) const {
  if (batch.size == 0 || trajectories == 0) return 0;
  const int64_t trees = MeasuredTrees(batch, trajectories);
  const int64_t levels = 2 + Log2(trajectories);
  return std::min(batch.size * trees, batch.threads) * (levels + 1) * StateBytes();
}

template <class T>
void TrajectoryEngine<T>::Measure(const Batch& batch, const int64_t* order, int64_t trajectories,
                                  uint64_t seed, const Measured<T>& results) const {
  if (batch.size == 0 || trajectories == 0) return;
  const TrajectoryProgram& program = *program_;
  const Call call(program, batch, seed);
  const BitPermutation permutation(order, program.qubits);
  const int64_t width = program.records, reals = int64_t{2} << program.qubits;
  std::fill_n(results.records, batch.size * trajectories * width, uint8_t{0});
  const int64_t trees = MeasuredTrees(batch, trajectories);
  const int64_t cost = layout_.groups * 4 * static_cast<int64_t>(program.blocks.size() + 1);
  struct Part {
    int64_t example;
    std::vector<int32_t> trajectories;
  };
  std::vector<Part> parts;
  for (int64_t b = 0; b < batch.size; ++b)
    for (std::vector<int32_t>& own : Tree(*this, call, b).Divide(trajectories, trees))
      parts.push_back({b, std::move(own)});
  // What a trajectory draws does not depend on its part.
  batch.parallel(static_cast<int64_t>(parts.size()), cost, [&](int64_t at) {
    Tree tree(*this, call, parts[at].example);
    const int64_t row = parts[at].example * trajectories;
    tree.Measure(parts[at].trajectories, permutation,
                 {results.records + row * width, results.samples ? results.samples + row : nullptr,
                  results.states ? results.states + row * reals : nullptr});
  });
}

template class TrajectoryEngine<float>;
template class TrajectoryEngine<double>;

}  // namespace qfleet
