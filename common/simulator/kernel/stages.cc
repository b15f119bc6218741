// A part of a state that is split over workers: one stage of it between two exchanges, what is
// exchanged, and readouts that need another worker's amplitudes.
#include "stages.h"

#include <cstring>

#include "parts.h"

namespace qfleet {

// A seed's amplitudes to their places, and 0 everywhere else.
template <class T>
void Sweep<T>::Plant(const Call& call, int64_t tile, T* psi) {
  const Batch& batch = *call.batch;
  const int32_t lanes = kernels_.lanes, samples = call.shape.samples;
  const int64_t amplitudes = lanes / samples;
  const std::vector<int32_t> bits(batch.seed_bits->begin(), batch.seed_bits->end());
  const int64_t width = int64_t{1} << bits.size();
  std::memset(psi, 0, call.shape.tile_reals * sizeof(T));
  for (int64_t v = 0; v < width; ++v) {
    const int64_t x = Spread(v, bits);
    T* to = psi + 2 * lanes * (x / amplitudes) + x % amplitudes * samples;
    for (int64_t s = 0; s < call.present(tile); ++s) {
      const double* from = batch.seeds + 2 * ((tile * samples + s) * width + v);
      to[s] = static_cast<T>(from[0]);
      to[s + lanes] = static_cast<T>(from[1]);
    }
  }
}

// dL = 2 Re <lambda|d psi>, so the slopes by a seed are 2 lambda where it lies.
template <class T>
void Sweep<T>::Harvest(const Call& call, int64_t tile, const T* lambda) {
  const Batch& batch = *call.batch;
  const int32_t lanes = kernels_.lanes, samples = call.shape.samples;
  const int64_t amplitudes = lanes / samples;
  const std::vector<int32_t> bits(batch.seed_bits->begin(), batch.seed_bits->end());
  const int64_t width = int64_t{1} << bits.size();
  for (int64_t v = 0; v < width; ++v) {
    const int64_t x = Spread(v, bits);
    const T* from = lambda + 2 * lanes * (x / amplitudes) + x % amplitudes * samples;
    for (int64_t s = 0; s < call.present(tile); ++s) {
      double* to = batch.seed_slopes + 2 * ((tile * samples + s) * width + v);
      to[0] = 2 * static_cast<double>(from[s]);
      to[1] = 2 * static_cast<double>(from[s + lanes]);
    }
  }
}

template <class T>
void Sweep<T>::StageForward(const Batch& batch, T* states) {
  if (batch.size == 0) return;
  Call call(batch, ShapeOf(batch));
  call.layout = &LayoutFor(call.shape);
  Begin(&call);
  OverTiles(call, [&](int64_t tile, const Parallel& parallel) {
    T* psi = states + tile * call.shape.tile_reals;
    if (batch.seeds) Plant(call, tile, psi);
    Pass(call, tile, parallel, psi);
  });
  End(&call);
}

template <class T>
void Sweep<T>::StageRead(const Batch& batch, const T* states, T* values) {
  if (batch.size == 0) return;
  Call call(batch, ShapeOf(batch));
  call.layout = &LayoutFor(call.shape);
  OverTiles(call, [&](int64_t tile, const Parallel& parallel) {
    Measure(call, tile, parallel, states + tile * call.shape.tile_reals, values);
  });
}

template <class T>
void Sweep<T>::StageWeigh(const Batch& batch, const T* states, const T* upstream, T* lambdas) {
  if (batch.size == 0) return;
  Call call(batch, ShapeOf(batch));
  call.layout = &LayoutFor(call.shape);
  OverTiles(call, [&](int64_t tile, const Parallel& parallel) {
    const int64_t at = tile * call.shape.tile_reals;
    Weigh(call, tile, parallel, states + at, upstream, lambdas + at);
  });
}

template <class T>
void Sweep<T>::StageBack(const Batch& batch, T* states, T* lambdas, bool by_each,
                         double* shared_slopes, double* each_slopes) {
  const Shape shape = ShapeOf(batch);
  BackOverTiles(batch, shape, by_each, shared_slopes, each_slopes,
                [&](const Call&, int64_t tile, const Parallel&, const auto&) {
                  const int64_t at = tile * shape.tile_reals;
                  return std::make_pair(states + at, lambdas + at);
                });
}

namespace {

// A string that also flips a rank's bits reads as one that flips a bit above a piece's own, on own
// and other groups one after the other: these are its signs on that, by the place of the own piece.
struct Piece {
  Piece(const Strings& strings, int64_t base, int64_t count) : crossed(strings) {
    crossed.flip = (strings.flip & (count - 1)) | count;
    for (int32_t t = 0; t < strings.count; ++t) {
      z.push_back(strings.z[t] & (count - 1));
      signs.push_back(__builtin_parityll(strings.z[t] & base) ? -1 : 1);
    }
    crossed.z = z.data();
  }
  Strings crossed;
  std::vector<int64_t> z;
  std::vector<int> signs;
};

}  // namespace

template <class T>
void Sweep<T>::CrossRead(const Batch& batch, const T* states, const T* others, int64_t first,
                         int64_t count, T* values) {
  const Program& program = *program_;
  Call call(batch, ShapeOf(batch));
  const Shape& shape = call.shape;
  call.layout = &LayoutFor(shape);
  const int32_t lanes = kernels_.lanes, samples = shape.samples;
  const int64_t tile = first / shape.groups, reals = 2 * lanes * count;
  std::unique_ptr<Buffer> both = Take(2 * reals);
  std::memcpy(both->data + reals, others, reals * sizeof(T));
  for (size_t g = 0; g < program.strings.size(); ++g) {
    const Flipped& group = program.strings[g];
    // Of a state's groups: the others' lie where ours are, but for the flip.
    const int64_t base = (first % shape.groups) ^ (call.layout->strings[g].flip & ~(count - 1));
    Piece piece(call.layout->strings[g], base, count);
    std::memcpy(both->data, states + tile * shape.tile_reals + 2 * lanes * base, reals * sizeof(T));
    std::vector<double> sums(piece.crossed.count * lanes);
    kernels_.measure(piece.crossed, both->data, 0, count, sums.data());
    for (int32_t t = 0; t < piece.crossed.count; ++t)
      for (int32_t lane = 0; lane < lanes; ++lane) {
        const int64_t sample = lane & (samples - 1);
        if (sample >= call.present(tile)) continue;
        double sum = piece.signs[t] * sums[t * lanes + lane];
        if (__builtin_parityll(group.z[t] & (lane / samples))) sum = -sum;
        for (int64_t k = 0; k < program.readouts; ++k)
          values[(tile * samples + sample) * program.readouts + k] +=
              static_cast<T>(sum * program.weights[(group.first + t) * program.readouts + k]);
      }
  }
  Give(std::move(both));
}

template <class T>
void Sweep<T>::CrossWeigh(const Batch& batch, const T* others, int64_t first, int64_t count,
                          const T* upstream, T* lambdas) {
  const Program& program = *program_;
  Call call(batch, ShapeOf(batch));
  const Shape& shape = call.shape;
  call.layout = &LayoutFor(shape);
  const int32_t lanes = kernels_.lanes, samples = shape.samples;
  const int64_t tile = first / shape.groups, reals = 2 * lanes * count;
  std::unique_ptr<Buffer> both = Take(2 * reals);
  std::memset(both->data, 0, reals * sizeof(T));
  std::memcpy(both->data + reals, others, reals * sizeof(T));
  for (size_t g = 0; g < program.strings.size(); ++g) {
    const Flipped& group = program.strings[g];
    const int64_t base = (first % shape.groups) ^ (call.layout->strings[g].flip & ~(count - 1));
    Piece piece(call.layout->strings[g], base, count);
    std::unique_ptr<Buffer> weights = Take((piece.crossed.count * lanes + 15) / 16 * 16);
    for (int32_t t = 0; t < piece.crossed.count; ++t)
      for (int32_t lane = 0; lane < lanes; ++lane) {
        const int64_t sample = lane & (samples - 1);
        double weight = 0;
        for (int64_t k = 0; sample < call.present(tile) && k < program.readouts; ++k)
          weight += program.weights[(group.first + t) * program.readouts + k] *
                    static_cast<double>(upstream[(tile * samples + sample) * program.readouts + k]);
        if (__builtin_parityll(group.z[t] & (lane / samples))) weight = -weight;
        weights->data[t * lanes + lane] = static_cast<T>(piece.signs[t] * weight);
      }
    kernels_.weigh(piece.crossed, both->data, lambdas + tile * shape.tile_reals + 2 * lanes * base,
                   0, count, weights->data, true);
    Give(std::move(weights));
  }
  Give(std::move(both));
}

template <class T>
void Swap(const Region& region, T* states, T* pieces, int64_t first, int64_t count, bool out) {
  const int64_t run = int64_t{1} << region.bits.front();  // groups that lie side by side
  for (int64_t peer = 0; peer < int64_t{1} << region.bits.size(); ++peer) {
    int64_t set = 0;
    for (size_t i = 0; i < region.ranks.size(); ++i) set |= (peer >> i & 1) << region.ranks[i];
    for (int64_t at = first; at < first + count;) {
      const int64_t length = std::min(run - at % run, first + count - at);
      int64_t group = at;  // with zeros put in at the swapped bits, then the peer's
      for (int32_t bit : region.bits)
        group = (group >> bit) << (bit + 1) | (group & ((int64_t{1} << bit) - 1));
      T* state = states + region.reals * (group | set);
      T* piece = pieces + region.reals * (peer * count + at - first);
      std::memcpy(out ? piece : state, out ? state : piece, length * region.reals * sizeof(T));
      at += length;
    }
  }
}

#define QFLEET_STAGES(T)                                                                      \
  template void Sweep<T>::Plant(const Call&, int64_t, T*);                                    \
  template void Sweep<T>::Harvest(const Call&, int64_t, const T*);                            \
  template void Sweep<T>::StageForward(const Batch&, T*);                                     \
  template void Sweep<T>::StageRead(const Batch&, const T*, T*);                              \
  template void Sweep<T>::StageWeigh(const Batch&, const T*, const T*, T*);                   \
  template void Sweep<T>::StageBack(const Batch&, T*, T*, bool, double*, double*);            \
  template void Sweep<T>::CrossRead(const Batch&, const T*, const T*, int64_t, int64_t, T*);  \
  template void Sweep<T>::CrossWeigh(const Batch&, const T*, int64_t, int64_t, const T*, T*); \
  template void Swap<T>(const Region&, T*, T*, int64_t, int64_t, bool);
QFLEET_STAGES(float)
QFLEET_STAGES(double)

}  // namespace qfleet
