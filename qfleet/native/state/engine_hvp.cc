// Hessian-vector products; see engine.h for the method.
#include "device/device_engine.h"
#include "state/engine_internal.h"

namespace qfleet {

template <class T>
void StateVectorEngine<T>::HessianVectorProduct(const Batch& batch, const T* upstream,
                                                bool want_per_example, T* value_tangents,
                                                double* shared_results,
                                                double* per_example_results) {
  if (device_)
    return device_->HessianVectorProduct(batch, upstream, value_tangents, shared_results,
                                         want_per_example ? per_example_results : nullptr);
  Batch direction = batch;
  direction.initial_gradients = nullptr;
  const std::vector<double> zeros(program_->shared + 1);
  if (!direction.shared_tangents) direction.shared_tangents = zeros.data();
  AdjointOverTiles(
      direction, TileLayoutFor(batch), want_per_example, shared_results, per_example_results,
      [&](const Call& call, int64_t tile, int64_t, const Parallel& parallel, const auto& acquire) {
        const AdjointStates states = {acquire(), acquire(), acquire(), acquire()};
        Evolve(call, tile, parallel, states.psi, states.dpsi);
        if (value_tangents) Measure(call, tile, parallel, states.psi, states.dpsi, value_tangents);
        ApplyObservables(call, tile, parallel, states.psi, upstream, states.lambda);
        ApplyObservables(call, tile, parallel, states.dpsi, upstream, states.dlambda);
        return states;
      });
}

#define QFLEET_INSTANTIATE(T)                                                                \
  template void StateVectorEngine<T>::HessianVectorProduct(const Batch&, const T*, bool, T*, \
                                                           double*, double*);
QFLEET_INSTANTIATE(float)
QFLEET_INSTANTIATE(double)

}  // namespace qfleet
