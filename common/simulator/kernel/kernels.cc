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
struct Index;
template <>
struct Index<float> {
  using type = int32_t;
};
template <>
struct Index<double> {
  using type = int64_t;
};

template <class T>
struct Code {
  typedef T V __attribute__((vector_size(QFLEET_BYTES), may_alias));
  typedef typename Index<T>::type I __attribute__((vector_size(QFLEET_BYTES)));
  static constexpr int kLanes = QFLEET_BYTES / sizeof(T);
  static constexpr int kStrip = 16;  // turns that are worked on while they are in L1
  // Rows whose sums are held in registers together: 16 sums, where there are 32 registers.
  static constexpr int kRowsAtOnce = QFLEET_BYTES == 64 ? 2 : 1;
  static constexpr int kTogether = QFLEET_BYTES == 64 ? 2 : 1;  // turns, likewise

  static I Exchange(int32_t by) {
    I order = {};
    for (int lane = 0; lane < kLanes; ++lane) order[lane] = lane ^ by;
    return order;
  }

  // The first group of a turn: its number, with a zero put in at each of the block's own bits.
  template <int ROWS>
  static int64_t First(const Move& move, int64_t turn) {
    if constexpr (ROWS == 1) return turn;
    int64_t group =
        ((turn >> move.low) << (move.low + 1)) | (turn & ((int64_t{1} << move.low) - 1));
    if constexpr (ROWS == 4)
      group = ((group >> move.high) << (move.high + 1)) | (group & ((int64_t{1} << move.high) - 1));
    return group;
  }

  // The inputs of a turn: its groups, each also with its lanes exchanged.
  template <int ROWS, int COLS>
  struct Inputs {
    V re[COLS], im[COLS];

    Inputs(const Move& move, const V* state, int64_t first, const I* exchange) {
      constexpr int kPatterns = COLS / ROWS;
#pragma GCC unroll 4
      for (int r = 0; r < ROWS; ++r) {
        const V* at = state + 2 * (first + move.offset[r]);
        re[r * kPatterns] = at[0];
        im[r * kPatterns] = at[1];
#pragma GCC unroll 4
        for (int d = 1; d < kPatterns; ++d) {
          re[r * kPatterns + d] = __builtin_shuffle(at[0], exchange[d]);
          im[r * kPatterns + d] = __builtin_shuffle(at[1], exchange[d]);
        }
      }
    }
  };

  // Several turns together, so that each entry of the matrix is loaded once for all of them.
  template <int ROWS, int COLS, int TURNS>
  static void Turns(const Move& move, const V* u, V* state, int64_t turn, const I* exchange) {
    int64_t first[TURNS];
    V xr[TURNS][COLS], xi[TURNS][COLS];
#pragma GCC unroll 4
    for (int n = 0; n < TURNS; ++n) {
      first[n] = First<ROWS>(move, turn + n);
      const Inputs<ROWS, COLS> in(move, state, first[n], exchange);
#pragma GCC unroll 4
      for (int j = 0; j < COLS; ++j) {
        xr[n][j] = in.re[j];
        xi[n][j] = in.im[j];
      }
    }
#pragma GCC unroll 4
    for (int r = 0; r < ROWS; ++r) {
      V re[TURNS], im[TURNS];
#pragma GCC unroll 4
      for (int n = 0; n < TURNS; ++n) re[n] = im[n] = V{};
#pragma GCC unroll 4
      for (int j = 0; j < COLS; ++j) {
        const V ur = u[2 * (r * COLS + j)], ui = u[2 * (r * COLS + j) + 1];
#pragma GCC unroll 4
        for (int n = 0; n < TURNS; ++n) {
          re[n] += ur * xr[n][j];
          im[n] += ur * xi[n][j];
          re[n] -= ui * xi[n][j];
          im[n] += ui * xr[n][j];
        }
      }
#pragma GCC unroll 4
      for (int n = 0; n < TURNS; ++n) {
        V* at = state + 2 * (first[n] + move.offset[r]);
        at[0] = re[n];
        at[1] = im[n];
      }
    }
  }

