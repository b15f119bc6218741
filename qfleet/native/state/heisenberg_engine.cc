#include "state/heisenberg_engine.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace qfleet {
namespace {

// What the tail costs more than its multiply-adds: its states fill few vectors.
constexpr double kTailOverhead = 4, kCallOverhead = 2e5;
constexpr int64_t kMaxSumBytes = int64_t{64} << 20;  // of the sums of all ranges

// Complex matrices [size][size], with real and imaginary parts in turn by rows, so that compilers
// vectorize their loops.
template <class T>
struct Matrix {
  explicit Matrix(int64_t size_) : size(size_), parts(2 * size * size) {}
  T* re(int64_t row) { return &parts[2 * row * size]; }
  T* im(int64_t row) { return &parts[(2 * row + 1) * size]; }
  const T* re(int64_t row) const { return &parts[2 * row * size]; }
  const T* im(int64_t row) const { return &parts[(2 * row + 1) * size]; }

  // row `to` += (x + i y) times row `from` of another matrix.
  void AddRow(int64_t to, T x, T y, const Matrix& other, int64_t from) {
    T *re_to = re(to), *im_to = im(to);
    const T *re_from = other.re(from), *im_from = other.im(from);
    for (int64_t i = 0; i < size; ++i) {
      re_to[i] += x * re_from[i] - y * im_from[i];
      im_to[i] += x * im_from[i] + y * re_from[i];
    }
  }

  int64_t size;
  std::vector<T> parts;
};

}  // namespace

// For one set of exponents: U, a column for each basis state, O_k U, and U^dagger O_k U.
template <class T>
struct HeisenbergEngine<T>::Tail {
  std::vector<double> shared;
  std::vector<T> states;          // [column][row] (re, im)
  std::vector<Matrix<T>> images;  // O_k U by rows
  ReducedObservables observables;
};

template <class T>
HeisenbergEngine<T>::HeisenbergEngine(const Program& program, const HeisenbergCut& cut,
                                      const Kernels<T>& kernels)
    : cut_(cut),
      kernels_(kernels),
      head_program_(std::make_shared<const Program>(HeadProgram(program, cut))),
      tail_program_(std::make_shared<const Program>(TailProgram(program, cut))),
      head_(head_program_, kernels),
      tail_(tail_program_, kernels),
      tail_bits_(cut.bits.size()) {
  const int64_t size = int64_t{1} << cut.bits.size();
  basis_.resize(2 * size * size);
  for (int64_t i = 0; i < size; ++i) basis_[2 * i * (size + 1)] = 1;
  std::iota(tail_bits_.begin(), tail_bits_.end(), 0);
  for (const Block& block : tail_program_->blocks) tail_has_exponents_ |= block.needs_gradient[0];
}

template <class T>
bool HeisenbergEngine<T>::Supports(const Batch& batch) const {
  if (batch.is_stage || batch.shared_tangents || batch.per_example_tangents) return false;
  const TileLayout layout = head_.TileLayoutFor(batch);
  const int64_t sums =
      head_program_->readouts * static_cast<int64_t>(basis_.size() * sizeof(double));
  return layout.lane_qubits <= cut_.bits.front() &&
         SumRanges(layout, batch.threads, batch.max_lane_qubits) <= kMaxSumBytes / (sums + 1);
}

template <class T>
bool HeisenbergEngine<T>::IsFasterFor(const Batch& batch) const {
  const double size = static_cast<double>(int64_t{1} << cut_.bits.size());
  const double readouts = static_cast<double>(head_program_->readouts);
  const double tail = size * size * (cut_.tail + 2 * size * readouts);
  const double saved = cut_.saved * static_cast<double>(int64_t{1} << head_program_->qubits);
  // Threads share the examples, but one computes the tail. With a fixed layout, results do not
  // depend on their number.
  const bool any_layout = batch.max_lane_qubits == kAnyLaneQubits;
  const int64_t threads =
      any_layout ? std::min(batch.threads, head_.TileLayoutFor(batch).tiles) : 1;
  return saved * static_cast<double>(batch.size) /
                 static_cast<double>(std::max<int64_t>(threads, 1)) >
             kTailOverhead * tail + kCallOverhead &&
         Supports(batch);
}

template <class T>
int64_t HeisenbergEngine<T>::CachedReals(const Batch& batch, int64_t most) const {
  return head_.CachedReals(head_.TileLayoutFor(batch), most, basis_.size() * kernels_.lanes);
}

template <class T>
Batch HeisenbergEngine<T>::TailBatch(const Batch& batch) const {
  Batch tail = batch;
  tail.per_example = nullptr;
  tail.size = int64_t{1} << cut_.bits.size();
  tail.seeds = basis_.data();
  tail.seed_bits = &tail_bits_;
  tail.seed_gradients = nullptr;
  tail.initial_states = nullptr;
  tail.initial_gradients = nullptr;
  tail.threads = 1;  // its few states fill the lanes of a tile
  return tail;
}

