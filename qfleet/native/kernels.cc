// The table of vector kernels for one instruction set; see kernels.h for what each kernel does.
// GCC's vector extensions let all instruction sets share this source, each in its own namespace.
#include "kernels.h"

#include "block_kernels.h"
#include "pauli_kernels.h"

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

  static void Forward(const Window& window, const BlockKernel* block_kernels, T* state_,
                      int64_t chunk, T* buffer_) {
    V* state = reinterpret_cast<V*>(state_);
    V* buffer = reinterpret_cast<V*>(buffer_);
    const int64_t base = ChunkBase(window, chunk), groups = int64_t{1} << window.chunk_bits;
    V* at = window.in_place ? state + 2 * base : buffer;
    if (!window.in_place) CopyChunk<true>(window, state, base, buffer);
    for (int i = window.first; i < window.first + window.count; ++i) {
      BlockKernels<T>::Forward(block_kernels[i], at, groups);
    }
    if (!window.in_place) CopyChunk<false>(window, state, base, buffer);
  }

  static void Backward(const Window& window, const BlockKernel* block_kernels, T* psi_, T* lambda_,
                       int64_t chunk, T* buffer_, double* sums, int32_t samples) {
    V* psi = reinterpret_cast<V*>(psi_);
    V* lambda = reinterpret_cast<V*>(lambda_);
    V* buffer = reinterpret_cast<V*>(buffer_);
    V* lambda_buffer = buffer + kChunkBytes / sizeof(V);
    const int64_t base = ChunkBase(window, chunk), groups = int64_t{1} << window.chunk_bits;
    V* psi_chunk = window.in_place ? psi + 2 * base : buffer;
    V* lambda_chunk = window.in_place ? lambda + 2 * base : lambda_buffer;
    if (!window.in_place) {
      CopyChunk<true>(window, psi, base, buffer);
      CopyChunk<true>(window, lambda, base, lambda_buffer);
    }
    for (int i = window.first + window.count - 1; i >= window.first; --i) {
      double* to = sums + static_cast<int64_t>(i - window.first) * kBlockSumReals * samples;
      BlockKernels<T>::Backward(block_kernels[i], psi_chunk, lambda_chunk, groups, to, samples);
    }
    if (!window.in_place) {
      CopyChunk<false>(window, psi, base, buffer);
      CopyChunk<false>(window, lambda, base, lambda_buffer);
    }
  }

  static void Initialize(T* state, int64_t groups, int32_t samples, const T* initial) {
    const int64_t amplitudes = kLanes / samples;  // per group
    for (int64_t group = 0; group < groups; ++group) {
      T* re = state + 2 * kLanes * group;
      T* im = re + kLanes;
      for (int64_t a = 0; a < amplitudes; ++a) {
        const int64_t x = group * amplitudes + a;
        const T real = initial ? initial[2 * x] : static_cast<T>(x == 0);
        const T imaginary = initial ? initial[2 * x + 1] : T{0};
        for (int32_t s = 0; s < samples; ++s) {
          re[a * samples + s] = real;
          im[a * samples + s] = imaginary;
        }
      }
    }
  }
};

template <class T>
constexpr Kernels<T> kTable = {ChunkKernels<T>::kLanes,   ChunkKernels<T>::Forward,
                               ChunkKernels<T>::Backward, ChunkKernels<T>::Initialize,
                               PauliKernels<T>::Measure,  PauliKernels<T>::ApplyStrings,
                               PauliKernels<T>::Dot,      PauliKernels<T>::Combine};

}  // namespace

extern const Kernels<float> kFloat;
extern const Kernels<double> kDouble;
const Kernels<float> kFloat = kTable<float>;
const Kernels<double> kDouble = kTable<double>;

}  // namespace QFLEET_SET
}  // namespace qfleet