  template <int ROWS, int COLS>
  static void Dense(const Move& move, const void* matrix, V* state, int64_t from, int64_t to,
                    const I* exchange) {
    const V* u = static_cast<const V*>(matrix);
    int64_t turn = from;
    for (; turn + kTogether <= to; turn += kTogether)
      Turns<ROWS, COLS, kTogether>(move, u, state, turn, exchange);
    for (; turn < to; ++turn) Turns<ROWS, COLS, 1>(move, u, state, turn, exchange);
  }

  // Input j of a turn that begins at `base`: a group, with its lanes exchanged or not.
  template <int ROWS, int COLS>
  static void Input(const Move& move, const V* base, int j, const I* exchange, V* re, V* im) {
    constexpr int kPatterns = COLS / ROWS;
    const V* at = base + 2 * move.offset[j / kPatterns];
    *re = at[0];
    *im = at[1];
    if (kPatterns > 1 && j % kPatterns) {
      *re = __builtin_shuffle(*re, exchange[j % kPatterns]);
      *im = __builtin_shuffle(*im, exchange[j % kPatterns]);
    }
  }

  // CNOT and SWAP in one go, wherever their qubits lie; false for any other permutation.
  template <int ROWS, int COLS>
  static bool Permute(const Move& move, const V* u, V* state, int64_t from, int64_t to,
                      const I* exchange) {
    constexpr int kPatterns = COLS / ROWS;
    const int first = move.out[0], d = move.input[0][0] % kPatterns;
    if (move.changed == 1 && move.terms[0] == 1) {  // inside the lanes of a group
      for (int64_t turn = from; turn < to; ++turn) {
        V* at = state + 2 * (First<ROWS>(move, turn) + move.offset[first]);
        at[0] = __builtin_shuffle(at[0], exchange[d]);
        at[1] = __builtin_shuffle(at[1], exchange[d]);
      }
      return true;
    }
    if (move.changed != 2) return false;
    const int second = move.out[1];
    for (int i = 0; i < 2; ++i)
      for (int term = 0; term < move.terms[i]; ++term)
        if (move.input[i][term] != first * kPatterns && move.input[i][term] != second * kPatterns)
          return false;
    // Two groups change places, on all lanes or on some.
    const I moved =
        u[2 * (first * COLS + second * kPatterns)] > T(0.5);  // 0 or 1, but for rounding
    const bool all = move.terms[0] == 1 && move.input[0][0] == second * kPatterns;
    for (int64_t turn = from; turn < to; ++turn) {
      V* base = state + 2 * First<ROWS>(move, turn);
      V *x = base + 2 * move.offset[first], *y = base + 2 * move.offset[second];
      const V xr = x[0], xi = x[1], yr = y[0], yi = y[1];
      x[0] = all ? yr : (moved ? yr : xr);
      x[1] = all ? yi : (moved ? yi : xi);
      y[0] = all ? xr : (moved ? xr : yr);
      y[1] = all ? xi : (moved ? xi : yi);
    }
    return true;
  }

  template <int ROWS, int COLS>
  static void Sparse(const Move& move, const void* matrix, V* state, int64_t from, int64_t to,
                     const I* exchange) {
    const V* u = static_cast<const V*>(matrix);
    if (move.permutes && Permute<ROWS, COLS>(move, u, state, from, to, exchange)) return;
    for (int64_t turn = from; turn < to; ++turn) {
      V* base = state + 2 * First<ROWS>(move, turn);
      V out[ROWS][2];
      for (int i = 0; i < move.changed; ++i) {
        const int r = move.out[i];
        V re = {}, im = {};
        for (int term = 0; term < move.terms[i]; ++term) {
          const int j = move.input[i][term];
          V xr, xi;
          Input<ROWS, COLS>(move, base, j, exchange, &xr, &xi);
          const V ur = u[2 * (r * COLS + j)], ui = u[2 * (r * COLS + j) + 1];
          re += ur * xr - ui * xi;
          im += ur * xi + ui * xr;
        }
        out[i][0] = re;
        out[i][1] = im;
      }
      for (int i = 0; i < move.changed; ++i) {
        V* at = base + 2 * move.offset[move.out[i]];
        at[0] = out[i][0];
        at[1] = out[i][1];
      }
    }
  }