template <class T>
std::shared_ptr<const typename HeisenbergEngine<T>::Tail> HeisenbergEngine<T>::TailFor(
    const Batch& batch) {
  std::vector<double> shared(batch.shared, batch.shared + head_program_->shared);
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (last_ && last_->shared == shared) return last_;
  }
  auto tail = std::make_shared<Tail>();
  tail->shared = std::move(shared);
  ComputeTail(batch, tail.get());
  const std::lock_guard<std::mutex> lock(mutex_);
  last_ = tail;
  return tail;
}

template <class T>
void HeisenbergEngine<T>::ComputeTail(const Batch& batch, Tail* tail) {
  const int64_t size = int64_t{1} << cut_.bits.size();
  tail->states.resize(2 * size * size);
  tail_.State(TailBatch(batch), tail_bits_.data(), tail->states.data());
  Matrix<T> u(size);
  for (int64_t col = 0; col < size; ++col)
    for (int64_t row = 0; row < size; ++row) {
      u.re(row)[col] = tail->states[2 * (col * size + row)];
      u.im(row)[col] = tail->states[2 * (col * size + row) + 1];
    }
  const Program& program = *tail_program_;
  tail->observables.bits = cut_.bits;
  tail->observables.matrices.resize(2 * size * size * program.readouts);
  double* to = tail->observables.matrices.data();
  for (int64_t k = 0; k < program.readouts; ++k) {
    Matrix<T> image(size), observable(size);
    for (const PauliGroup& group : program.pauli_groups)
      for (size_t t = 0; t < group.z.size(); ++t)
        for (int64_t row = 0; row < size; ++row) {  // P|row> = i^ys (-1)^|row & z| |row ^ flip>
          T weight = static_cast<T>(program.weights[(group.first + t) * program.readouts + k]);
          if (__builtin_parityll(row & group.z[t]) != (group.ys[t] % 4 >= 2)) weight = -weight;
          const bool odd = group.ys[t] % 2;
          image.AddRow(row ^ group.flip, odd ? 0 : weight, odd ? weight : 0, u, row);
        }
    kernels_.multiply_rows(size, u.parts.data(), true, image.parts.data(), observable.parts.data());
    for (int64_t i = 0; i < size; ++i)
      for (int64_t j = 0; j < size; ++j) {
        *to++ = observable.re(i)[j];
        *to++ = observable.im(i)[j];
      }
    tail->images.push_back(std::move(image));
  }
}

template <class T>
void HeisenbergEngine<T>::Expectation(const Batch& batch, T* values, T* cached,
                                      int64_t cached_reals) {
  if (batch.size == 0) return;
  head_.ReducedExpectation(batch, TailFor(batch)->observables, values, cached, cached_reals);
}

template <class T>
void HeisenbergEngine<T>::Gradient(const Batch& batch, const T* upstream, T* cached,
                                   int64_t cached_reals, bool cached_is_mutable,
                                   bool want_per_example, T* values, double* shared_gradients,
                                   double* per_example_gradients) {
  if (batch.size == 0) return;
  const std::shared_ptr<const Tail> tail = TailFor(batch);
  std::vector<double> weights(tail->observables.matrices.size());
  head_.ReducedGradient(batch, tail->observables, upstream, cached, cached_reals, cached_is_mutable,
                        want_per_example, values, shared_gradients, per_example_gradients,
                        weights.data());
  if (!tail_has_exponents_) return;
  // With W_k = sum_b upstream_bk rho_b, L = sum_k tr(W_k U^dagger O_k U), so that
  // dL/dU = 2 sum_k O_k U W_k.
  const int64_t size = int64_t{1} << cut_.bits.size();
  Matrix<T> gradient(size);
  for (size_t k = 0; k < tail->images.size(); ++k) {
    Matrix<T> weight(size);
    const double* from = &weights[2 * k * size * size];
    for (int64_t i = 0; i < size; ++i)
      for (int64_t j = 0; j < size; ++j) {
        weight.re(j)[i] = static_cast<T>(2 * from[2 * (i * size + j)]);
        weight.im(j)[i] = static_cast<T>(2 * from[2 * (i * size + j) + 1]);
      }
    kernels_.multiply_rows(size, tail->images[k].parts.data(), false, weight.parts.data(),
                           gradient.parts.data());
  }
  std::vector<T> by_columns(2 * size * size);
  for (int64_t col = 0; col < size; ++col)
    for (int64_t row = 0; row < size; ++row) {
      by_columns[2 * (col * size + row)] = gradient.re(row)[col];
      by_columns[2 * (col * size + row) + 1] = gradient.im(row)[col];
    }
  tail_.StateGradient(TailBatch(batch), tail_bits_.data(), tail->states.data(), by_columns.data(),
                      false, shared_gradients, nullptr);
}

template class HeisenbergEngine<float>;
template class HeisenbergEngine<double>;

}  // namespace qfleet
