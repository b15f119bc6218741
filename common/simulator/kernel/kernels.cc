// The vector code. Compiled once for each instruction set, in a namespace of its own; GCC's vector
// extensions make it the same text for all of them. See kernels.h for what each function does.
#include "kernels.h"

#ifndef QFLEET_SET
#error "QFLEET_SET names the instruction set, QFLEET_BYTES the size of its vectors"
#endif

namespace qfleet {
namespace QFLEET_SET {
namespace {

template <class T>
struct LaneIndex;
template <>
struct LaneIndex<float> {
  using type = int32_t;
};
template <>
struct LaneIndex<double> {
  using type = int64_t;
};

template <class T>
struct VectorKernels {
  typedef T V __attribute__((vector_size(QFLEET_BYTES), may_alias));
  typedef typename LaneIndex<T>::type I __attribute__((vector_size(QFLEET_BYTES)));
  static constexpr int kLanes = QFLEET_BYTES / sizeof(T);
  static constexpr int kStripTuples = 16;  // turns that are worked on while they are in L1
  // Rows whose sums are held in registers together: 16 sums, where there are 32 registers.
  static constexpr int kRowsAtOnce = QFLEET_BYTES == 64 ? 2 : 1;
  static constexpr int kTuplesAtOnce = QFLEET_BYTES == 64 ? 2 : 1;  // turns, likewise

  static I LaneXorIndices(int32_t by) {
    I order = {};
    for (int lane = 0; lane < kLanes; ++lane) order[lane] = lane ^ by;
    return order;
  }

  // The first group of a turn: its number, with a zero put in at each of the block's own bits.
  template <int ROWS>
  static int64_t FirstGroup(const BlockKernel& kernel, int64_t tuple) {
    if constexpr (ROWS == 1) return tuple;
    int64_t group =
        ((tuple >> kernel.low) << (kernel.low + 1)) | (tuple & ((int64_t{1} << kernel.low) - 1));
    if constexpr (ROWS == 4)
      group = ((group >> kernel.high) << (kernel.high + 1)) |
              (group & ((int64_t{1} << kernel.high) - 1));
    return group;
  }

  // The inputs of a turn: its groups, each also with its lanes exchanged.
  template <int ROWS, int COLS>
  struct Inputs {
    V re[COLS], im[COLS];

    Inputs(const BlockKernel& kernel, const V* state, int64_t first, const I* lane_order) {
      constexpr int kPatterns = COLS / ROWS;
#pragma GCC unroll 4
      for (int r = 0; r < ROWS; ++r) {
        const V* at = state + 2 * (first + kernel.offset[r]);
        re[r * kPatterns] = at[0];
        im[r * kPatterns] = at[1];
#pragma GCC unroll 4
        for (int d = 1; d < kPatterns; ++d) {
          re[r * kPatterns + d] = __builtin_shuffle(at[0], lane_order[d]);
          im[r * kPatterns + d] = __builtin_shuffle(at[1], lane_order[d]);
        }
      }
    }
  };

  // Several turns together, so that each entry of the matrix is loaded once for all of them.
  template <int ROWS, int COLS, int TUPLES>
  static void ApplyTuples(const BlockKernel& kernel, const V* u, V* state, int64_t tuple,
                          const I* lane_order) {
    int64_t first[TUPLES];
    V xr[TUPLES][COLS], xi[TUPLES][COLS];
#pragma GCC unroll 4
    for (int n = 0; n < TUPLES; ++n) {
      first[n] = FirstGroup<ROWS>(kernel, tuple + n);
      const Inputs<ROWS, COLS> in(kernel, state, first[n], lane_order);
#pragma GCC unroll 4
      for (int j = 0; j < COLS; ++j) {
        xr[n][j] = in.re[j];
        xi[n][j] = in.im[j];
      }
    }
#pragma GCC unroll 4
    for (int r = 0; r < ROWS; ++r) {
      V re[TUPLES], im[TUPLES];
#pragma GCC unroll 4
      for (int n = 0; n < TUPLES; ++n) re[n] = im[n] = V{};
#pragma GCC unroll 4
      for (int j = 0; j < COLS; ++j) {
        const V ur = u[2 * (r * COLS + j)], ui = u[2 * (r * COLS + j) + 1];
#pragma GCC unroll 4
        for (int n = 0; n < TUPLES; ++n) {
          re[n] += ur * xr[n][j];
          im[n] += ur * xi[n][j];
          re[n] -= ui * xi[n][j];
          im[n] += ui * xr[n][j];
        }
      }
#pragma GCC unroll 4
      for (int n = 0; n < TUPLES; ++n) {
        V* at = state + 2 * (first[n] + kernel.offset[r]);
        at[0] = re[n];
        at[1] = im[n];
      }
    }
  }

