#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <new>
#include <stdexcept>

#include "parts.h"

namespace qfleet {

template <class T>
std::unique_ptr<typename Sweep<T>::Buffer> Sweep<T>::Take(int64_t reals) {
  {
    std::lock_guard<std::mutex> lock(pool_mutex_);
    for (auto& buffer : pool_)
      if (buffer->reals == reals) {
        std::unique_ptr<Buffer> taken = std::move(buffer);
        buffer = std::move(pool_.back());
        pool_.pop_back();
        return taken;
      }
  }
  return std::make_unique<Buffer>(reals);
}

template <class T>
void Sweep<T>::Give(std::unique_ptr<Buffer> buffer) {
  if (buffer->reals * static_cast<int64_t>(sizeof(T)) > kPooledBytes) return;
  std::lock_guard<std::mutex> lock(pool_mutex_);
  pool_.push_back(std::move(buffer));
}

template <class T>
Sweep<T>::Sweep(std::shared_ptr<const Program> program, const Kernels<T>& kernels)
    : program_(std::move(program)), kernels_(kernels) {
  // A chunk's buffer holds so many bits, the lanes' among them.
  const size_t most = Log2(kChunkBytes / (2 * sizeof(T)));
  const size_t lanes = std::min(Log2(kMaxLanes), program_->qubits);
  for (const Reach& reach : program_->reaches)
    if (reach.bits.size() > most || reach.bits.size() < lanes ||
        reach.bits[lanes - 1] != static_cast<int64_t>(lanes) - 1)
      throw std::invalid_argument("a window is not a chunk's");
}

template <class T>
Sweep<T>::~Sweep() = default;

Shape ShapeFor(int32_t qubits, int32_t lanes, int32_t real_bytes, int64_t batch, int64_t threads,
               int32_t across_at_most) {
  const int32_t chunk = Log2(kChunkBytes / (2 * lanes * real_bytes));
  const bool free = across_at_most == kAnyLanes;
  const int32_t most = std::min({Log2(lanes), qubits, across_at_most});
  // Half a chunk, where lanes can make it so small: both states, and what else is near.
  int32_t across = std::clamp(qubits - (chunk - 1), 0, most);
  const auto tiles = [&] { return (batch + (lanes >> across) - 1) / (lanes >> across); };
  // Lanes without an example, and threads without a tile, take up qubits instead.
  while (across < most && ((lanes >> across) / 2 >= batch || (free && tiles() < threads))) ++across;
  Shape shape;
  shape.lane_qubits = across;
  shape.samples = lanes >> across;
  shape.tiles = tiles();
  shape.groups = int64_t{1} << (qubits - across);
  shape.tile_reals = shape.groups * 2 * lanes;
  shape.shared_tile = threads > 1 && qubits - across > chunk &&
                      (shape.tile_reals * real_bytes > kSharedTile || shape.tiles < threads);
  return shape;
}

template <class T>
Shape Sweep<T>::ShapeOf(const Batch& batch) const {
  return ShapeFor(program_->qubits, kernels_.lanes, sizeof(T), batch.size, batch.threads,
                  batch.across_at_most);
}

template <class T>
int64_t Sweep<T>::Kept(const Shape& shape, int64_t most) const {
  const int64_t fit = most / (shape.tile_reals * static_cast<int64_t>(sizeof(T)));
  return std::min(shape.tiles, std::max<int64_t>(fit, 1)) * shape.tile_reals;
}

template <class T>
const typename Sweep<T>::Layout& Sweep<T>::LayoutFor(const Shape& shape) {
  std::lock_guard<std::mutex> lock(mutex_);
  std::unique_ptr<Layout>& slot = layouts_[shape.lane_qubits];
  if (slot) return *slot;
  auto layout = std::make_unique<Layout>();
  const Program& program = *program_;
  const int32_t across = shape.lane_qubits, groups_bits = Log2(shape.groups);
  const int32_t samples_bits = Log2(shape.samples);
  const int32_t lanes = kernels_.lanes;

  // Without reaches the whole state is one chunk: the prefix's window, and all the rest's.
  std::vector<Reach> reaches = program.reaches;
  if (reaches.empty()) {
    std::vector<int64_t> all;
    for (int32_t bit = 0; bit < program.qubits; ++bit) all.push_back(bit);
    const int32_t prefix = static_cast<int32_t>(program.prefix);
    const int32_t count = static_cast<int32_t>(program.blocks.size());
    if (prefix) reaches.push_back({0, prefix, all});
    if (count > prefix) reaches.push_back({prefix, count - prefix, all});
  }
  layout->runs.resize(reaches.size());
  layout->outside.resize(reaches.size());
  for (size_t w = 0; w < reaches.size(); ++w) {
    std::vector<int32_t> local;  // bits of the group index
    for (int64_t bit : reaches[w].bits)
      if (bit >= across) local.push_back(static_cast<int32_t>(bit) - across);
    Window window = {};
    window.first = reaches[w].first;
    window.count = reaches[w].count;
    window.chunk_bits = static_cast<int32_t>(local.size());
    while (window.run_bits < window.chunk_bits && local[window.run_bits] == window.run_bits)
      ++window.run_bits;
    window.in_place = window.run_bits == window.chunk_bits;
    const std::vector<int32_t> high(local.begin() + window.run_bits, local.end());
    for (int64_t i = 0; i < int64_t{1} << high.size(); ++i)
      layout->runs[w].push_back(Spread(i, high));
    for (int32_t bit = 0; bit < groups_bits; ++bit)
      if (!std::binary_search(local.begin(), local.end(), bit)) layout->outside[w].push_back(bit);
    window.runs = layout->runs[w].data();
    window.outside = layout->outside[w].data();
    window.outside_bits = static_cast<int32_t>(layout->outside[w].size());
    layout->windows.push_back(window);
    layout->chunks.push_back(int64_t{1} << window.outside_bits);

    for (int32_t b = window.first; b < window.first + window.count; ++b) {
      const Block& block = program.blocks[b];
      const int32_t size = block.size();
      Move move = {};
      // For each of the block's qubits: its bit among lanes, or among the chunk's groups.
      int32_t lane_bit[2] = {-1, -1}, group_bit[2] = {-1, -1};
      std::vector<int> outer, inner;  // qubits outside and inside lanes, upper bit first
      for (int q = 0; q < block.qubits; ++q) {
        if (block.bits[q] < across) {
          lane_bit[q] = samples_bits + static_cast<int32_t>(block.bits[q]);
          inner.push_back(q);
        } else {
          const int32_t bit = static_cast<int32_t>(block.bits[q]) - across;
          group_bit[q] = static_cast<int32_t>(std::lower_bound(local.begin(), local.end(), bit) -
                                              local.begin());
          outer.push_back(q);
        }
      }
      move.rows = 1 << outer.size();
      move.cols = size;
      if (outer.size() == 1) move.low = group_bit[outer[0]];
      if (outer.size() == 2) {
        move.low = std::min(group_bit[0], group_bit[1]);
        move.high = std::max(group_bit[0], group_bit[1]);
      }
      // The matrix index of a qubit's value, and of several.
      const auto entry = [&](const std::vector<int>& qubits, int pattern) {
        int index = 0;
        for (size_t i = 0; i < qubits.size(); ++i)
          index |= (pattern >> (qubits.size() - 1 - i) & 1) << (block.qubits - 1 - qubits[i]);
        return index;
      };
      const auto lane_pattern = [&](int lane) {
        int pattern = 0;
        for (int q : inner) pattern = 2 * pattern + (lane >> lane_bit[q] & 1);
        return pattern;
      };
      const int patterns = 1 << inner.size();
      for (int r = 0; r < move.rows; ++r) {
        for (size_t i = 0; i < outer.size(); ++i)
          move.offset[r] |= static_cast<int64_t>(r >> (outer.size() - 1 - i) & 1)
                            << group_bit[outer[i]];
        for (int lane = 0; lane < lanes; ++lane) {
          move.row[r][lane] =
              static_cast<uint8_t>(entry(outer, r) | entry(inner, lane_pattern(lane)));
          for (int d = 0; d < patterns; ++d)
            move.col[r * patterns + d][lane] =
                static_cast<uint8_t>(entry(outer, r) | entry(inner, lane_pattern(lane) ^ d));
        }
      }
      for (int d = 0; d < patterns; ++d)
        for (size_t i = 0; i < inner.size(); ++i)
          move.exchange[d] |= (d >> (inner.size() - 1 - i) & 1) << lane_bit[inner[i]];
      // On a lane where the row is the identity's, its input is itself.
      const auto needed = [&](int64_t entries, int r, int j, bool identity) {
        for (int lane = 0; lane < lanes; ++lane) {
          const int row = move.row[r][lane], col = move.col[j][lane];
          const bool still = !(entries >> (row * size) & ((1 << size) - 1));
          if ((entries >> (row * size + col) & 1) || (identity && still && row == col)) return true;
        }
        return false;
      };
      int filled = 0;
      for (int r = 0; r < move.rows; ++r) {
        bool changes = false;
        for (int j = 0; j < size; ++j) changes |= needed(block.entries, r, j, false);
        if (!changes) continue;
        const int i = move.changed++;
        move.out[i] = r;
        for (int j = 0; j < size; ++j) {
          if (needed(block.entries, r, j, true)) move.input[i][move.terms[i]++] = j;
          if (needed(block.closure, r, j, false)) move.slope_input[i][move.slopes[i]++] = j;
        }
        filled += move.terms[i];
      }
      move.sparse = filled <= move.rows * size / 2;
      layout->moves.push_back(move);
      layout->place.push_back(layout->arena);
      layout->arena += 2 * move.rows * move.cols * lanes;
    }
  }
  layout->z.resize(program.strings.size());
  layout->ys.resize(program.strings.size());
  for (size_t g = 0; g < program.strings.size(); ++g) {
    const Flipped& group = program.strings[g];
    for (size_t t = 0; t < group.z.size(); ++t) {
      layout->z[g].push_back(group.z[t] >> across);
      layout->ys[g].push_back(static_cast<int32_t>(group.ys[t]));
    }
    Strings strings;
    strings.flip = group.flip >> across;
    strings.exchange =
        static_cast<int32_t>((group.flip & ((int64_t{1} << across) - 1)) << samples_bits);
    strings.count = static_cast<int32_t>(group.z.size());
    strings.z = layout->z[g].data();
    strings.ys = layout->ys[g].data();
    layout->strings.push_back(strings);
  }
  slot = std::move(layout);
  return *slot;
}

// Writes a block's matrices as its move wants them; `values` is [D * D] (re, im) [samples].
template <class T>
static void Spell(const Move& move, const double* values, int64_t samples, int32_t tile_samples,
                  int32_t lanes, bool inverse, T* out) {
  for (int r = 0; r < move.rows; ++r)
    for (int j = 0; j < move.cols; ++j)
      for (int part = 0; part < 2; ++part, out += lanes) {
        if (samples == 1 && move.rows == move.cols) {  // the same on all lanes
          const int entry = inverse ? j * move.cols + r : r * move.cols + j;
          const double value = values[2 * entry + part];
          std::fill_n(out, lanes, static_cast<T>(inverse && part ? -value : value));
          continue;
        }
        for (int lane = 0; lane < lanes; ++lane) {
          const int row = move.row[r][lane], col = move.col[j][lane];
          const int entry = inverse ? col * move.cols + row : row * move.cols + col;
          const int64_t sample = samples == 1 ? 0 : lane & (tile_samples - 1);
          const double value = values[(2 * entry + part) * samples + sample];
          out[lane] = static_cast<T>(inverse && part ? -value : value);
        }
      }
}

// Whether every row of a single [D * D] (re, im) matrix has a 1 and zeros.
static bool IsPermutation(const std::vector<double>& values, int32_t size) {
  for (int32_t row = 0; row < size; ++row) {
    int ones = 0, zeros = 0;
    for (int32_t i = 2 * row * size; i < 2 * (row + 1) * size; ++i) {
      ones += i % 2 == 0 && std::abs(values[i] - 1) < kExact;
      zeros += std::abs(values[i]) < kExact;
    }
    if (ones != 1 || zeros != 2 * size - 1) return false;
  }
  return true;
}

template <class T>
void Sweep<T>::Prepare(Call* call) {
  const Program& program = *program_;
  const Layout& layout = *call->layout;
  call->runs = std::make_unique<Runs>(program, call->batch->shared);
  call->moves = layout.moves;
  call->matrices = Take(layout.arena);
  if (call->both) call->inverses = Take(layout.arena);
  std::vector<double> values;
  for (size_t b = 0; b < program.blocks.size(); ++b) {
    const Block& block = program.blocks[b];
    Move& move = call->moves[b];
    move.wanted = block.wanted[call->mode];
    move.undone = block.undone[call->mode];
    if (block.each) continue;
    BlockMatrices(program, block, *call->runs, call->batch->shared, nullptr, 0, 1, &values);
    move.permutes = IsPermutation(values, block.size());
    T* to = call->matrices->data + layout.place[b];
    Spell(move, values.data(), 1, call->shape.samples, kernels_.lanes, false, to);
    move.matrix = to;
    if (!call->both) continue;
    to = call->inverses->data + layout.place[b];
    Spell(move, values.data(), 1, call->shape.samples, kernels_.lanes, true, to);
    move.inverse = to;
  }
}

// The moves of one tile: those of `call`, and the matrices of its own examples, which are in the
// returned memory.
template <class T>
std::unique_ptr<typename Sweep<T>::Buffer> Sweep<T>::TileMoves(const Call& call, int64_t tile,
                                                               bool inverse,
                                                               std::vector<Move>* moves) {
  const Program& program = *program_;
  *moves = call.moves;
  int64_t reals = 0;
  for (size_t b = 0; b < program.blocks.size(); ++b)
    if (program.blocks[b].each) reals += 2 * kernels_.lanes * (*moves)[b].rows * (*moves)[b].cols;
  std::unique_ptr<Buffer> arena = Take(reals);
  T* to = arena->data;
  std::vector<double> values;
  for (size_t b = 0; b < program.blocks.size(); ++b) {
    const Block& block = program.blocks[b];
    Move& move = (*moves)[b];
    if (!block.each || (inverse && !move.undone)) continue;
    BlockMatrices(program, block, *call.runs, call.batch->shared, call.each(tile, program.each),
                  call.present(tile), call.shape.samples, &values);
    Spell(move, values.data(), call.shape.samples, call.shape.samples, kernels_.lanes, inverse, to);
    (inverse ? move.inverse : move.matrix) = to;
    to += 2 * kernels_.lanes * move.rows * move.cols;
  }
  return arena;
}

namespace {

// What a thread keeps for the chunks that it copies together.
template <class T>
T* ChunkBuffer() {
  struct Owned {
    T* data = static_cast<T*>(std::aligned_alloc(kAlignment, 2 * kChunkBytes));
    ~Owned() { std::free(data); }
  };
  thread_local Owned owned;
  if (!owned.data) throw std::bad_alloc();
  return owned.data;
}

}  // namespace

// One window's blocks.
template <class T>
void Sweep<T>::Through(const Window& window, int64_t chunks, const std::vector<Move>& moves,
                       const Parallel& parallel, T* psi) {
  const int64_t cost = window.count * (int64_t{4} << window.chunk_bits);
  InPieces(parallel, chunks, cost, [&](int64_t, int64_t from, int64_t to) {
    T* buffer = window.in_place ? nullptr : ChunkBuffer<T>();
    for (int64_t chunk = from; chunk < to; ++chunk)
      kernels_.forward(window, moves.data(), psi, chunk, buffer);
  });
}

template <class T>
void Sweep<T>::Evolve(const Call& call, int64_t tile, const Parallel& parallel, T* psi) {
  const Layout& layout = *call.layout;
  const Program& program = *program_;
  if (call.batch->seeds) {
    Plant(call, tile, psi);
  } else if (call.prefix) {
    const T* from = call.prefix->data;
    InPieces(parallel, call.shape.tile_reals, 1, [&](int64_t, int64_t first, int64_t to) {
      std::memcpy(psi + first, from + first, (to - first) * sizeof(T));
    });
  } else {
    kernels_.start(psi, call.shape.groups, call.shape.samples,
                   call.initial.empty() ? nullptr : call.initial.data());
    for (size_t w = 0; w < layout.windows.size(); ++w)
      if (layout.windows[w].first < program.prefix)
        Through(layout.windows[w], layout.chunks[w], call.moves, parallel, psi);
  }
  if (tile >= 0) Pass(call, tile, parallel, psi);
}

// All blocks after the prefix.
template <class T>
void Sweep<T>::Pass(const Call& call, int64_t tile, const Parallel& parallel, T* psi) {
  const Layout& layout = *call.layout;
  std::vector<Move> moves;
  std::unique_ptr<Buffer> arena = TileMoves(call, tile, false, &moves);
  for (size_t w = 0; w < layout.windows.size(); ++w)
    if (layout.windows[w].first >= program_->prefix)
      Through(layout.windows[w], layout.chunks[w], moves, parallel, psi);
  Give(std::move(arena));
}

template <class T>
void Sweep<T>::Measure(const Call& call, int64_t tile, const Parallel& parallel, const T* psi,
                       T* values) {
  const Program& program = *program_;
  const int32_t lanes = kernels_.lanes, samples = call.shape.samples;
  const int64_t unit = std::min<int64_t>(int64_t{1} << kFoldBits, call.shape.groups);
  const int64_t units = call.shape.groups / unit, present = call.present(tile);
  std::vector<double> totals(present * program.readouts);
  for (int64_t b = 0; b < present; ++b)
    std::copy(program.offsets.begin(), program.offsets.end(),
              totals.begin() + b * program.readouts);
  for (size_t g = 0; g < program.strings.size(); ++g) {
    const Strings& strings = call.layout->strings[g];
    const Flipped& group = program.strings[g];
    const int64_t width = strings.count * lanes;
    std::vector<double> sums(std::min(units, kPieces) * width);
    InPieces(parallel, units, unit * 8, [&](int64_t piece, int64_t from, int64_t to) {
      kernels_.measure(strings, psi, from * unit, (to - from) * unit, &sums[piece * width]);
    });
    for (int32_t t = 0; t < strings.count; ++t)
      for (int32_t lane = 0; lane < lanes; ++lane) {
        const int64_t sample = lane & (samples - 1);
        if (sample >= present) continue;
        double sum = 0;
        for (size_t piece = 0; piece < sums.size() / width; ++piece)
          sum += sums[piece * width + t * lanes + lane];
        if (__builtin_parityll(group.z[t] & (lane / samples))) sum = -sum;
        for (int64_t k = 0; k < program.readouts; ++k)
          totals[sample * program.readouts + k] +=
              sum * program.weights[(group.first + t) * program.readouts + k];
      }
  }
  for (size_t i = 0; i < totals.size(); ++i)
    values[tile * samples * program.readouts + i] = static_cast<T>(totals[i]);
}

template <class T>
void Sweep<T>::Weigh(const Call& call, int64_t tile, const Parallel& parallel, const T* psi,
                     const T* upstream, T* lambda) {
  const Program& program = *program_;
  const int32_t lanes = kernels_.lanes, samples = call.shape.samples;
  const int64_t unit = std::min<int64_t>(int64_t{1} << kFoldBits, call.shape.groups);
  const int64_t present = call.present(tile);
  if (program.strings.empty()) std::memset(lambda, 0, call.shape.tile_reals * sizeof(T));
  for (size_t g = 0; g < program.strings.size(); ++g) {
    const Strings& strings = call.layout->strings[g];
    const Flipped& group = program.strings[g];
    std::unique_ptr<Buffer> weights = Take((strings.count * lanes + 15) / 16 * 16);
    for (int32_t t = 0; t < strings.count; ++t)
      for (int32_t lane = 0; lane < lanes; ++lane) {
        const int64_t sample = lane & (samples - 1);
        double weight = 0;
        for (int64_t k = 0; sample < present && k < program.readouts; ++k)
          weight += program.weights[(group.first + t) * program.readouts + k] *
                    static_cast<double>(upstream[(tile * samples + sample) * program.readouts + k]);
        if (__builtin_parityll(group.z[t] & (lane / samples))) weight = -weight;
        weights->data[t * lanes + lane] = static_cast<T>(weight);
      }
    InPieces(parallel, call.shape.groups / unit, unit * 8, [&](int64_t, int64_t from, int64_t to) {
      kernels_.weigh(strings, psi, lambda + from * unit * 2 * lanes, from * unit,
                     (to - from) * unit, weights->data, g > 0);
    });
    Give(std::move(weights));
  }
}

template <class T>
void Sweep<T>::Back(const Call& call, int64_t tile, const Parallel& parallel, T* psi, T* lambda,
                    bool by_each, std::vector<std::vector<double>>* run_sums, double* shared_slopes,
                    double* each_slopes) {
  const Layout& layout = *call.layout;
  const Program& program = *program_;
  const int32_t samples = call.shape.samples;
  std::vector<Move> moves;
  std::unique_ptr<Buffer> arena = TileMoves(call, tile, true, &moves);
  for (size_t left = layout.windows.size(); left > 0; --left) {
    const Window& window = layout.windows[left - 1];
    if (window.first < program.prefix) break;
    const int64_t chunks = layout.chunks[left - 1];
    const int64_t width = static_cast<int64_t>(window.count) * kSums * samples;
    const int64_t cost = window.count * (int64_t{16} << window.chunk_bits);
    std::vector<double> sums(width * std::min(chunks, kPieces));
    InPieces(parallel, chunks, cost, [&](int64_t piece, int64_t from, int64_t to) {
      T* buffer = window.in_place ? nullptr : ChunkBuffer<T>();
      for (int64_t chunk = from; chunk < to; ++chunk)
        kernels_.backward(window, moves.data(), psi, lambda, chunk, buffer, &sums[piece * width],
                          samples);
    });
    for (size_t at = width; at < sums.size(); ++at) sums[at % width] += sums[at];
    std::vector<double> total;
    for (int32_t b = window.first; b < window.first + window.count; ++b) {
      const Block& block = program.blocks[b];
      if (!moves[b].wanted) continue;
      const double* from = &sums[(b - window.first) * kSums * samples];
      if (block.each) {
        BlockSlopes(program, block, *call.runs, call.batch->shared, call.each(tile, program.each),
                    call.present(tile), samples, by_each, from, run_sums, shared_slopes,
                    by_each ? each_slopes + tile * samples * program.each : nullptr);
        continue;
      }
      total.assign(2 * block.size() * block.size(), 0.0);
      for (size_t i = 0; i < total.size(); ++i)
        for (int32_t s = 0; s < samples; ++s) total[i] += from[i * samples + s];
      BlockSlopes(program, block, *call.runs, call.batch->shared, nullptr, 0, 1, by_each,
                  total.data(), run_sums, shared_slopes, nullptr);
    }
  }
  Give(std::move(arena));
}

// Evolves one tile through what comes before the first exponent, where several tiles can share it.
template <class T>
void Sweep<T>::Begin(Call* call) {
  call->initial.assign(program_->initial.begin(), program_->initial.end());
  Prepare(call);
  const int64_t bytes = call->shape.tile_reals * static_cast<int64_t>(sizeof(T));
  if (!program_->prefix || call->shape.tiles < 2 || bytes > kPrefixBytes) return;
  std::unique_ptr<Buffer> prefix = Take(call->shape.tile_reals);
  Evolve(*call, -1, call->batch->parallel, prefix->data);
  call->prefix = std::move(prefix);
}

template <class T>
void Sweep<T>::End(Call* call) {
  if (call->prefix) Give(std::move(call->prefix));
  Give(std::move(call->matrices));
  if (call->inverses) Give(std::move(call->inverses));
}

template <class T>
void Sweep<T>::Expectation(const Batch& batch, T* values, T* kept, int64_t kept_reals) {
  if (batch.size == 0) return;
  Call call(batch, ShapeOf(batch));
  call.layout = &LayoutFor(call.shape);
  Begin(&call);
  const int64_t reals = call.shape.tile_reals;
  const int64_t first_kept = call.shape.tiles - kept_reals / reals;
  OverTiles(call, [&](int64_t tile, const Parallel& parallel) {
    std::unique_ptr<Buffer> own;
    if (tile < first_kept) own = Take(reals);
    T* psi = own ? own->data : kept + (tile - first_kept) * reals;
    Evolve(call, tile, parallel, psi);
    Measure(call, tile, parallel, psi, values);
    if (own) Give(std::move(own));
  });
  End(&call);
}

template <class T>
void Sweep<T>::Gradient(const Batch& batch, const T* upstream, T* kept, int64_t kept_reals,
                        bool kept_is_ours, bool by_each, double* shared_slopes,
                        double* each_slopes) {
  BackOverTiles(batch, ShapeOf(batch), by_each, shared_slopes, each_slopes,
                [&](const Call& call, int64_t tile, const Parallel& parallel, const auto& take) {
                  T* lambda = take();
                  const int64_t reals = call.shape.tile_reals;
                  const int64_t first_kept = call.shape.tiles - kept_reals / reals;
                  T* psi = nullptr;
                  if (tile >= first_kept) psi = kept + (tile - first_kept) * reals;
                  if (!psi) {
                    psi = take();
                    Evolve(call, tile, parallel, psi);
                  } else if (!kept_is_ours) {
                    psi = static_cast<T*>(std::memcpy(take(), psi, reals * sizeof(T)));
                  }
                  Weigh(call, tile, parallel, psi, upstream, lambda);
                  return std::make_pair(psi, lambda);
                });
}

// Where bit i of a state's index is bit order[i] of another's: from one to the other by two tables.
class Reordered {
 public:
  Reordered(const int64_t* order, int32_t qubits) : half_(qubits / 2) {
    for (int64_t high = 0; high < 2; ++high) {
      const int32_t first = high ? half_ : 0, count = high ? qubits - half_ : half_;
      for (int64_t value = 0; value < int64_t{1} << count; ++value) {
        int64_t index = 0;
        for (int32_t bit = 0; bit < count; ++bit) index |= (value >> bit & 1) << order[first + bit];
        tables_[high].push_back(index);
      }
    }
  }
  int64_t operator()(int64_t index) const {
    return tables_[0][index & ((int64_t{1} << half_) - 1)] | tables_[1][index >> half_];
  }

