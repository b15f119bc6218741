// The table of vector kernels for one instruction set; see kernels.h for what each kernel does.
// The vector extensions of GCC and Clang let all instruction sets share this source, each in its
// own namespace.
#include "cpu/kernels.h"

#include <cstring>

#include "cpu/block_kernels.h"
#include "cpu/contraction_kernels.h"
#include "cpu/density_kernels.h"
#include "cpu/matrix_kernels.h"
#include "cpu/packing_kernels.h"
#include "cpu/pauli_kernels.h"
#include "cpu/pulse_kernels.h"
#include "cpu/readout_kernels.h"
#include "cpu/reduced_kernels.h"
#include "cpu/row_kernels.h"
#include "cpu/tangent_kernels.h"
#include "cpu/word_kernels.h"

namespace qfleet {
namespace QFLEET_SET {
namespace {

template <class T>
struct ChunkKernels : VectorTypes<T> {
  using typename VectorTypes<T>::V;
  using VectorTypes<T>::kLanes;

  // The first group of a chunk.
  static int64_t ChunkBase(const Window& window, int64_t chunk) {
    int64_t group = 0;
    for (int bit = 0; bit < window.outside_bits; ++bit)
      group |= (chunk >> bit & 1) << window.outside[bit];
    return group;
  }

  // Gathers a chunk from the state into the buffer, or scatters it back.
  template <bool GATHER>
  static void CopyChunk(const Window& window, V* state, int64_t base, V* buffer) {
    const int64_t segment_vectors = int64_t{2} << window.segment_bits;
    const int64_t segment_count = int64_t{1} << (window.chunk_bits - window.segment_bits);
    for (int64_t i = 0; i < segment_count; ++i) {
      V* state_segment = state + 2 * (base + window.segments[i]);
      V* buffer_segment = buffer + i * segment_vectors;
      for (int64_t at = 0; at < segment_vectors; ++at) {
        if constexpr (GATHER)
          buffer_segment[at] = state_segment[at];
        else
          state_segment[at] = buffer_segment[at];
      }
    }
  }

  // Prefetches a part of the next chunk of a state into L2, while this chunk's blocks are applied.
  static void PrefetchPart(const Window& window, const V* state, int64_t chunk, int64_t part,
                           int64_t parts) {
    if (window.in_place || chunk + 1 == int64_t{1} << window.outside_bits) return;
    const V* next = state + 2 * ChunkBase(window, chunk + 1);
    const int64_t vectors = int64_t{2} << window.chunk_bits;
    const int64_t segment_mask = (int64_t{2} << window.segment_bits) - 1;
    for (int64_t at = part * vectors / parts; at < (part + 1) * vectors / parts; ++at)
      __builtin_prefetch(
          next + 2 * window.segments[at >> (window.segment_bits + 1)] + (at & segment_mask), 0, 2);
  }

  // A window's blocks on one chunk of several states. While `work` runs, `chunks` point to the
  // states' chunks, which are copied to the buffer unless they are contiguous.
  template <int STATES, class Work>
  static void WithChunks(const Window& window, T* const* states, int64_t chunk, T* buffer,
                         const Work& work) {
    const int64_t base = ChunkBase(window, chunk);
    V* chunks[STATES];
    for (int i = 0; i < STATES; ++i) {
      V* state = reinterpret_cast<V*>(states[i]);
      chunks[i] = state + 2 * base;
      if (window.in_place) continue;
      chunks[i] = reinterpret_cast<V*>(buffer) + i * kChunkBytes / static_cast<int64_t>(sizeof(V));
      CopyChunk<true>(window, state, base, chunks[i]);
    }
    work(chunks);
    for (int i = 0; i < STATES && !window.in_place; ++i)
      CopyChunk<false>(window, reinterpret_cast<V*>(states[i]), base, chunks[i]);
  }

  static void Forward(const Window& window, const BlockKernel* block_kernels, T* state,
                      int64_t chunk, T* buffer) {
    WithChunks<1>(window, &state, chunk, buffer, [&](V* const* chunks) {
      for (int i = 0; i < window.count; ++i) {
        BlockKernels<T>::Forward(block_kernels[window.first + i], chunks[0]);
        PrefetchPart(window, reinterpret_cast<V*>(state), chunk, i, window.count);
      }
    });
  }