  template <int ROWS, int COLS>
  static void ApplyDense(const BlockKernel& kernel, const void* matrix, V* state, int64_t from,
                         int64_t to, const I* lane_order) {
    const V* u = static_cast<const V*>(matrix);
    int64_t tuple = from;
    for (; tuple + kTuplesAtOnce <= to; tuple += kTuplesAtOnce)
      ApplyTuples<ROWS, COLS, kTuplesAtOnce>(kernel, u, state, tuple, lane_order);
    for (; tuple < to; ++tuple) ApplyTuples<ROWS, COLS, 1>(kernel, u, state, tuple, lane_order);
  }

  // Input j of a turn that begins at `base`: a group, with its lanes exchanged or not.
  template <int ROWS, int COLS>
  static void Input(const BlockKernel& kernel, const V* base, int j, const I* lane_order, V* re,
                    V* im) {
    constexpr int kPatterns = COLS / ROWS;
    const V* at = base + 2 * kernel.offset[j / kPatterns];
    *re = at[0];
    *im = at[1];
    if (kPatterns > 1 && j % kPatterns) {
      *re = __builtin_shuffle(*re, lane_order[j % kPatterns]);
      *im = __builtin_shuffle(*im, lane_order[j % kPatterns]);
    }
  }

  // CNOT and SWAP in one go, wherever their qubits lie; false for any other permutation.
  template <int ROWS, int COLS>
  static bool Permute(const BlockKernel& kernel, const V* u, V* state, int64_t from, int64_t to,
                      const I* lane_order) {
    constexpr int kPatterns = COLS / ROWS;
    const int first = kernel.active_row[0], d = kernel.input[0][0] % kPatterns;
    if (kernel.active_rows == 1 && kernel.terms[0] == 1) {  // inside the lanes of a group
      for (int64_t tuple = from; tuple < to; ++tuple) {
        V* at = state + 2 * (FirstGroup<ROWS>(kernel, tuple) + kernel.offset[first]);
        at[0] = __builtin_shuffle(at[0], lane_order[d]);
        at[1] = __builtin_shuffle(at[1], lane_order[d]);
      }
      return true;
    }
    if (kernel.active_rows != 2) return false;
    const int lambda_buffer = kernel.active_row[1];
    for (int i = 0; i < 2; ++i)
      for (int term = 0; term < kernel.terms[i]; ++term)
        if (kernel.input[i][term] != first * kPatterns &&
            kernel.input[i][term] != lambda_buffer * kPatterns)
          return false;
    // Two groups change places, on all lanes or on some.
    const I swap_mask =
        u[2 * (first * COLS + lambda_buffer * kPatterns)] > T(0.5);  // 0 or 1, but for rounding
    const bool all_lanes = kernel.terms[0] == 1 && kernel.input[0][0] == lambda_buffer * kPatterns;
    for (int64_t tuple = from; tuple < to; ++tuple) {
      V* base = state + 2 * FirstGroup<ROWS>(kernel, tuple);
      V *x = base + 2 * kernel.offset[first], *y = base + 2 * kernel.offset[lambda_buffer];
      const V xr = x[0], xi = x[1], yr = y[0], yi = y[1];
      x[0] = all_lanes ? yr : (swap_mask ? yr : xr);
      x[1] = all_lanes ? yi : (swap_mask ? yi : xi);
      y[0] = all_lanes ? xr : (swap_mask ? xr : yr);
      y[1] = all_lanes ? xi : (swap_mask ? xi : yi);
    }
    return true;
  }

