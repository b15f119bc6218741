// The checked arguments of a function of qfleet_stages.h.
#ifndef QFLEET_CAPI_SHARD_H_
#define QFLEET_CAPI_SHARD_H_

#include <cstdint>
#include <vector>

#include "capi/capi_internal.h"
#include "capi/evaluation.h"
#include "qfleet_stages.h"

namespace qfleet {

constexpr int64_t kStateAlignmentBytes = 64;  // of states in a caller's buffer

struct Shard {
  template <class T>
  Shard(StateVectorEngine<T>* engine, const Program& program_, const qfleet_shard* shard)
      : Shard(program_, shard, MakeBatch<T>(program_, Required(shard, engine->device()).batch)) {
    SetLayout(engine->TileLayoutFor(batch));
  }
  Shard(const Shard&) = delete;  // batch refers to bits

  int64_t ValueCount() const { return Product(batch.size, program.readouts); }
  int64_t SeedCount() const { return Product(batch.size, int64_t{2} << bits.size()); }

  void SetSeeds(const double* seeds, int64_t count);
  void SetSeedGradients(double* gradients, int64_t count);
  void CheckGradients(const double* shared_gradients, int64_t shared_gradient_count,
                      const double* per_example_gradients,
                      int64_t per_example_gradient_count) const;

  // Checks a buffer of states.
  template <class T>
  T* States(const char* name, void* data, int64_t count) const {
    CheckBuffer(name, data, count, state_reals, kStateAlignmentBytes);
    return static_cast<T*>(data);
  }
  template <class T>
  const T* States(const char* name, const void* data, int64_t count) const {
    return States<T>(name, const_cast<void*>(data), count);
  }

  template <class T>
  Evaluation<T> MakeEvaluation(StateVectorEngine<T>* engine) const {
    Evaluation<T> evaluation(engine, program, batch);
    RequireMemory(evaluation.WorkspaceBytes(), program.qubits);
    return evaluation;
  }

  const Program& program;
  Batch batch;
  std::vector<int64_t> bits;
  TileLayout layout;
  int64_t state_reals, group_reals;

 private:
  Shard(const Program& program_, const qfleet_shard* shard, const Batch& made);
  static const qfleet_shard& Required(const qfleet_shard* shard, bool on_device);
  void SetLayout(const TileLayout& chosen);
};

}  // namespace qfleet

#endif  // QFLEET_CAPI_SHARD_H_
