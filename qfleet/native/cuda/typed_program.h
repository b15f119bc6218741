// A program for one type of reals: its tables, and what its calls consist of.
#ifndef QFLEET_CUDA_TYPED_PROGRAM_H_
#define QFLEET_CUDA_TYPED_PROGRAM_H_

#include "cluster_kernels.h"
#include "device_program.h"
#include "gate_kernels.h"
#include "recording.h"
#include "sample_kernels.h"
#include "small_kernels.h"
#include "wide_kernels.h"
#include "windows.h"

namespace qfleet {
namespace device {

constexpr int32_t kSmallThreads = kIsHostExecutor ? 64 : 128, kGateThreads = 128;
constexpr int32_t kWideThreads = kIsHostExecutor ? 64 : 256;
constexpr int32_t kMinClusterTileBits = kHeldBits + 5;  // so that a thread block has a whole warp
constexpr int64_t kWideTileBytes = 64 << 10;  // of both states, so that thread blocks share an SM
constexpr int64_t kScratchBytes = kIsHostExecutor ? 1 << 20 : 512 << 20;
constexpr int64_t kMaxSegments = 32, kSegmentRows = 128;
constexpr int64_t kWaves = 2;           // of thread blocks in a launch for wide states
constexpr int64_t kMostParts = 256;     // of a state that is measured
constexpr int64_t kMostStates = 65535;  // in a launch with a row of thread blocks for each
constexpr int64_t kShotsAtOnce = kIsHostExecutor ? 64 : 1 << 20;

// What a call computes, which decides the arrays that it needs.
enum class Kind { kValues, kGradient, kStates, kSamples, kStateGradient };

template <class T>
class TypedProgram : public Program {
 public:
  TypedProgram(int32_t device, const ProgramTables& tables, std::shared_ptr<Workspace> workspace);
  ~TypedProgram() override;

  void Evaluate(const Call& call, void* values, const void* upstream,
                const GradientResults* results) override;
  void State(const Call& call, const int64_t* order, void* states) override;
  void StateGradient(const Call& call, const int64_t* order, const void* states,
                     const void* upstream, const GradientResults& results) override;
  void Sample(const Call& call, const int64_t* order, int64_t shots, uint64_t seed,
              int64_t* samples, double* norms) override;

 private:
  using C = Complex<T>;
  using Wide = WideOf<T>;
  static constexpr int64_t kWideBytes = sizeof(Wide);
  // Tangents double the registers of a thread and the memory of a state.
  static constexpr bool kTangents = kHasTangents<T>;
  static constexpr int32_t kMaxThreads = kTangents ? 256 : 512, kLaneBlocks = kTangents ? 2 : 4;
  static constexpr int32_t kMaxLaneQubits = kTangents ? 8 : 9;

  // The arrays of a batch on the device. Inputs come in one copy, results leave in one.
  struct Inputs {
    Layout layout;
    Layout::Array<C> matrices;
    Layout::Array<Wide> shared, per_example;
    Layout::Array<T> upstream;
  };
  struct Results {
    Layout layout;
    Layout::Array<T> values;
    Layout::Array<Wide> block_sums, sequence_sums, shared_derivatives, per_example;
  };
  // Of as many examples as are computed at once.
  struct Scratch {
    Layout layout;
    Layout::Array<C> products;
    Layout::Array<T> coefficients, string_values, product_sums, sequence_sums;
    Layout::Array<T> rank_sums;  // of products, for each block of a cluster
    Layout::Array<Wide> derivatives, unit_sums, parts, segments;
    Layout::Array<C> psi, lambda, received;      // the last for gradients by states
    Layout::Array<double> segment_sums, totals;  // of probabilities, for samples
    Layout::Array<int64_t> drawn;
  };
  // How a call is divided: `chunk` examples at once, by `units` that keep sums of their own.
  struct Division {
    int64_t chunk, units;
    int64_t grid;   // thread blocks for states in shared memory
    int64_t parts;  // thread blocks that share a wide state
    int32_t threads;
    int64_t shared_bytes;
  };
  // Writes inputs into memory of the host, from which SendInputs copies them.
  Inputs StageInputs(const Call& call, const T* upstream);
  void SendInputs(const Inputs& inputs);
  Results LayoutResults(const Call& call, bool values, bool gradient);
  // Starts the copy of the results; ReturnResults waits for it, and gives them to the caller.
  void FetchResults(const Results& results, const GradientResults* gradient);
  void ReturnResults(const Results& results, void* values, const GradientResults* gradient);
  Scratch LayoutScratch(const Division& division, Kind kind);
  // Reserves the memory of as many examples at once as have room.
  Scratch ReserveScratch(Kind kind, Division* division);
  DeviceError NoRoom(Kind kind, int64_t needed, int64_t usable) const;
  // Reserves memory for all examples of a call.
  char* ReserveForBatch(const char* what, DeviceMemory* memory, const Layout& layout, int64_t size);
  // Thread blocks that share a state's measurement: each thread takes a strip or more.
  int64_t MeasureParts() const {
    const int64_t strips = (int64_t{1} << sizes_.qubits) / (kWideThreads * kWideStrip);
    return std::min(kMostParts, std::max<int64_t>(strips, 1));
  }
  // At 12 qubits three states fit into a multiprocessor if their threads are few.
  bool has_few_threads() const { return !kTangents && sizes_.qubits == 12; }
  // Where the states of a call are. Values and gradients use shared memory where it suffices.
  enum class Place { kBlock, kCluster, kDevice };
  Place place() const {
    return small_ ? Place::kBlock : cluster_.bits > 0 ? Place::kCluster : Place::kDevice;
  }
  Division Divide(int64_t size, bool gradient);
  Division DivideSmall(int64_t size, bool gradient);
  Division DivideClusters(int64_t size, bool gradient);
  Division DivideWide(int64_t size);
  int64_t ScratchBytesPerExample() const;