  template <int ROWS, int COLS>
  static void ApplySparse(const BlockKernel& kernel, const void* matrix, V* state, int64_t from,
                          int64_t to, const I* lane_order) {
    const V* u = static_cast<const V*>(matrix);
    if (kernel.is_permutation && Permute<ROWS, COLS>(kernel, u, state, from, to, lane_order))
      return;
    for (int64_t tuple = from; tuple < to; ++tuple) {
      V* base = state + 2 * FirstGroup<ROWS>(kernel, tuple);
      V out[ROWS][2];
      for (int i = 0; i < kernel.active_rows; ++i) {
        const int r = kernel.active_row[i];
        V re = {}, im = {};
        for (int term = 0; term < kernel.terms[i]; ++term) {
          const int j = kernel.input[i][term];
          V xr, xi;
          Input<ROWS, COLS>(kernel, base, j, lane_order, &xr, &xi);
          const V ur = u[2 * (r * COLS + j)], ui = u[2 * (r * COLS + j) + 1];
          re += ur * xr - ui * xi;
          im += ur * xi + ui * xr;
        }
        out[i][0] = re;
        out[i][1] = im;
      }
      for (int i = 0; i < kernel.active_rows; ++i) {
        V* at = base + 2 * kernel.offset[kernel.active_row[i]];
        at[0] = out[i][0];
        at[1] = out[i][1];
      }
    }
  }

  // slopes[r][j] += in[j] conj(lambda[r]) over the turns.
  template <int ROWS, int COLS>
  static void DenseGradient(const BlockKernel& kernel, const V* psi, const V* lambda, int64_t from,
                            int64_t to, const I* lane_order, V* gradients) {
    constexpr int kRows = ROWS < kRowsAtOnce ? ROWS : kRowsAtOnce;
    for (int r0 = 0; r0 < ROWS; r0 += kRows) {
      V re[kRows][COLS], im[kRows][COLS];
#pragma GCC unroll 4
      for (int r = 0; r < kRows; ++r)
#pragma GCC unroll 4
        for (int j = 0; j < COLS; ++j) {
          re[r][j] = gradients[2 * ((r0 + r) * COLS + j)];
          im[r][j] = gradients[2 * ((r0 + r) * COLS + j) + 1];
        }
      for (int64_t tuple = from; tuple < to; ++tuple) {
        const int64_t first = FirstGroup<ROWS>(kernel, tuple);
        const Inputs<ROWS, COLS> in(kernel, psi, first, lane_order);
#pragma GCC unroll 4
        for (int r = 0; r < kRows; ++r) {
          const V* at = lambda + 2 * (first + kernel.offset[r0 + r]);
          const V lr = at[0], li = at[1];
#pragma GCC unroll 4
          for (int j = 0; j < COLS; ++j) {
            re[r][j] += in.re[j] * lr;
            re[r][j] += in.im[j] * li;
            im[r][j] += in.im[j] * lr;
            im[r][j] -= in.re[j] * li;
          }
        }
      }
#pragma GCC unroll 4
      for (int r = 0; r < kRows; ++r)
#pragma GCC unroll 4
        for (int j = 0; j < COLS; ++j) {
          gradients[2 * ((r0 + r) * COLS + j)] = re[r][j];
          gradients[2 * ((r0 + r) * COLS + j) + 1] = im[r][j];
        }
    }
  }

  template <int ROWS, int COLS>
  static void SparseGradient(const BlockKernel& kernel, const V* psi, const V* lambda, int64_t from,
                             int64_t to, const I* lane_order, V* gradients) {
    for (int i = 0; i < kernel.active_rows; ++i) {
      const int r = kernel.active_row[i];
      for (int term = 0; term < kernel.gradient_terms[i]; ++term) {
        const int j = kernel.gradient_input[i][term];
        V re = gradients[2 * (r * COLS + j)], im = gradients[2 * (r * COLS + j) + 1];
        for (int64_t tuple = from; tuple < to; ++tuple) {
          const int64_t first = FirstGroup<ROWS>(kernel, tuple);
          V xr, xi;
          Input<ROWS, COLS>(kernel, psi + 2 * first, j, lane_order, &xr, &xi);
          const V* l = lambda + 2 * (first + kernel.offset[r]);
          re += xr * l[0] + xi * l[1];
          im += xi * l[0] - xr * l[1];
        }
        gradients[2 * (r * COLS + j)] = re;
        gradients[2 * (r * COLS + j) + 1] = im;
      }
    }
  }

