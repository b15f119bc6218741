// qfleet_stages.h: the stages of a distributed state.
#include <algorithm>
#include <vector>

#include "capi/capi_internal.h"
#include "capi/capi_shard.h"
#include "capi/evaluation.h"
#include "qfleet_stages.h"

using namespace qfleet;  // NOLINT: the functions of this file are in the global namespace

qfleet_status qfleet_stage_layout(qfleet_program program, const qfleet_shard* shard,
                                  qfleet_layout* layout) {
  return WithStateEngine(__func__, program, [&](auto* engine, const Program& loaded) {
    if (!layout) throw std::invalid_argument("layout must not be null");
    const Shard checked(engine, loaded, shard);
    layout->state_reals = checked.state_reals;
    layout->group_reals = checked.group_reals;
  });
}

qfleet_status qfleet_shard_expectation(qfleet_program program, const qfleet_shard* shard,
                                       const double* seeds, int64_t seed_count, void* values,
                                       int64_t value_count, void* kept, int64_t kept_count) {
  return WithStateEngine(__func__, program, [&](auto* engine, const Program& loaded) {
    using T = RealOf<decltype(engine)>;
    Shard checked(engine, loaded, shard);
    checked.SetSeeds(seeds, seed_count);
    auto evaluation = checked.MakeEvaluation(engine);
    T* out = Checked<T>("values", values, value_count, checked.ValueCount());
    T* states = Checked<T>("kept", kept, kept_count, kept_count ? evaluation.KeptReals() : 0);
    evaluation.Expectation(out, states, kept_count);
  });
}

qfleet_status qfleet_shard_gradient(qfleet_program program, const qfleet_shard* shard,
                                    const double* seeds, int64_t seed_count, const void* upstream,
                                    int64_t upstream_count, void* kept, int64_t kept_count,
                                    int32_t kept_is_mutable, double* shared_gradients,
                                    int64_t shared_gradient_count, double* per_example_gradients,
                                    int64_t per_example_gradient_count, double* seed_gradients,
                                    int64_t seed_gradient_count) {
  return WithStateEngine(__func__, program, [&](auto* engine, const Program& loaded) {
    using T = RealOf<decltype(engine)>;
    Shard checked(engine, loaded, shard);
    checked.SetSeeds(seeds, seed_count);
    checked.SetSeedGradients(seed_gradients, seed_gradient_count);
    auto evaluation = checked.MakeEvaluation(engine);
    const T* in = Checked<T>("upstream", upstream, upstream_count, checked.ValueCount());
    T* states = Checked<T>("kept", kept, kept_count, std::max<int64_t>(kept_count, 0));
    checked.CheckGradients(shared_gradients, shared_gradient_count, per_example_gradients,
                           per_example_gradient_count);
    std::fill_n(seed_gradients, seed_gradient_count, 0.0);
    evaluation.Gradient(in, states, kept_count, kept_is_mutable != 0, shared_gradients,
                        per_example_gradients);
  });
}

qfleet_status qfleet_first_stage(qfleet_program program, const qfleet_shard* shard,
                                 const double* seeds, int64_t seed_count, void* states,
                                 int64_t state_count) {
  return WithStateEngine(__func__, program, [&](auto* engine, const Program& loaded) {
    using T = RealOf<decltype(engine)>;
    Shard checked(engine, loaded, shard);
    checked.SetSeeds(seeds, seed_count);
    engine->StageForward(checked.batch, checked.States<T>("states", states, state_count));
  });
}

qfleet_status qfleet_stage(qfleet_program program, const qfleet_shard* shard, void* states,
                           int64_t state_count) {
  return WithStateEngine(__func__, program, [&](auto* engine, const Program& loaded) {
    using T = RealOf<decltype(engine)>;
    const Shard checked(engine, loaded, shard);
    engine->StageForward(checked.batch, checked.States<T>("states", states, state_count));
  });
}

qfleet_status qfleet_stage_expectation(qfleet_program program, const qfleet_shard* shard,
                                       const void* states, int64_t state_count, void* values,
                                       int64_t value_count) {
  return WithStateEngine(__func__, program, [&](auto* engine, const Program& loaded) {
    using T = RealOf<decltype(engine)>;
    const Shard checked(engine, loaded, shard);
    const T* from = checked.States<T>("states", states, state_count);
    T* out = Checked<T>("values", values, value_count, checked.ValueCount());
    engine->StageExpectation(checked.batch, from, out);
  });
}

qfleet_status qfleet_stage_apply_observables(qfleet_program program, const qfleet_shard* shard,
                                             const void* states, int64_t state_count,
                                             const void* upstream, int64_t upstream_count,
                                             void* lambdas, int64_t lambda_count) {
  return WithStateEngine(__func__, program, [&](auto* engine, const Program& loaded) {
    using T = RealOf<decltype(engine)>;
    const Shard checked(engine, loaded, shard);
    const T* from = checked.States<T>("states", states, state_count);
    const T* in = Checked<T>("upstream", upstream, upstream_count, checked.ValueCount());
    T* out = checked.States<T>("lambdas", lambdas, lambda_count);
    engine->StageApplyObservables(checked.batch, from, in, out);
  });
}

qfleet_status qfleet_stage_adjoint(qfleet_program program, const qfleet_shard* shard, void* states,
                                   int64_t state_count, void* lambdas, int64_t lambda_count,
                                   double* shared_gradients, int64_t shared_gradient_count,
                                   double* per_example_gradients,
                                   int64_t per_example_gradient_count, double* seed_gradients,
                                   int64_t seed_gradient_count) {
  return WithStateEngine(__func__, program, [&](auto* engine, const Program& loaded) {
    using T = RealOf<decltype(engine)>;
    Shard checked(engine, loaded, shard);
    T* psi = checked.States<T>("states", states, state_count);
    T* lambda = checked.States<T>("lambdas", lambdas, lambda_count);
    checked.CheckGradients(shared_gradients, shared_gradient_count, per_example_gradients,
                           per_example_gradient_count);
    if (seed_gradients || seed_gradient_count)
      checked.SetSeedGradients(seed_gradients, seed_gradient_count);
    std::fill_n(shared_gradients, shared_gradient_count, 0.0);
    std::fill_n(per_example_gradients, per_example_gradient_count, 0.0);
    engine->StageAdjoint(checked.batch, psi, lambda, per_example_gradients != nullptr,
                         shared_gradients, per_example_gradients);
  });
}