  static void ForwardTangent(const Window& window, const BlockKernel* block_kernels, T* psi,
                             T* dpsi, int64_t chunk, T* buffer) {
    T* const states[] = {psi, dpsi};
    WithChunks<2>(window, states, chunk, buffer, [&](V* const* chunks) {
      for (int i = window.first; i < window.first + window.count; ++i)
        TangentKernels<T>::Forward(block_kernels[i], chunks[0], chunks[1]);
    });
  }

  static void Backward(const Window& window, const BlockKernel* block_kernels, T* psi, T* lambda,
                       int64_t chunk, T* buffer, double* sums, int32_t samples) {
    T* const states[] = {psi, lambda};
    WithChunks<2>(window, states, chunk, buffer, [&](V* const* chunks) {
      for (int i = window.count - 1; i >= 0; --i) {
        const BlockKernel& kernel = block_kernels[window.first + i];
        BlockKernels<T>::Backward(kernel, chunks[0], chunks[1], sums + kernel.sums, samples);
        PrefetchPart(window, reinterpret_cast<V*>(psi), chunk, i, window.count);
        PrefetchPart(window, reinterpret_cast<V*>(lambda), chunk, i, window.count);
      }
    });
  }

  static void BackwardTangent(const Window& window, const BlockKernel* block_kernels,
                              T* const* states, int64_t chunk, T* buffer, double* sums,
                              int32_t samples) {
    WithChunks<4>(window, states, chunk, buffer, [&](V* const* chunks) {
      for (int i = window.count - 1; i >= 0; --i) {
        const BlockKernel& kernel = block_kernels[window.first + i];
        TangentKernels<T>::Backward(kernel, chunks, sums + 2 * kernel.sums, samples);
      }
    });
  }

  static void Initialize(T* state, int64_t first, int64_t count, int32_t samples,
                         const T* initial) {
    if (!initial) {
      std::memset(state + 2 * kLanes * first, 0, 2 * kLanes * count * sizeof(T));
      if (first == 0)
        for (int32_t s = 0; s < samples; ++s) state[s] = 1;
      return;
    }
    const int64_t amplitudes = kLanes / samples;  // per group
    for (int64_t group = first; group < first + count; ++group) {
      T* re = state + 2 * kLanes * group;
      T* im = re + kLanes;
      for (int64_t a = 0; a < amplitudes; ++a) {
        const int64_t x = group * amplitudes + a;
        for (int32_t s = 0; s < samples; ++s) {
          re[a * samples + s] = initial[2 * x];
          im[a * samples + s] = initial[2 * x + 1];
        }
      }
    }
  }
};

template <class T>
constexpr Kernels<T> kTable = {ChunkKernels<T>::kLanes,          ChunkKernels<T>::Forward,
                               ChunkKernels<T>::Backward,        ChunkKernels<T>::ForwardTangent,
                               ChunkKernels<T>::BackwardTangent, PackingKernels<T>::Pack,
                               ChunkKernels<T>::Initialize,      PauliKernels<T>::Measure,
                               PauliKernels<T>::ApplyStrings,    PauliKernels<T>::Dot,
                               PauliKernels<T>::Combine,         ContractionKernels<T>::Contract,
                               DensityKernels<T>::Apply,         DensityKernels<T>::Correlate,
                               ReducedKernels<T>::Reduce,        ReadoutKernels<T>::Values,
                               ReadoutKernels<T>::Sum,           ReadoutKernels<T>::AddGradients,
                               ReducedKernels<T>::Apply,         RowKernels<T>::Multiply};

}  // namespace

extern const Kernels<float> kFloat;
extern const Kernels<double> kDouble;
extern const MatrixKernels kMatrix;
extern const PulseKernels kPulse;
extern const WordKernels kWord;
const Kernels<float> kFloat = kTable<float>;
const Kernels<double> kDouble = kTable<double>;
const MatrixKernels kMatrix = {MatrixLoops::HalfTurns, MatrixLoops::AddPhased, MatrixLoops::Product,
                               MatrixLoops::Multiply, MatrixLoops::Conjugate};
const WordKernels kWord = {WordLoops::Multiply, WordLoops::FromUnitary, WordLoops::Sums};
const PulseKernels kPulse = {PulseStep::kLanes, PulseStep::Products, PulseStep::Gradients};

}  // namespace QFLEET_SET
}  // namespace qfleet