  // From sums over groups, lane by lane, to sums in double by sample.
  static void ReduceLanes(const BlockKernel& kernel, const V* gradients, double* sums,
                          int32_t samples) {
    const int size = kernel.cols;  // D: lanes hold the patterns that rows lack
    for (int r = 0; r < kernel.rows; ++r)
      for (int j = 0; j < kernel.cols; ++j)
        for (int part = 0; part < 2; ++part) {
          const T* from = reinterpret_cast<const T*>(&gradients[2 * (r * kernel.cols + j) + part]);
          if (samples == kLanes) {
            double* to = sums + (2 * (kernel.col[j][0] * size + kernel.row[r][0]) + part) * samples;
            for (int lane = 0; lane < kLanes; ++lane) to[lane] += static_cast<double>(from[lane]);
            continue;
          }
          for (int lane = 0; lane < kLanes; ++lane) {
            const int entry = kernel.col[j][lane] * size + kernel.row[r][lane];
            sums[(2 * entry + part) * samples + (lane & (samples - 1))] +=
                static_cast<double>(from[lane]);
          }
        }
  }

  template <int ROWS, int COLS>
  static void ForwardBlock(const BlockKernel& kernel, V* state, int64_t groups) {
    I lane_order[4];
    for (int d = 0; d < COLS / ROWS; ++d) lane_order[d] = LaneXorIndices(kernel.lane_xor[d]);
    if (kernel.sparse)
      ApplySparse<ROWS, COLS>(kernel, kernel.matrix, state, 0, groups / ROWS, lane_order);
    else
      ApplyDense<ROWS, COLS>(kernel, kernel.matrix, state, 0, groups / ROWS, lane_order);
  }

  template <int ROWS, int COLS>
  static void BackwardBlock(const BlockKernel& kernel, V* psi, V* lambda, int64_t groups,
                            double* sums, int32_t samples) {
    if (!kernel.needs_gradient && !kernel.needs_uncompute) return;
    I lane_order[4];
    for (int d = 0; d < COLS / ROWS; ++d) lane_order[d] = LaneXorIndices(kernel.lane_xor[d]);
    V gradients[2 * ROWS * COLS] = {};
    const int64_t tuples = groups / ROWS;
    for (int64_t from = 0; from < tuples; from += kStripTuples) {
      const int64_t to = from + kStripTuples < tuples ? from + kStripTuples : tuples;
      if (kernel.sparse) {
        if (kernel.needs_gradient)
          SparseGradient<ROWS, COLS>(kernel, psi, lambda, from, to, lane_order, gradients);
        if (kernel.needs_uncompute) {
          ApplySparse<ROWS, COLS>(kernel, kernel.inverse, psi, from, to, lane_order);
          ApplySparse<ROWS, COLS>(kernel, kernel.inverse, lambda, from, to, lane_order);
        }
      } else {
        if (kernel.needs_gradient)
          DenseGradient<ROWS, COLS>(kernel, psi, lambda, from, to, lane_order, gradients);
        if (kernel.needs_uncompute) {
          ApplyDense<ROWS, COLS>(kernel, kernel.inverse, psi, from, to, lane_order);
          ApplyDense<ROWS, COLS>(kernel, kernel.inverse, lambda, from, to, lane_order);
        }
      }
    }
    if (kernel.needs_gradient) ReduceLanes(kernel, gradients, sums, samples);
  }

  static int64_t ChunkBase(const Window& window, int64_t chunk) {
    int64_t group = 0;
    for (int bit = 0; bit < window.outside_bits; ++bit)
      group |= (chunk >> bit & 1) << window.outside[bit];
    return group;
  }