  ProgramView<T> View(int32_t mode) const;
  GateView<T> Gates(const Inputs& inputs, int64_t first);
  template <class Kernel>
  void PickSmall(const Kernel& visit) const;
  void BeginChunk(const Inputs& inputs, const Scratch& scratch, int64_t first, int64_t count,
                  bool coefficients);
  void EvolveSmallChunk(const Inputs& inputs, const Scratch& scratch, const Division& division,
                        int64_t count, int32_t mode, bool values, bool gradient, bool by_states);
  void EvolveClusterChunk(const Inputs& inputs, const Scratch& scratch, const Division& division,
                          int64_t count, int32_t mode, bool values, bool gradient, bool by_states);
  // Decides whether clusters have room for a state, and prepares what they exchange.
  void PlanClusters(const std::vector<BlockTable>& blocks, const PauliString* strings,
                    int32_t bank_bits);
  int64_t ClusterBytes(bool gradient) const;  // of shared memory
  void PermuteChunk(const int64_t* order, bool to_caller, T factor, int64_t count, const C* from,
                    C* to);
  // Copies states of a chunk from or to the host, where they have the caller's order.
  void ReceiveStates(const void* states, const int64_t* order, T factor, int64_t first,
                     int64_t count, C* buffer, C* to);
  void ReturnStates(const C* states, const int64_t* order, T factor, int64_t first, int64_t count,
                    C* buffer, void* to);
  // Leaves the initial states of a chunk in scratch.psi, if the caller has them.
  void ReceiveInitial(const Call& call, const Scratch& scratch, int64_t first, int64_t count);
  // Takes dL/d(initial states) from scratch.lambda, if they are wanted.
  void ReturnInitial(const Call& call, const Scratch& scratch, int64_t first, int64_t count,
                     const GradientResults& wanted);
  WideArguments<T> WideCall(const Inputs& inputs, const Scratch& scratch, int32_t mode);
  void ForwardWide(const Inputs& inputs, const Scratch& scratch, const Division& division,
                   int64_t count);
  // Leaves the states of a chunk in scratch.lambda, in the caller's order.
  void WriteStates(const Call& call, const Inputs& inputs, const Scratch& scratch,
                   const Division& division, const int64_t* order, int64_t first, int64_t count);
  // The adjoint states of a chunk: its observables, applied to its states.
  void ApplyStringsChunk(const Scratch& scratch, const Division& division, int64_t count,
                         int32_t mode);
  void BackwardWide(const Inputs& inputs, const Scratch& scratch, const Division& division,
                    int64_t count, int32_t mode, bool by_states, const Results& results, bool add);
  void WriteChunkValues(const Scratch& scratch, const Division& division, const Results& results,
                        int64_t first, int64_t count);
  void DifferentiateChunk(const Inputs& inputs, const Scratch& scratch, const Results& results,
                          int64_t first, int64_t count, int32_t mode, bool per_example, bool add);
  template <class From>
  void Sum(const From* in, int64_t rows, int64_t stride, int64_t width, bool add,
           const Scratch& scratch, Wide* out);
  // The sums of products of each example, from those of the parts [count][parts][slots] of states.
  template <class From>
  void SumProductParts(const From* sums, int64_t parts, int64_t slots, int64_t count,
                       const Scratch& scratch);
  template <class Kernel, class... Arguments>
  void ForEach(int64_t count, Kernel* kernel, Arguments... arguments) {
    if (count > 0)
      Launch(kernel, dim3(static_cast<unsigned>(DivideUp(count, kGateThreads))), kGateThreads, 0,
             stream_, arguments...);
  }

  // States in the shared memory of 2**bits thread blocks, each with 2**tile_bits amplitudes.
  struct Clusters {
    int32_t bits = 0, tile_bits = 0, threads = 0;  // 0 bits: none
    int64_t active = 0;                            // that run at once
    WindowPlan plan;
    const WindowTable* windows = nullptr;
    const ExchangeTable *forward = nullptr, *backward = nullptr;
  };

  const int32_t device_;
  const DeviceFacts facts_;
  ProgramTables sizes_;  // its pointers are the caller's, and not used
  DeviceTables tables_;
  ProgramView<T> view_ = {};
  GateView<T> gates_ = {};
  const double *weights_, *offsets_;
  const int32_t *derivative_first_, *derivative_list_;
  WindowPlan windows_;
  const PassBlock* window_blocks_;
  int32_t tile_bits_, lanes_;
  bool small_;
  Clusters cluster_;
  Recordings recordings_;
  const Stream stream_ = workspace->stream;
  PinnedMemory &pinned_inputs_ = workspace->pinned_inputs,
               &pinned_results_ = workspace->pinned_results;
  DeviceMemory &inputs_ = workspace->inputs, &results_ = workspace->results,
               &scratch_ = workspace->scratch;
};

}  // namespace device
}  // namespace qfleet

#endif  // QFLEET_CUDA_TYPED_PROGRAM_H_