  // slopes[r][j] += in[j] conj(lambda[r]) over the turns.
  template <int ROWS, int COLS>
  static void Slopes(const Move& move, const V* psi, const V* lambda, int64_t from, int64_t to,
                     const I* exchange, V* slopes) {
    constexpr int kRows = ROWS < kRowsAtOnce ? ROWS : kRowsAtOnce;
    for (int r0 = 0; r0 < ROWS; r0 += kRows) {
      V re[kRows][COLS], im[kRows][COLS];
#pragma GCC unroll 4
      for (int r = 0; r < kRows; ++r)
#pragma GCC unroll 4
        for (int j = 0; j < COLS; ++j) {
          re[r][j] = slopes[2 * ((r0 + r) * COLS + j)];
          im[r][j] = slopes[2 * ((r0 + r) * COLS + j) + 1];
        }
      for (int64_t turn = from; turn < to; ++turn) {
        const int64_t first = First<ROWS>(move, turn);
        const Inputs<ROWS, COLS> in(move, psi, first, exchange);
#pragma GCC unroll 4
        for (int r = 0; r < kRows; ++r) {
          const V* at = lambda + 2 * (first + move.offset[r0 + r]);
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
          slopes[2 * ((r0 + r) * COLS + j)] = re[r][j];
          slopes[2 * ((r0 + r) * COLS + j) + 1] = im[r][j];
        }
    }
  }

  template <int ROWS, int COLS>
  static void SparseSlopes(const Move& move, const V* psi, const V* lambda, int64_t from,
                           int64_t to, const I* exchange, V* slopes) {
    for (int i = 0; i < move.changed; ++i) {
      const int r = move.out[i];
      for (int term = 0; term < move.slopes[i]; ++term) {
        const int j = move.slope_input[i][term];
        V re = slopes[2 * (r * COLS + j)], im = slopes[2 * (r * COLS + j) + 1];
        for (int64_t turn = from; turn < to; ++turn) {
          const int64_t first = First<ROWS>(move, turn);
          V xr, xi;
          Input<ROWS, COLS>(move, psi + 2 * first, j, exchange, &xr, &xi);
          const V* l = lambda + 2 * (first + move.offset[r]);
          re += xr * l[0] + xi * l[1];
          im += xi * l[0] - xr * l[1];
        }
        slopes[2 * (r * COLS + j)] = re;
        slopes[2 * (r * COLS + j) + 1] = im;
      }
    }
  }

  // From sums over groups, lane by lane, to sums in double by sample.
  static void Flush(const Move& move, const V* slopes, double* sums, int32_t samples) {
    const int size = move.cols;  // D: lanes hold the patterns that rows lack
    for (int r = 0; r < move.rows; ++r)
      for (int j = 0; j < move.cols; ++j)
        for (int part = 0; part < 2; ++part) {
          const T* from = reinterpret_cast<const T*>(&slopes[2 * (r * move.cols + j) + part]);
          if (samples == kLanes) {
            double* to = sums + (2 * (move.col[j][0] * size + move.row[r][0]) + part) * samples;
            for (int lane = 0; lane < kLanes; ++lane) to[lane] += static_cast<double>(from[lane]);
            continue;
          }
          for (int lane = 0; lane < kLanes; ++lane) {
            const int entry = move.col[j][lane] * size + move.row[r][lane];
            sums[(2 * entry + part) * samples + (lane & (samples - 1))] +=
                static_cast<double>(from[lane]);
          }
        }
  }

  template <int ROWS, int COLS>
  static void ForwardBlock(const Move& move, V* state, int64_t groups) {
    I exchange[4];
    for (int d = 0; d < COLS / ROWS; ++d) exchange[d] = Exchange(move.exchange[d]);
    if (move.sparse)
      Sparse<ROWS, COLS>(move, move.matrix, state, 0, groups / ROWS, exchange);
    else
      Dense<ROWS, COLS>(move, move.matrix, state, 0, groups / ROWS, exchange);
  }

  template <int ROWS, int COLS>
  static void BackwardBlock(const Move& move, V* psi, V* lambda, int64_t groups, double* sums,
                            int32_t samples) {
    if (!move.wanted && !move.undone) return;
    I exchange[4];
    for (int d = 0; d < COLS / ROWS; ++d) exchange[d] = Exchange(move.exchange[d]);
    V slopes[2 * ROWS * COLS] = {};
    const int64_t turns = groups / ROWS;
    for (int64_t from = 0; from < turns; from += kStrip) {
      const int64_t to = from + kStrip < turns ? from + kStrip : turns;
      if (move.sparse) {
        if (move.wanted) SparseSlopes<ROWS, COLS>(move, psi, lambda, from, to, exchange, slopes);
        if (move.undone) {
          Sparse<ROWS, COLS>(move, move.inverse, psi, from, to, exchange);
          Sparse<ROWS, COLS>(move, move.inverse, lambda, from, to, exchange);
        }
      } else {
        if (move.wanted) Slopes<ROWS, COLS>(move, psi, lambda, from, to, exchange, slopes);
        if (move.undone) {
          Dense<ROWS, COLS>(move, move.inverse, psi, from, to, exchange);
          Dense<ROWS, COLS>(move, move.inverse, lambda, from, to, exchange);
        }
      }
    }
    if (move.wanted) Flush(move, slopes, sums, samples);
  }

  static int64_t ChunkBase(const Window& window, int64_t chunk) {
    int64_t group = 0;
    for (int bit = 0; bit < window.outside_bits; ++bit)
      group |= (chunk >> bit & 1) << window.outside[bit];
    return group;
  }

  template <bool GATHER>
  static void Copy(const Window& window, V* state, int64_t base, V* buffer) {
    const int64_t run = int64_t{2} << window.run_bits;  // vectors
    const int64_t runs = int64_t{1} << (window.chunk_bits - window.run_bits);
    for (int64_t i = 0; i < runs; ++i) {
      V* far = state + 2 * (base + window.runs[i]);
      V* near = buffer + i * run;
      for (int64_t at = 0; at < run; ++at) {
        if constexpr (GATHER)
          near[at] = far[at];
        else
          far[at] = near[at];
      }
    }
  }

  static void Forward(const Window& window, const Move* moves, T* state_, int64_t chunk,
                      T* buffer_) {
    V* state = reinterpret_cast<V*>(state_);
    V* buffer = reinterpret_cast<V*>(buffer_);
    const int64_t base = ChunkBase(window, chunk), groups = int64_t{1} << window.chunk_bits;
    V* at = window.in_place ? state + 2 * base : buffer;
    if (!window.in_place) Copy<true>(window, state, base, buffer);
    for (int i = window.first; i < window.first + window.count; ++i) {
      const Move& move = moves[i];
      switch (move.rows * 8 + move.cols) {
        case 4 * 8 + 4:
          ForwardBlock<4, 4>(move, at, groups);
          break;
        case 2 * 8 + 4:
          ForwardBlock<2, 4>(move, at, groups);
          break;
        case 1 * 8 + 4:
          ForwardBlock<1, 4>(move, at, groups);
          break;
        case 2 * 8 + 2:
          ForwardBlock<2, 2>(move, at, groups);
          break;
        case 1 * 8 + 2:
          ForwardBlock<1, 2>(move, at, groups);
          break;
      }
    }
    if (!window.in_place) Copy<false>(window, state, base, buffer);
  }

  static void Backward(const Window& window, const Move* moves, T* psi_, T* lambda_, int64_t chunk,
                       T* buffer_, double* sums, int32_t samples) {
    V* psi = reinterpret_cast<V*>(psi_);
    V* lambda = reinterpret_cast<V*>(lambda_);
    V* buffer = reinterpret_cast<V*>(buffer_);
    V* second = buffer + kChunkBytes / sizeof(V);
    const int64_t base = ChunkBase(window, chunk), groups = int64_t{1} << window.chunk_bits;
    V* p = window.in_place ? psi + 2 * base : buffer;
    V* l = window.in_place ? lambda + 2 * base : second;
    if (!window.in_place) {
      Copy<true>(window, psi, base, buffer);
      Copy<true>(window, lambda, base, second);
    }
    for (int i = window.first + window.count - 1; i >= window.first; --i) {
      const Move& move = moves[i];
      double* to = sums + static_cast<int64_t>(i - window.first) * kSums * samples;
      switch (move.rows * 8 + move.cols) {
        case 4 * 8 + 4:
          BackwardBlock<4, 4>(move, p, l, groups, to, samples);
          break;
        case 2 * 8 + 4:
          BackwardBlock<2, 4>(move, p, l, groups, to, samples);
          break;
        case 1 * 8 + 4:
          BackwardBlock<1, 4>(move, p, l, groups, to, samples);
          break;
        case 2 * 8 + 2:
          BackwardBlock<2, 2>(move, p, l, groups, to, samples);
          break;
        case 1 * 8 + 2:
          BackwardBlock<1, 2>(move, p, l, groups, to, samples);
          break;
      }
    }
    if (!window.in_place) {
      Copy<false>(window, psi, base, buffer);
      Copy<false>(window, lambda, base, second);
    }
  }

  static void Start(T* state, int64_t groups, int32_t samples, const T* initial) {
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
  static void Fold(V* values, int bits) {
    for (int64_t half = 1; half < int64_t{1} << bits; half *= 2)
      for (int64_t at = 0; at < int64_t{1} << bits; at += 2 * half)
        for (int64_t i = at; i < at + half; ++i) {
          const V a = values[i], b = values[i + half];
          values[i] = a + b;
          values[i + half] = a - b;
        }
  }

  static int FoldBits(int64_t count) {
    int bits = 0;
    while (bits < kFoldBits && int64_t{2} << bits <= count) ++bits;
    return bits;
  }

  static void Measure(const Strings& strings, const T* psi_, int64_t first, int64_t count,
                      double* sums) {
    const V* psi = reinterpret_cast<const V*>(psi_);
    const int bits = FoldBits(count);
    const int64_t size = int64_t{1} << bits;
    const I exchange = Exchange(strings.exchange);
    const bool diagonal = strings.flip == 0 && strings.exchange == 0;
    V re[1 << kFoldBits], im[1 << kFoldBits];
    for (int64_t at = first; at < first + count; at += size) {
      for (int64_t i = 0; i < size; ++i) {
        const V* x = psi + 2 * (at + i);
        if (diagonal) {
          re[i] = x[0] * x[0] + x[1] * x[1];
        } else {
          const V* y = psi + 2 * ((at + i) ^ strings.flip);
          const V yr = __builtin_shuffle(y[0], exchange), yi = __builtin_shuffle(y[1], exchange);
          re[i] = x[0] * yr + x[1] * yi;
          im[i] = x[0] * yi - x[1] * yr;
        }
      }
      Fold(re, bits);
      if (!diagonal) Fold(im, bits);
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

  static void Weigh(const Strings& strings, const T* psi_, T* lambda_, int64_t first, int64_t count,
                    const T* weights_, bool add) {
    const V* psi = reinterpret_cast<const V*>(psi_);
    const V* weights = reinterpret_cast<const V*>(weights_);
    V* lambda = reinterpret_cast<V*>(lambda_);
    const int bits = FoldBits(count);
    const int64_t size = int64_t{1} << bits;
    const I exchange = Exchange(strings.exchange);
    const bool diagonal = strings.flip == 0 && strings.exchange == 0;
    V re[1 << kFoldBits], im[1 << kFoldBits];
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
      Fold(re, bits);
      if (!diagonal) Fold(im, bits);
      for (int64_t i = 0; i < size; ++i) {
        V* to = lambda + 2 * (at - first + i);
        V lr, li;
        if (diagonal) {
          const V* x = psi + 2 * (at + i);
          lr = re[i] * x[0];
          li = re[i] * x[1];
        } else {
          const V* y = psi + 2 * ((at + i) ^ strings.flip);
          const V yr = __builtin_shuffle(y[0], exchange), yi = __builtin_shuffle(y[1], exchange);
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

  static constexpr Kernels<T> kTable = {kLanes,  Forward, Backward, Start,
                                        Measure, Weigh,   Dot,      Combine};
};

}  // namespace

extern const Kernels<float> kFloat;
extern const Kernels<double> kDouble;
const Kernels<float> kFloat = Code<float>::kTable;
const Kernels<double> kDouble = Code<double>::kTable;

}  // namespace QFLEET_SET
}  // namespace qfleet