  template <bool GATHER>
  static void CopyChunk(const Window& window, V* state, int64_t base, V* buffer) {
    const int64_t segment_vectors = int64_t{2} << window.segment_bits;  // vectors
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
      const BlockKernel& kernel = block_kernels[i];
      switch (kernel.rows * 8 + kernel.cols) {
        case 4 * 8 + 4:
          ForwardBlock<4, 4>(kernel, at, groups);
          break;
        case 2 * 8 + 4:
          ForwardBlock<2, 4>(kernel, at, groups);
          break;
        case 1 * 8 + 4:
          ForwardBlock<1, 4>(kernel, at, groups);
          break;
        case 2 * 8 + 2:
          ForwardBlock<2, 2>(kernel, at, groups);
          break;
        case 1 * 8 + 2:
          ForwardBlock<1, 2>(kernel, at, groups);
          break;
      }
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
      const BlockKernel& kernel = block_kernels[i];
      double* to = sums + static_cast<int64_t>(i - window.first) * kBlockSumReals * samples;
      switch (kernel.rows * 8 + kernel.cols) {
        case 4 * 8 + 4:
          BackwardBlock<4, 4>(kernel, psi_chunk, lambda_chunk, groups, to, samples);
          break;
        case 2 * 8 + 4:
          BackwardBlock<2, 4>(kernel, psi_chunk, lambda_chunk, groups, to, samples);
          break;
        case 1 * 8 + 4:
          BackwardBlock<1, 4>(kernel, psi_chunk, lambda_chunk, groups, to, samples);
          break;
        case 2 * 8 + 2:
          BackwardBlock<2, 2>(kernel, psi_chunk, lambda_chunk, groups, to, samples);
          break;
        case 1 * 8 + 2:
          BackwardBlock<1, 2>(kernel, psi_chunk, lambda_chunk, groups, to, samples);
          break;
      }
    }
    if (!window.in_place) {
      CopyChunk<false>(window, psi, base, buffer);
      CopyChunk<false>(window, lambda, base, lambda_buffer);
    }
  }

