#include "network/network_engine.h"

#include <algorithm>

#include "network/network_call.h"

namespace qfleet {
namespace {

constexpr int64_t kRowsAtOnce = 1 << 15;
constexpr int64_t kFixedChunks = 16;    // whose sums do not depend on the number of threads
constexpr double kMultiplyAddCost = 2;  // nanoseconds for vectors of complex numbers
constexpr double kReversePasses = 3;    // time of a contraction and its reverse

}  // namespace

template <class T>
NetworkEngine<T>::NetworkEngine(std::shared_ptr<const NetworkProgram> program,
                                const Kernels<T>& kernels)
    : program_(std::move(program)), kernels_(kernels) {
  for (const Network& network : program_->networks) plans_.emplace_back(network);
}

template <class T>
int64_t NetworkEngine<T>::WorkspaceBytes(const Batch& batch) const {
  int64_t most = 0;
  for (const ContractionPlan& plan : plans_)
    most = std::max(
        most, 2 * batch.threads * plan.row_elements + (batch.threads + 2) * plan.common_elements);
  return 2 * most * kernels_.lanes * static_cast<int64_t>(sizeof(T));
}

template <class T>
template <class Work>
void NetworkEngine<T>::ForEachGroup(const Network& network, const Batch& batch, bool join_rows,
                                    const Work& work) const {
  const int64_t at_once =
      std::max<int64_t>(1, kRowsAtOnce / std::max<int64_t>(1, network.instances));
  for (int64_t first = 0; first < batch.size; first += at_once) {
    const ExampleRange examples = {first, std::min(at_once, batch.size - first)};
    NetworkRows rows(network, batch, program_->per_example, examples, join_rows);
    if (rows.count()) work(&rows);
  }
}

template <class T>
template <class Work>
void NetworkEngine<T>::ForEachChunk(const ContractionPlan& plan, const Batch& batch, int64_t rows,
                                    double passes, const Work& work) const {
  const bool fixed = batch.max_lane_qubits != kAnyLaneQubits;
  const int64_t tiles = (rows + kernels_.lanes - 1) / kernels_.lanes;
  const int64_t chunks = std::min(tiles, fixed ? kFixedChunks : batch.threads);
  const double cost = passes * kMultiplyAddCost * plan.multiply_adds * tiles / chunks;
  batch.parallel(chunks, static_cast<int64_t>(cost), [&](int64_t chunk) {
    work(chunk, tiles * chunk / chunks, tiles * (chunk + 1) / chunks);
  });
}

template <class T>
void NetworkEngine<T>::Expectation(const Batch& batch, T* values) const {
  std::vector<double> sums;
  for (int64_t b = 0; b < batch.size; ++b)
    sums.insert(sums.end(), program_->offsets.begin(), program_->offsets.end());
  AddValues(batch, batch.allow_subspace, false, &sums);
  std::copy(sums.begin(), sums.end(), values);
}

template <class T>
void NetworkEngine<T>::Gradient(const Batch& batch, const T* upstream, double* shared_gradients,
                                double* per_example_gradients) const {
  AddGradients(batch, batch.allow_subspace, false, upstream, shared_gradients,
               per_example_gradients);
}

template <class T>
void NetworkEngine<T>::HessianVectorProduct(const Batch& batch, const T* upstream,
                                            T* value_tangents, double* shared_results,
                                            double* per_example_results) const {
  if (value_tangents) {
    std::vector<double> sums(batch.size * program_->readouts);
    AddValues(batch, false, true, &sums);
    std::copy(sums.begin(), sums.end(), value_tangents);
  }
  AddGradients(batch, false, true, upstream, shared_results, per_example_results);
}

template <class T>
void NetworkEngine<T>::AddValues(const Batch& batch, bool join_rows, bool tangents,
                                 std::vector<double>* sums) const {
  for (size_t n = 0; n < plans_.size(); ++n) {
    const Network& network = program_->networks[n];
    const NetworkCall<T> call(network, plans_[n], kernels_, batch.shared, batch.shared_tangents,
                              tangents);
    ForEachGroup(network, batch, join_rows, [&](const NetworkRows* rows) {
      std::vector<T> found(rows->count());
      ForEachChunk(plans_[n], batch, rows->count(), 1, [&](int64_t, int64_t first, int64_t end) {
        NetworkWorkspace<T> work(network, plans_[n], call.lanes(), {false, tangents});
        for (int64_t tile = first; tile < end; ++tile) {
          const int64_t row = tile * call.lanes();
          call.Contract(*rows, tile, &work);
          std::copy_n(call.Values(work, tangents), std::min(call.lanes(), rows->count() - row),
                      &found[row]);
        }
      });
      rows->AddValues(found.data(), program_->readouts, sums->data());
    });
  }
}

template <class T>
void NetworkEngine<T>::AddGradients(const Batch& batch, bool join_rows, bool tangents,
                                    const T* upstream, double* shared, double* per_example) const {
  for (size_t n = 0; n < plans_.size(); ++n) {
    const Network& network = program_->networks[n];
    const bool want_rows =
        per_example || std::any_of(network.sources.begin(), network.sources.end(),
                                   [](int64_t source) { return source >= 0; });
    if (!plans_[n].wanted[want_rows].back()) continue;
    const NetworkCall<T> call(network, plans_[n], kernels_, batch.shared, batch.shared_tangents,
                              tangents);
    const WorkspaceKind kind = {true, tangents};
    NetworkWorkspace<T> sums(network, plans_[n], call.lanes(), kind);
    ForEachGroup(network, batch, join_rows, [&](NetworkRows* rows) {
      rows->SetWeights(upstream, program_->readouts);
      std::vector<std::unique_ptr<NetworkWorkspace<T>>> works(
          std::max(batch.threads, kFixedChunks));
      ForEachChunk(plans_[n], batch, rows->count(), kReversePasses,
                   [&](int64_t chunk, int64_t first, int64_t end) {
                     works[chunk] = std::make_unique<NetworkWorkspace<T>>(network, plans_[n],
                                                                          call.lanes(), kind);
                     for (int64_t tile = first; tile < end; ++tile) {
                       call.Contract(*rows, tile, works[chunk].get());
                       call.Reverse(rows, tile, want_rows, works[chunk].get());
                     }
                   });
      for (const std::unique_ptr<NetworkWorkspace<T>>& work : works)
        if (work) sums.Add(*work);
      rows->AddGradients(shared, per_example);
    });
    call.Finish(want_rows, &sums, shared);
  }
}

template class NetworkEngine<float>;
template class NetworkEngine<double>;

}  // namespace qfleet
