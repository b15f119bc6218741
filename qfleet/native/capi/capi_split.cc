// qfleet.h: states under split operators.
#include <algorithm>
#include <cmath>
#include <vector>

#include "capi/capi_internal.h"
#include "pulses/split_steps.h"

namespace qfleet {
namespace {

constexpr int64_t kMaxState = int64_t{1} << 24, kMaxCount = int64_t{1} << 32, kMaxList = 4096;

void Require(bool holds, const std::string& sentence) {
  if (!holds) throw std::invalid_argument(sentence);
}

struct Split {
  explicit Split(const qfleet_split* split) {
    Require(split, "split must not be null");
    Require(split->steps >= 1 && split->steps <= kMaxCount, "split.steps must be from 1 to 2^32");
    Require(split->qubit_count >= 1 && split->qubit_count <= 24,
            "split.qubit_count must be from 1 to 24");
    CheckBuffer("split.levels", split->levels, split->qubit_count, split->qubit_count,
                sizeof(int32_t));
    steps = split->steps;
    for (int64_t q = 0; q < split->qubit_count; ++q) {
      levels.push_back(split->levels[q]);
      Require(levels.back() >= 2 && levels.back() <= kMaxSplitRows,
              "split.levels must be from 2 to " + std::to_string(kMaxSplitRows));
      dimension *= levels.back();
      Require(dimension <= kMaxState, "split.levels must have a product of at most 2^24");
    }
    Require(split->operation_count >= 1 && split->operation_count <= kMaxList,
            "split.operation_count must be from 1 to " + std::to_string(kMaxList));
    CheckBuffer("split.operations", split->operations, split->operation_count,
                split->operation_count, alignof(qfleet_split_operation));
    for (int64_t i = 0; i < split->operation_count; ++i) Add(split->operations[i]);
  }

  void Add(const qfleet_split_operation& one) {
    const int64_t most = static_cast<int64_t>(levels.size());
    Require(one.qubit_count >= 1 && one.qubit_count <= most,
            "operation.qubit_count must be from 1 to the number of qubits");
    CheckBuffer("operation.qubits", one.qubits, one.qubit_count, one.qubit_count, sizeof(int32_t));
    SplitOperation found = {{}, one.matrices, true, 0, one.seeds};
    int64_t rows = 1;
    for (int64_t i = 0; i < one.qubit_count; ++i) {
      const int32_t qubit = one.qubits[i];
      Require(qubit >= 0 && qubit < most &&
                  !std::count(found.qubits.begin(), found.qubits.end(), qubit),
              "operation.qubits must be different numbers of qubits");
      found.qubits.push_back(qubit);
      rows *= levels[qubit];
      Require(rows <= kMaxSplitRows, "an operation must have at most 27 rows");
    }
    const int64_t each = 2 * rows * rows;
    found.varies = one.matrix_count != each || one.seeds;
    const int64_t wanted = found.varies ? Product(steps, each) : each;
    CheckBuffer("operation.matrices", one.matrices, one.matrix_count, wanted, sizeof(double));
    CheckOptional("operation.seeds", one.seeds, one.seed_count, wanted);
    Require(std::isfinite(one.turn), "operation.turn must be finite");
    if (!found.varies) found.turn = one.turn;
    operations.push_back(std::move(found));
  }

  std::vector<int32_t> levels;
  std::vector<SplitOperation> operations;
  int64_t dimension = 1, steps = 0;
};

}  // namespace
}  // namespace qfleet

using namespace qfleet;  // NOLINT: the functions of this file are in the global namespace

qfleet_status qfleet_split_forward(const qfleet_split* split, double* state, int64_t state_count) {
  return RunGuarded(__func__, [&] {
    const Split found(split);
    CheckBuffer("state", state, state_count, 2 * found.dimension, sizeof(double));
    SplitSteps(found.levels, found.operations, found.steps).Forward(state);
  });
}

qfleet_status qfleet_split_backward(const qfleet_split* split, double* states,
                                    int64_t state_count) {
  return RunGuarded(__func__, [&] {
    const Split found(split);
    CheckBuffer("states", states, state_count, 4 * found.dimension, sizeof(double));
    SplitSteps(found.levels, found.operations, found.steps).Backward(states);
  });
}