  static void Initialize(T* state, int64_t groups, int32_t samples, const T* initial) {
    const int64_t amplitudes = kLanes / samples;  // of a group
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

  // sums[k] = sum_i (-1)^|i & k| values[i], in place: the Walsh-Hadamard transform.
  static void WalshHadamard(V* values, int bits) {
    for (int64_t half = 1; half < int64_t{1} << bits; half *= 2)
      for (int64_t at = 0; at < int64_t{1} << bits; at += 2 * half)
        for (int64_t i = at; i < at + half; ++i) {
          const V a = values[i], b = values[i + half];
          values[i] = a + b;
          values[i + half] = a - b;
        }
  }

  static int TransformBits(int64_t count) {
    int bits = 0;
    while (bits < kMaxTransformBits && int64_t{2} << bits <= count) ++bits;
    return bits;
  }

  static void Measure(const PauliStrings& strings, const T* psi_, int64_t first, int64_t count,
                      double* sums) {
    const V* psi = reinterpret_cast<const V*>(psi_);
    const int bits = TransformBits(count);
    const int64_t size = int64_t{1} << bits;
    const I lane_order = LaneXorIndices(strings.lane_xor);
    const bool diagonal = strings.flip == 0 && strings.lane_xor == 0;
    V re[1 << kMaxTransformBits], im[1 << kMaxTransformBits];
    for (int64_t at = first; at < first + count; at += size) {
      for (int64_t i = 0; i < size; ++i) {
        const V* x = psi + 2 * (at + i);
        if (diagonal) {
          re[i] = x[0] * x[0] + x[1] * x[1];
        } else {
          const V* y = psi + 2 * ((at + i) ^ strings.flip);
          const V yr = __builtin_shuffle(y[0], lane_order),
                  yi = __builtin_shuffle(y[1], lane_order);
          re[i] = x[0] * yr + x[1] * yi;
          im[i] = x[0] * yi - x[1] * yr;
        }
      }
      WalshHadamard(re, bits);
      if (!diagonal) WalshHadamard(im, bits);
      for (int32_t t = 0; t < strings.count; ++t) {
        // Re((-i)^ys q)
        const V* parts = strings.ys[t] % 2 ? im : re;
        bool minus = strings.ys[t] % 4 >= 2;
        minus ^= __builtin_parityll(at & strings.z[t]);
        const T* from = reinterpret_cast<const T*>(&parts[strings.z[t] & (size - 1)]);
        double* to = sums + t * kLanes;
        if (minus)
          for (int lane = 0; lane < kLanes; ++lane) to[lane] -= static_cast<double>(from[lane]);
        else
          for (int lane = 0; lane < kLanes; ++lane) to[lane] += static_cast<double>(from[lane]);
      }
    }
  }

  static void ApplyStrings(const PauliStrings& strings, const T* psi_, T* lambda_, int64_t first,
                           int64_t count, const T* weights_, bool add) {
    const V* psi = reinterpret_cast<const V*>(psi_);
    const V* weights = reinterpret_cast<const V*>(weights_);
    V* lambda = reinterpret_cast<V*>(lambda_);
    const int bits = TransformBits(count);
    const int64_t size = int64_t{1} << bits;
    const I lane_order = LaneXorIndices(strings.lane_xor);
    const bool diagonal = strings.flip == 0 && strings.lane_xor == 0;
    V re[1 << kMaxTransformBits], im[1 << kMaxTransformBits];
    for (int64_t at = first; at < first + count; at += size) {
      for (int64_t i = 0; i < size; ++i) re[i] = im[i] = V{};
      for (int32_t t = 0; t < strings.count; ++t) {
        // P = (-i)^ys (-1)^|x & z| from x ^ flip to x
        V* parts = strings.ys[t] % 2 ? im : re;
        bool minus = strings.ys[t] % 4 == 1 || strings.ys[t] % 4 == 2;
        minus ^= __builtin_parityll(at & strings.z[t]);
        V& to = parts[strings.z[t] & (size - 1)];
        if (minus)
          to -= weights[t];
        else
          to += weights[t];
      }
      WalshHadamard(re, bits);
      if (!diagonal) WalshHadamard(im, bits);
      for (int64_t i = 0; i < size; ++i) {
        V* to = lambda + 2 * (at - first + i);
        V lr, li;
        if (diagonal) {
          const V* x = psi + 2 * (at + i);
          lr = re[i] * x[0];
          li = re[i] * x[1];
        } else {
          const V* y = psi + 2 * ((at + i) ^ strings.flip);
          const V yr = __builtin_shuffle(y[0], lane_order),
                  yi = __builtin_shuffle(y[1], lane_order);
          lr = re[i] * yr - im[i] * yi;
          li = re[i] * yi + im[i] * yr;
        }
        to[0] = add ? to[0] + lr : lr;
        to[1] = add ? to[1] + li : li;
      }
    }
  }

  static void Dot(const T* x_, const T* y_, int64_t count, double* sum) {
    const V* x = reinterpret_cast<const V*>(x_);
    const V* y = reinterpret_cast<const V*>(y_);
    V re = {}, im = {};
    for (int64_t group = 0; group < count; ++group) {
      const V xr = x[2 * group], xi = x[2 * group + 1], yr = y[2 * group], yi = y[2 * group + 1];
      re += xr * yr;
      re += xi * yi;
      im += xr * yi;
      im -= xi * yr;
    }
    double total[2] = {0, 0};
    for (int lane = 0; lane < kLanes; ++lane) {
      total[0] += static_cast<double>(re[lane]);
      total[1] += static_cast<double>(im[lane]);
    }
    sum[0] += total[0];
    sum[1] += total[1];
  }

  static void Combine(const T* const* states, const double* weights, int64_t states_count, T* out_,
                      int64_t first, int64_t count) {
    V* out = reinterpret_cast<V*>(out_);
    for (int64_t group = first; group < first + count; ++group) {
      V re = {}, im = {};
      for (int64_t j = 0; j < states_count; ++j) {
        const V* x = reinterpret_cast<const V*>(states[j]) + 2 * group;
        const T wr = static_cast<T>(weights[2 * j]), wi = static_cast<T>(weights[2 * j + 1]);
        re += wr * x[0] - wi * x[1];
        im += wr * x[1] + wi * x[0];
      }
      out[2 * group] = re;
      out[2 * group + 1] = im;
    }
  }

  static constexpr Kernels<T> kTable = {kLanes,  Forward,      Backward, Initialize,
                                        Measure, ApplyStrings, Dot,      Combine};
};

}  // namespace

extern const Kernels<float> kFloat;
extern const Kernels<double> kDouble;
const Kernels<float> kFloat = VectorKernels<float>::kTable;
const Kernels<double> kDouble = VectorKernels<double>::kTable;

}  // namespace QFLEET_SET
}  // namespace qfleet
