// The launches of a call for one type of reals. Included by float_program.cu and others.
#ifndef QFLEET_CUDA_LAUNCHES_H_
#define QFLEET_CUDA_LAUNCHES_H_

#include "call_memory.h"
#include "chunk_launches.h"
#include "cluster_launches.h"
#include "program_setup.h"

namespace qfleet {
namespace device {

template <class T>
void TypedProgram<T>::Evaluate(const Call& call, void* values, const void* upstream,
                               const GradientResults* results_wanted) {
  const std::lock_guard<std::mutex> lock(workspace->mutex);
  UseDevice(device_);
  const bool gradient = results_wanted != nullptr;
  const int32_t mode = gradient && results_wanted->per_example_gradients ? 1 : 0;
  const bool by_states = gradient && results_wanted->initial_gradients;
  const bool is_shared = place() != Place::kDevice;
  const Inputs inputs = StageInputs(call, static_cast<const T*>(upstream));
  const Results results = LayoutResults(call, values != nullptr, gradient);
  Division division = Divide(call.size, gradient);
  const Scratch scratch = ReserveScratch(gradient ? Kind::kGradient : Kind::kValues, &division);
  const auto start_all = [&] {
    SendInputs(inputs);
    if (is_shared && gradient)
      FillZero(scratch.unit_sums.in(scratch_.data()), scratch.unit_sums.bytes(), stream_);
    for (int64_t first = 0; first < call.size; first += division.chunk) {
      const int64_t count = std::min(division.chunk, call.size - first);
      BeginChunk(inputs, scratch, first, count, gradient);
      ReceiveInitial(call, scratch, first, count);
      if (place() == Place::kBlock) {
        EvolveSmallChunk(inputs, scratch, division, count, mode, values != nullptr, gradient,
                         by_states);
      } else if (place() == Place::kCluster) {
        if constexpr (!kTangents)
          EvolveClusterChunk(inputs, scratch, division, count, mode, values != nullptr, gradient,
                             by_states);
      } else {
        ForwardWide(inputs, scratch, division, count);
      }
      if (values) WriteChunkValues(scratch, division, results, first, count);
      if (!gradient) continue;
      if (!is_shared) {
        ApplyStringsChunk(scratch, division, count, mode);
        BackwardWide(inputs, scratch, division, count, mode, by_states, results, first > 0);
      }
      ReturnInitial(call, scratch, first, count, *results_wanted);
      DifferentiateChunk(inputs, scratch, results, first, count, mode, mode == 1, first > 0);
    }
    if (is_shared && gradient)
      Sum(static_cast<const Wide*>(scratch.unit_sums.in(scratch_.data())), division.units,
          sizes_.block_sums * kMatrixReals, sizes_.block_sums * kMatrixReals, false, scratch,
          results.block_sums.in(results_.data()));
    FetchResults(results, results_wanted);
  };
  // A caller's states are in memory of its own, and large calls are not bound by their launches.
  if (sizes_.takes_states || division.chunk < call.size) {
    start_all();
  } else {
    recordings_.Run({call.size,
                     values != nullptr,
                     gradient,
                     mode,
                     {inputs_.allocation(), results_.allocation(), scratch_.allocation(),
                      pinned_inputs_.allocation(), pinned_results_.allocation()}},
                    stream_, start_all);
  }
  ReturnResults(results, values, results_wanted);
}

template <class T>
void TypedProgram<T>::WriteStates(const Call& call, const Inputs& inputs, const Scratch& scratch,
                                  const Division& division, const int64_t* order, int64_t first,
                                  int64_t count) {
  char* base = scratch_.data();
  BeginChunk(inputs, scratch, first, count, false);
  ReceiveInitial(call, scratch, first, count);
  ForwardWide(inputs, scratch, division, count);
  PermuteChunk(order, true, T{1}, count, scratch.psi.in(base), scratch.lambda.in(base));
}

template <class T>
void TypedProgram<T>::State(const Call& call, const int64_t* order, void* states) {
  const std::lock_guard<std::mutex> lock(workspace->mutex);
  UseDevice(device_);
  const Inputs inputs = StageInputs(call, nullptr);
  SendInputs(inputs);
  Division division = DivideWide(call.size);
  const Scratch scratch = ReserveScratch(Kind::kStates, &division);
  char* base = scratch_.data();
  for (int64_t first = 0; first < call.size; first += division.chunk) {
    const int64_t count = std::min(division.chunk, call.size - first);
    WriteStates(call, inputs, scratch, division, order, first, count);
    CopyToHost(static_cast<C*>(states) + (first << sizes_.qubits), scratch.lambda.in(base),
               (count << sizes_.qubits) * static_cast<int64_t>(sizeof(C)), stream_);
    Synchronize(stream_);
  }
}

template <class T>
void TypedProgram<T>::Sample(const Call& call, const int64_t* order, int64_t shots, uint64_t seed,
                             int64_t* samples, double* norms) {
  if constexpr (kTangents) {
    throw DeviceError("a program with tangents has no samples", false);
  } else {
    const std::lock_guard<std::mutex> lock(workspace->mutex);
    UseDevice(device_);
    const Inputs inputs = StageInputs(call, nullptr);
    SendInputs(inputs);
    Division division = DivideWide(call.size);
    const Scratch scratch = ReserveScratch(Kind::kSamples, &division);
    const int64_t amplitudes = int64_t{1} << sizes_.qubits, segments = SegmentCount(amplitudes);
    char* base = scratch_.data();
    double *const sums = scratch.segment_sums.in(base), *const totals = scratch.totals.in(base);
    int64_t* const drawn = scratch.drawn.in(base);
    const T* const states = reinterpret_cast<const T*>(scratch.lambda.in(base));
    for (int64_t first = 0; first < call.size; first += division.chunk) {
      const int64_t count = std::min(division.chunk, call.size - first);
      WriteStates(call, inputs, scratch, division, order, first, count);
      ForEach(count * segments, SumProbabilities<T>, count, amplitudes, states, sums);
      ForEach(count, AddUpSegments<double>, count, segments, sums, totals);
      CopyToHost(norms + first, totals, count * static_cast<int64_t>(sizeof(double)), stream_);
      for (int64_t draw = 0; draw < count * shots; draw += kShotsAtOnce) {
        const int64_t part = std::min(kShotsAtOnce, count * shots - draw);
        ForEach(part, DrawShots<T>, Draws{seed, part, draw, shots, first}, amplitudes, states,
                static_cast<const double*>(sums), drawn);
        CopyToHost(samples + first * shots + draw, drawn,
                   part * static_cast<int64_t>(sizeof(int64_t)), stream_);
      }
      Synchronize(stream_);
    }
  }
}

template <class T>
void TypedProgram<T>::StateGradient(const Call& call, const int64_t* order, const void* states,
                                    const void* upstream, const GradientResults& wanted) {
  const std::lock_guard<std::mutex> lock(workspace->mutex);
  UseDevice(device_);
  const int32_t mode = wanted.per_example_gradients ? 1 : 0;
  const Inputs inputs = StageInputs(call, nullptr);
  SendInputs(inputs);
  const Results results = LayoutResults(call, false, true);
  Division division = DivideWide(call.size);
  const Scratch scratch = ReserveScratch(Kind::kStateGradient, &division);
  char* base = scratch_.data();
  for (int64_t first = 0; first < call.size; first += division.chunk) {
    const int64_t count = std::min(division.chunk, call.size - first);
    BeginChunk(inputs, scratch, first, count, false);
    C *const buffer = scratch.received.in(base), *const lambda = scratch.lambda.in(base);
    ReceiveStates(states, order, T{1}, first, count, buffer, scratch.psi.in(base));
    // dL = Re <upstream|d psi>, but the adjoint method expects 2 Re <lambda|d psi>.
    ReceiveStates(upstream, order, T{0.5}, first, count, buffer, lambda);
    BackwardWide(inputs, scratch, division, count, mode, wanted.initial_gradients != nullptr,
                 results, first > 0);
    ReturnInitial(call, scratch, first, count, wanted);
    DifferentiateChunk(inputs, scratch, results, first, count, mode, mode == 1, first > 0);
  }
  FetchResults(results, &wanted);
  ReturnResults(results, nullptr, &wanted);
}

}  // namespace device
}  // namespace qfleet

#endif  // QFLEET_CUDA_LAUNCHES_H_
