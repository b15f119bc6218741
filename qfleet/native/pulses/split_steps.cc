#include "pulses/split_steps.h"

#include <algorithm>
#include <cmath>

namespace qfleet {

namespace {

constexpr int64_t kApart = 40;  // reals between arrays whose size is a multiple of a page

// The entries of some rows of an operation's matrix in a step, or of its adjoint.
void CopyMatrix(const SplitOperation& operation, const std::vector<int32_t>& rows, int64_t size,
                int64_t levels_behind, int64_t step, bool adjoint, double* out) {
  const double* matrix = operation.matrices + (operation.varies ? 2 * size * size * step : 0);
  const double angle = operation.turn * (static_cast<double>(step) + 0.5);
  const int64_t count = static_cast<int64_t>(rows.size());
  for (int64_t r = 0; r < count; ++r)
    for (int64_t c = 0; c < count; ++c) {
      const double* z = matrix + 2 * (rows[r] * size + rows[c]);
      double re = z[0], im = z[1];
      const int64_t levels = rows[r] / levels_behind - rows[c] / levels_behind;
      if (levels && operation.turn != 0) {
        const double cosine = std::cos(levels * angle), sine = std::sin(levels * angle);
        re = z[0] * cosine - z[1] * sine;
        im = z[0] * sine + z[1] * cosine;
      }
      double* to = out + 2 * (adjoint ? c * count + r : r * count + c);
      to[0] = re;
      to[1] = adjoint ? -im : im;
    }
}

void Separate(const double* state, int64_t dimension, double* re, double* im) {
  for (int64_t i = 0; i < dimension; ++i) {
    re[i] = state[2 * i];
    im[i] = state[2 * i + 1];
  }
}

void Interleave(const double* re, const double* im, int64_t dimension, double* state) {
  for (int64_t i = 0; i < dimension; ++i) {
    state[2 * i] = re[i];
    state[2 * i + 1] = im[i];
  }
}

}  // namespace

SplitSteps::SplitSteps(const std::vector<int32_t>& levels,
                       const std::vector<SplitOperation>& operations, int64_t steps,
                       const SplitKernels& kernels)
    : operations_(operations),
      steps_(steps),
      kernels_(kernels),
      plan_(PlanSplitStep(levels, operations, kernels.lanes)),
      dimension_(1) {
  for (int32_t count : levels) dimension_ *= count;
  for (const SplitOperation& one : operations) {
    sizes_.push_back(SplitRows(levels, one));
    behind_.push_back(sizes_.back() / levels[one.qubits[0]]);
  }
  stride_ = (dimension_ + 7) / 8 * 8 + kApart;
}

template <class Visit>
void SplitSteps::VisitParts(const SplitInstruction& instruction, int64_t step, bool adjoint,
                            const Visit& visit) const {
  double matrix[2 * kMaxSplitRows * kMaxSplitRows];
  const int32_t number = instruction.operation;
  for (const SplitPart& part : instruction.parts) {
    CopyMatrix(operations_[number], part.rows, sizes_[number], behind_[number], step, adjoint,
               matrix);
    const SplitPlaces places = {static_cast<int32_t>(part.rows.size()), part.offsets.data(),
                                instruction.bases.data(),
                                static_cast<int64_t>(instruction.bases.size()), instruction.run};
    visit(places, matrix);
  }
}

void SplitSteps::Apply(const SplitInstruction& instruction, int64_t step, bool adjoint,
                       double* state) const {
  if (instruction.operation < 0) {
    for (double* reals : {state, state + stride_})
      kernels_.swap(instruction.low, instruction.high, reals, dimension_);
    return;
  }
  VisitParts(instruction, step, adjoint, [&](const SplitPlaces& places, const double* matrix) {
    kernels_.apply(places, matrix, state, stride_);
  });
}

void SplitSteps::ApplyBack(const SplitInstruction& instruction, int64_t step,
                           double* states) const {
  const int64_t size = 2 * sizes_[instruction.operation] * sizes_[instruction.operation];
  double* seeds = operations_[instruction.operation].seeds + size * step;
  std::fill_n(seeds, size, 0.0);
  VisitParts(instruction, step, true, [&](const SplitPlaces& places, const double* matrix) {
    kernels_.apply_back(places, matrix, states, stride_, seeds);
  });
}

void SplitSteps::Forward(double* state) const {
  AlignedArray<double> numbers(2 * stride_);
  Separate(state, dimension_, numbers.data(), numbers.data() + stride_);
  for (int64_t step = 0; step < steps_; ++step)
    for (const SplitInstruction& one : plan_) Apply(one, step, false, numbers.data());
  Interleave(numbers.data(), numbers.data() + stride_, dimension_, state);
}

// Between operations with seeds, one state after the other stays in the first-level cache.
void SplitSteps::Backward(double* states) const {
  AlignedArray<double> numbers(4 * stride_);
  double *psi = numbers.data(), *derivative = psi + 2 * stride_;
  Separate(states, dimension_, psi, psi + stride_);
  Separate(states + 2 * dimension_, dimension_, derivative, derivative + stride_);
  const auto has_seeds = [&](const SplitInstruction& one) {
    return one.operation >= 0 && operations_[one.operation].seeds;
  };
  for (int64_t step = steps_; step-- > 0;)
    for (auto next = plan_.rbegin(); next != plan_.rend();) {
      const auto first = next;
      next = std::find_if(first, plan_.rend(), has_seeds);
      for (double* state : {psi, derivative})
        for (auto one = first; one != next; ++one) Apply(*one, step, true, state);
      if (next != plan_.rend()) ApplyBack(*next++, step, psi);
    }
  Interleave(psi, psi + stride_, dimension_, states);
  Interleave(derivative, derivative + stride_, dimension_, states + 2 * dimension_);
}

}  // namespace qfleet
