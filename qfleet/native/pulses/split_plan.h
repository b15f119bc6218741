// The plan of a step of split operators: where each matrix acts, and which bits change places.
#ifndef QFLEET_SPLIT_PLAN_H_
#define QFLEET_SPLIT_PLAN_H_

#include <cstdint>
#include <vector>

namespace qfleet {

// An operation of every step: a matrix on some qubits, the first leftmost.
struct SplitOperation {
  std::vector<int32_t> qubits;
  const double* matrices;  // [1 or steps][m][m] (re, im)
  bool varies;             // one matrix per step
  // Of one matrix: it is e^(iKn) matrix e^(-iKn) in step t, with K = turn * (t + 1/2) and the level
  // n of the first qubit.
  double turn;
  double* seeds;  // null, or [steps][m][m] (re, im) of a varying matrix, which are written
};

// Rows of a matrix that it mixes with each other only.
struct SplitPart {
  std::vector<int32_t> rows;
  std::vector<int64_t> offsets;  // of these rows' amplitudes
};

struct SplitInstruction {
  int32_t operation;  // -1: exchange two bits of the index
  int64_t low, high;  // weights of these bits: only `low` may be that of a lane
  std::vector<SplitPart> parts;
  std::vector<int64_t> bases;
  int64_t run;
};

// The instructions of a step. Qubits of two levels that an operation needs change places with
// others whose bit of the index is a lane of a vector; after the step, all are in their places.
std::vector<SplitInstruction> PlanSplitStep(const std::vector<int32_t>& levels,
                                            const std::vector<SplitOperation>& operations,
                                            int32_t lanes);

// The number of rows of an operation's matrix.
int64_t SplitRows(const std::vector<int32_t>& levels, const SplitOperation& operation);

}  // namespace qfleet

#endif  // QFLEET_SPLIT_PLAN_H_