 private:
  int32_t half_;
  std::vector<int64_t> tables_[2];
};

// Calls at(index of a real part in the tile, index of an amplitude in [B][2**N]) for all that the
// tile holds of examples that are present.
template <class At>
void Amplitudes(const Shape& shape, int32_t lanes, int64_t tile, int64_t present,
                const Reordered& reordered, const Parallel& parallel, const At& at) {
  const int64_t amplitudes = lanes / shape.samples, size = shape.groups * amplitudes;
  InPieces(parallel, shape.groups, lanes, [&](int64_t, int64_t from, int64_t to) {
    for (int64_t group = from; group < to; ++group)
      for (int64_t a = 0; a < amplitudes; ++a) {
        const int64_t y = reordered(group * amplitudes + a);
        for (int64_t s = 0; s < present; ++s)
          at(2 * lanes * group + a * shape.samples + s, (tile * shape.samples + s) * size + y);
      }
  });
}

template <class T>
void Sweep<T>::State(const Batch& batch, const int64_t* order, T* states) {
  if (batch.size == 0) return;
  Call call(batch, ShapeOf(batch));
  call.layout = &LayoutFor(call.shape);
  Begin(&call);
  const Reordered reordered(order, program_->qubits);
  const int32_t lanes = kernels_.lanes;
  OverTiles(call, [&](int64_t tile, const Parallel& parallel) {
    std::unique_ptr<Buffer> psi = Take(call.shape.tile_reals);
    Evolve(call, tile, parallel, psi->data);
    Amplitudes(call.shape, lanes, tile, call.present(tile), reordered, parallel,
               [&](int64_t real, int64_t amplitude) {
                 states[2 * amplitude] = psi->data[real];
                 states[2 * amplitude + 1] = psi->data[real + lanes];
               });
    Give(std::move(psi));
  });
  End(&call);
}

template <class T>
void Sweep<T>::StateGradient(const Batch& batch, const int64_t* order, const T* states,
                             const T* upstream, bool by_each, double* shared_slopes,
                             double* each_slopes) {
  const Reordered reordered(order, program_->qubits);
  const int32_t lanes = kernels_.lanes;
  BackOverTiles(batch, ShapeOf(batch), by_each, shared_slopes, each_slopes,
                [&](const Call& call, int64_t tile, const Parallel& parallel, const auto& take) {
                  T *psi = take(), *lambda = take();
                  std::memset(psi, 0, call.shape.tile_reals * sizeof(T));
                  std::memset(lambda, 0, call.shape.tile_reals * sizeof(T));
                  // dL = Re <upstream|d psi>, where the adjoint method has 2 Re <lambda|d psi>.
                  Amplitudes(call.shape, lanes, tile, call.present(tile), reordered, parallel,
                             [&](int64_t real, int64_t amplitude) {
                               psi[real] = states[2 * amplitude];
                               psi[real + lanes] = states[2 * amplitude + 1];
                               lambda[real] = upstream[2 * amplitude] / 2;
                               lambda[real + lanes] = upstream[2 * amplitude + 1] / 2;
                             });
                  return std::make_pair(psi, lambda);
                });
}

// Of the states of a span each is a tile, so that their scalar products are sums over groups.
template <class T>
Shape Sweep<T>::SpanShape(const Span& span) const {
  Shape shape;
  shape.lane_qubits = Log2(kernels_.lanes);
  shape.samples = 1;
  shape.tiles = span.states;
  shape.groups = int64_t{1} << (program_->qubits - shape.lane_qubits);
  shape.tile_reals = shape.groups * 2 * kernels_.lanes;
  shape.shared_tile = shape.tile_reals * static_cast<int64_t>(sizeof(T)) > kSharedTile;
  return shape;
}

template <class T>
int64_t Sweep<T>::SpanReals(const Span& span) const {
  return span.states * (int64_t{2} << program_->qubits);
}

template <class T>
Span Sweep<T>::SpanOf(const Batch& batch, int64_t room) const {
  const Program& program = *program_;
  const int64_t bytes = static_cast<int64_t>(sizeof(T)) * (int64_t{2} << program.qubits);
  if (program.each == 0 || (int64_t{1} << program.qubits) < kernels_.lanes) return Span();
  // In nanoseconds, roughly: to evolve an example, a product of two states, and what finding the
  // span and adding up its products takes, by the angles that each example turns.
  const double pass = static_cast<double>(int64_t{1} << program.qubits) / kPassesPerNanosecond;
  const double readouts = static_cast<double>(std::max<int64_t>(program.readouts, 1));
  const double example = program.cost * pass, product = 4 * readouts * pass;
  double left = static_cast<double>(batch.size) * example;
  for (int64_t b = 0; b < batch.size; ++b) {
    int64_t turned = 0;
    for (int64_t e = 0; e < program.each; ++e) turned += batch.each[b * program.each + e] != 0;
    if (turned > kMostTurned) return Span();
    left -= 300.0 * (1 << turned) + 5 * readouts * (1 << 2 * turned);
  }
  // states * (example + product * states) < left
  const double root = std::sqrt(std::max(0.0, example * example + 4 * product * left));
  const int64_t most = static_cast<int64_t>((root - example) / (2 * product));
  if (left <= 0 || most < 1) return Span();
  Span span =
      FindSpan(program, batch.each, batch.size, std::min({batch.size - 1, room / bytes - 2, most}));
  return span;
}

template <class T>
void Sweep<T>::SpanExpectation(const Batch& batch, const Span& span, T* values, T* states) {
  const Program& program = *program_;
  Batch own = batch;
  own.each = span.each.data();
  own.size = span.states;
  Call call(own, SpanShape(span));
  call.layout = &LayoutFor(call.shape);
  Begin(&call);
  const int64_t reals = call.shape.tile_reals, count = span.states;
  OverTiles(call, [&](int64_t tile, const Parallel& parallel) {
    Evolve(call, tile, parallel, states + tile * reals);
  });
  End(&call);

  // gram[k][i][j] = <i| O_k |j> for i <= j, strip by strip, so that a strip of all states is near.
  const int32_t lanes = kernels_.lanes;
  const int64_t unit = std::min<int64_t>(int64_t{1} << kFoldBits, call.shape.groups);
  const int64_t units = call.shape.groups / unit, width = 2 * program.readouts * count * count;
  std::vector<double> sums(std::min(units, kPieces) * width);
  InPieces(batch.parallel, units, width * unit, [&](int64_t piece, int64_t from, int64_t to) {
    std::unique_ptr<Buffer> image = Take(call.shape.tile_reals / units);
    for (int64_t strip = from * unit; strip < to * unit; strip += unit)
      for (int64_t k = 0; k < program.readouts; ++k)
        for (int64_t j = 0; j < count; ++j) {
          Apply(call, k, states + j * reals, image->data, strip, unit, false);
          for (int64_t i = 0; i <= j; ++i)
            kernels_.dot(states + i * reals + strip * 2 * lanes, image->data, unit,
                         &sums[piece * width + 2 * ((k * count + i) * count + j)]);
        }
    Give(std::move(image));
  });
  for (size_t at = width; at < sums.size(); ++at) sums[at % width] += sums[at];
  for (int64_t b = 0; b < batch.size; ++b)
    for (int64_t k = 0; k < program.readouts; ++k) {
      double value = program.offsets[k];
      for (int64_t x = span.first[b]; x < span.first[b + 1]; ++x)
        for (int64_t y = span.first[b]; y < span.first[b + 1]; ++y) {
          const int64_t i = std::min(span.state[x], span.state[y]);
          const int64_t j = std::max(span.state[x], span.state[y]);
          const double* entry = &sums[2 * ((k * count + i) * count + j)];
          const Complex product(entry[0], span.state[x] <= span.state[y] ? entry[1] : -entry[1]);
          value += (std::conj(span.weight[x]) * span.weight[y] * product).real();
        }
      values[b * program.readouts + k] = static_cast<T>(value);
    }
}

// out = (or +=) O_k state for groups first to first + count of a tile of one example.
template <class T>
void Sweep<T>::Apply(const Call& call, int64_t k, const T* state, T* out, int64_t first,
                     int64_t count, bool add) {
  const Program& program = *program_;
  const int32_t lanes = kernels_.lanes;
  for (size_t g = 0; g < program.strings.size(); ++g) {
    const Flipped& group = program.strings[g];
    std::unique_ptr<Buffer> weights = Take((call.layout->strings[g].count * lanes + 15) / 16 * 16);
    for (size_t t = 0; t < group.z.size(); ++t) {
      const double weight = program.weights[(group.first + t) * program.readouts + k];
      for (int32_t lane = 0; lane < lanes; ++lane)
        weights->data[t * lanes + lane] =
            static_cast<T>(__builtin_parityll(group.z[t] & lane) ? -weight : weight);
    }
    kernels_.weigh(call.layout->strings[g], state, out, first, count, weights->data, add || g > 0);
    Give(std::move(weights));
  }
  if (program.strings.empty() && !add) std::memset(out, 0, count * 2 * lanes * sizeof(T));
}

template <class T>
void Sweep<T>::SpanGradient(const Batch& batch, const Span& span, const T* upstream,
                            const T* states, double* shared_slopes) {
  const Program& program = *program_;
  const int64_t count = span.states;
  // With psi_b = sum_i c_bi |i>: lambda_i = sum_k O_k sum_j R^k_ij |j>, R^k_ij = sum_b u_bk
  // conj(c_bi) c_bj.
  std::vector<double> weights(2 * program.readouts * count * count);
  for (int64_t b = 0; b < batch.size; ++b)
    for (int64_t k = 0; k < program.readouts; ++k)
      for (int64_t x = span.first[b]; x < span.first[b + 1]; ++x)
        for (int64_t y = span.first[b]; y < span.first[b + 1]; ++y) {
          const Complex product = static_cast<double>(upstream[b * program.readouts + k]) *
                                  std::conj(span.weight[x]) * span.weight[y];
          double* entry = &weights[2 * ((k * count + span.state[x]) * count + span.state[y])];
          entry[0] += product.real();
          entry[1] += product.imag();
        }
  Batch own = batch;
  own.each = span.each.data();
  own.size = count;
  BackOverTiles(
      own, SpanShape(span), false, shared_slopes, nullptr,
      [&](const Call& call, int64_t tile, const Parallel& parallel, const auto& take) {
        T* lambda = take();
        const int64_t reals = call.shape.tile_reals;
        std::vector<const T*> all;
        for (int64_t j = 0; j < count; ++j) all.push_back(states + j * reals);
        T* psi = take();
        const int64_t unit = std::min<int64_t>(int64_t{1} << kFoldBits, call.shape.groups);
        for (int64_t k = 0; k < program.readouts; ++k) {
          const double* row = &weights[2 * (k * count + tile) * count];
          InPieces(parallel, call.shape.groups / unit, unit * count * 4,
                   [&](int64_t, int64_t from, int64_t to) {
                     kernels_.combine(all.data(), row, count, psi, from * unit, (to - from) * unit);
                   });
          InPieces(parallel, call.shape.groups / unit, unit * 8,
                   [&](int64_t, int64_t from, int64_t to) {
                     Apply(call, k, psi, lambda + from * unit * 2 * kernels_.lanes, from * unit,
                           (to - from) * unit, k > 0);
                   });
        }
        std::memcpy(psi, states + tile * reals, reals * sizeof(T));
        return std::make_pair(psi, lambda);
      });
}

template class Sweep<float>;
template class Sweep<double>;

}  // namespace qfleet
