#include "network/network_call.h"

#include <algorithm>

#include "program/matrix_batch.h"

namespace qfleet {
namespace {

DualMatrixBatch ToBatch(int32_t size, int64_t samples, const DualMatrices& matrices) {
  DualMatrixBatch batch(size, samples);
  batch.value.values() = matrices.value;
  if (!matrices.tangent.empty()) batch.MakeTangent().values() = matrices.tangent;
  return batch;
}

// G^T for a gradient [D * D] (re, im) [samples].
std::vector<double> Transposed(int32_t size, int64_t samples, const std::vector<double>& gradient) {
  std::vector<double> transposed(gradient.size());
  for (int32_t row = 0; row < size; ++row)
    for (int32_t col = 0; col < size; ++col)
      std::copy_n(&gradient[2 * (row * size + col) * samples], 2 * samples,
                  &transposed[2 * (col * size + row) * samples]);
  return transposed;
}

DualMatrices ProductMatrices(const Network& network, const MatrixProduct& product,
                             const SharedMatrices& matrices, const Exponents& exponents,
                             int64_t samples) {
  DualMatrices found;
  BlockMatrices(network, product, matrices, exponents, samples, &found.value, &found.tangent);
  return found;
}

template <class T>
void AddTo(AlignedArray<T>* sum, const AlignedArray<T>& other) {
  for (int64_t i = 0; i < sum->size(); ++i) sum->data()[i] += other.data()[i];
}

}  // namespace

template <class T>
NetworkWorkspace<T>::NetworkWorkspace(const Network& network, const ContractionPlan& plan,
                                      int64_t lanes, WorkspaceKind kind)
    : values(2 * lanes * plan.row_elements, kind.tangents),
      derivatives(kind.gradient ? 2 * lanes * plan.row_elements : 0, kind.tangents),
      product_matrices(network.products.size()),
      common_derivatives(kind.gradient ? 2 * lanes * plan.common_elements : 0, kind.tangents) {
  for (AlignedArray<T>* sums : {&common_derivatives.value, &common_derivatives.tangent})
    std::fill_n(sums->data(), sums->size(), T{0});
  if (!kind.gradient) return;
  shared_gradients.assign(network.shared, 0.0);
  for (const FactorSequence& sequence : network.sequences)
    sequence_sums.emplace_back((kind.tangents ? 4 : 2) * sequence.size * sequence.size);
}

template <class T>
void NetworkWorkspace<T>::Add(const NetworkWorkspace& other) {
  AddTo(&common_derivatives.value, other.common_derivatives.value);
  AddTo(&common_derivatives.tangent, other.common_derivatives.tangent);
  for (size_t e = 0; e < shared_gradients.size(); ++e)
    shared_gradients[e] += other.shared_gradients[e];
  for (size_t r = 0; r < sequence_sums.size(); ++r)
    for (size_t i = 0; i < sequence_sums[r].size(); ++i)
      sequence_sums[r][i] += other.sequence_sums[r][i];
}

template <class T>
NetworkCall<T>::NetworkCall(const Network& network, const ContractionPlan& plan,
                            const Kernels<T>& kernels, const double* shared,
                            const double* shared_tangents, bool has_tangents)
    : network_(network),
      plan_(plan),
      kernels_(kernels),
      has_tangents_(has_tangents),
      shared_{shared, shared_tangents},
      matrices_(network, shared_),
      common_(2 * kernels.lanes * plan.common_elements, has_tangents) {
  for (const MatrixProduct& product : network_.products) {
    common_matrices_.emplace_back();
    if (!product.per_example)
      common_matrices_.back() = ProductMatrices(network_, product, matrices_, shared_, 1);
  }
  for (size_t t = 0; t < network_.leaves.size(); ++t) {
    static const DualMatrices none;
    const int64_t product = network_.leaves[t].product;
    if (!plan_.of_rows[t])
      WriteLeaf(t, product < 0 ? none : common_matrices_[product], 1, &common_);
  }
  ContractSteps(false, nullptr, &common_);
}

template <class T>
Exponents NetworkCall<T>::RowExponents(const NetworkRows& rows, int64_t tile) const {
  Exponents exponents = shared_;
  exponents.per_example = rows.Exponents(tile * lanes());
  exponents.per_example_tangents = rows.Tangents(tile * lanes());
  exponents.present = std::min(lanes(), rows.count() - tile * lanes());
  return exponents;
}

template <class T>
void NetworkCall<T>::WriteLeaf(int64_t tensor, const DualMatrices& matrix, int64_t samples,
                               Tensors<T>* to) const {
  const Leaf& leaf = network_.leaves[tensor];
  const bool constant = leaf.product < 0;
  const double sign = leaf.conjugate ? -1 : 1;
  for (int part = 0; part <= static_cast<int>(has_tangents_); ++part) {
    const std::vector<double>& entries = part ? matrix.tangent : matrix.value;
    T* re = (part ? to->tangent : to->value).data() + Offset(tensor);
    for (int64_t e = 0; e < plan_.elements[tensor]; ++e, re += 2 * lanes()) {
      for (int64_t s = 0; s < lanes(); ++s) {
        double x = 0, y = 0;
        if (constant) {
          x = part ? 0 : leaf.values[e].real();
          y = part ? 0 : leaf.values[e].imag();
        } else if (leaf.entries[e] >= 0 && !entries.empty()) {
          const int64_t at = 2 * leaf.entries[e] * samples + (samples == 1 ? 0 : s);
          x = entries[at];
          y = entries[at + samples];
        }
        re[s] = static_cast<T>(x);
        re[lanes() + s] = static_cast<T>(sign * y);
      }
    }
  }
}

template <class T>
void NetworkCall<T>::ContractSteps(bool of_rows, const NetworkWorkspace<T>* work,
                                   Tensors<T>* to) const {
  for (const PlannedStep& step : plan_.steps) {
    if (plan_.of_rows[step.out] != of_rows) continue;
    const Tensors<T>&a = ValuesOf(work, step.a), &b = ValuesOf(work, step.b);
    const int64_t at_a = Offset(step.a), at_b = Offset(step.b), out = Offset(step.out);
    step.forward.Run(kernels_, a.value.data() + at_a, b.value.data() + at_b, to->value.data() + out,
                     false);
    if (!has_tangents_) continue;
    step.forward.Run(kernels_, a.tangent.data() + at_a, b.value.data() + at_b,
                     to->tangent.data() + out, false);
    step.forward.Run(kernels_, a.value.data() + at_a, b.tangent.data() + at_b,
                     to->tangent.data() + out, true);
  }
}

template <class T>
void NetworkCall<T>::Contract(const NetworkRows& rows, int64_t tile,
                              NetworkWorkspace<T>* work) const {
  const Exponents exponents = RowExponents(rows, tile);
  for (size_t p = 0; p < network_.products.size(); ++p)
    if (network_.products[p].per_example)
      work->product_matrices[p] =
          ProductMatrices(network_, network_.products[p], matrices_, exponents, lanes());
  for (size_t t = 0; t < network_.leaves.size(); ++t)
    if (plan_.of_rows[t])
      WriteLeaf(t, work->product_matrices[network_.leaves[t].product], lanes(), &work->values);
  ContractSteps(true, work, &work->values);
}

template <class T>
const T* NetworkCall<T>::Values(const NetworkWorkspace<T>& work, bool tangents) const {
  const int64_t last = plan_.of_rows.size() - 1;
  const Tensors<T>& tensors = ValuesOf(&work, last);
  return (tangents ? tensors.tangent : tensors.value).data() + Offset(last);
}

template <class T>
void NetworkCall<T>::ReverseStep(const PlannedStep& step, bool want_rows,
                                 const Tensors<T>& derivatives, NetworkWorkspace<T>* work) const {
  const int64_t out = Offset(step.out);
  const auto reverse = [&](const ContractionTables& tables, int64_t to, int64_t other) {
    if (!plan_.wanted[want_rows][to]) return;
    const bool add = !plan_.of_rows[to];
    Tensors<T>& target = add ? work->common_derivatives : work->derivatives;
    const Tensors<T>& values = ValuesOf(work, other);
    const int64_t at = Offset(to), from = Offset(other);
    tables.Run(kernels_, derivatives.value.data() + out, values.value.data() + from,
               target.value.data() + at, add);
    if (!has_tangents_) return;
    tables.Run(kernels_, derivatives.tangent.data() + out, values.value.data() + from,
               target.tangent.data() + at, add);
    tables.Run(kernels_, derivatives.value.data() + out, values.tangent.data() + from,
               target.tangent.data() + at, true);
  };
  reverse(step.to_a, step.a, step.b);
  reverse(step.to_b, step.b, step.a);
}

template <class T>
void NetworkCall<T>::Reverse(NetworkRows* rows, int64_t tile, bool want_rows,
                             NetworkWorkspace<T>* work) const {
  const int64_t last = plan_.of_rows.size() - 1;
  const Exponents exponents = RowExponents(*rows, tile);
  Tensors<T>& ends = plan_.of_rows[last] ? work->derivatives : work->common_derivatives;
  T* seed = ends.value.data() + Offset(last);
  if (plan_.of_rows[last]) {
    std::fill_n(seed, 2 * lanes(), T{0});
    if (has_tangents_) std::fill_n(ends.tangent.data() + Offset(last), 2 * lanes(), T{0});
  }
  for (int64_t s = 0; s < exponents.present; ++s)
    seed[s] += static_cast<T>(rows->Weight(tile * lanes() + s));
  for (auto step = plan_.steps.rbegin(); step != plan_.steps.rend(); ++step)
    if (plan_.of_rows[step->out] && plan_.wanted[want_rows][step->out])
      ReverseStep(*step, want_rows, work->derivatives, work);
  for (size_t t = 0; t < network_.leaves.size(); ++t)
    if (plan_.of_rows[t] && plan_.wanted[want_rows][t])
      AddGradients(t, work->derivatives, work->product_matrices[network_.leaves[t].product],
                   exponents, want_rows, rows->Gradients(tile * lanes()), work);
}

template <class T>
void NetworkCall<T>::Finish(bool want_rows, NetworkWorkspace<T>* sums, double* gradients) const {
  for (auto step = plan_.steps.rbegin(); step != plan_.steps.rend(); ++step)
    if (!plan_.of_rows[step->out] && plan_.wanted[want_rows][step->out])
      ReverseStep(*step, want_rows, sums->common_derivatives, sums);
  for (size_t t = 0; t < network_.leaves.size(); ++t)
    if (!plan_.of_rows[t] && plan_.wanted[want_rows][t])
      AddGradients(t, sums->common_derivatives, common_matrices_[network_.leaves[t].product],
                   shared_, want_rows, nullptr, sums);
  ParameterGradients(network_, matrices_, sums->sequence_sums, has_tangents_,
                     sums->shared_gradients.data());
  for (int64_t e = 0; e < network_.shared; ++e) gradients[e] += sums->shared_gradients[e];
}

template <class T>
std::vector<double> NetworkCall<T>::MatrixGradient(int64_t tensor, const T* derivatives) const {
  const Leaf& leaf = network_.leaves[tensor];
  const MatrixProduct& product = network_.products[leaf.product];
  const int64_t size = product.size(), samples = product.per_example ? lanes() : 1;
  std::vector<double> gradient(2 * size * size * samples);
  for (size_t e = 0; e < leaf.entries.size(); ++e) {
    if (leaf.entries[e] < 0) continue;
    const T* from = derivatives + Offset(tensor) + 2 * lanes() * e;
    for (int part = 0; part < 2; ++part) {
      double* to = &gradient[(2 * leaf.entries[e] + part) * samples];
      for (int64_t s = 0; s < lanes(); ++s)
        to[samples == 1 ? 0 : s] += static_cast<double>(from[part * lanes() + s]);
    }
  }
  return gradient;
}

template <class T>
void NetworkCall<T>::AddGradients(int64_t tensor, const Tensors<T>& derivatives,
                                  const DualMatrices& matrix, const Exponents& exponents,
                                  bool want_rows, double* row_gradients,
                                  NetworkWorkspace<T>* sums) const {
  const MatrixProduct& product = network_.products[network_.leaves[tensor].product];
  const int32_t size = product.size();
  const int64_t samples = product.per_example ? lanes() : 1;
  DualMatrices gradient = {
      Transposed(size, samples, MatrixGradient(tensor, derivatives.value.data())), {}};
  if (has_tangents_)
    gradient.tangent =
        Transposed(size, samples, MatrixGradient(tensor, derivatives.tangent.data()));
  DualMatrixBatch y(size, samples);
  y.Product(ToBatch(size, samples, matrix), false, ToBatch(size, samples, gradient), false);
  const double* tangents = has_tangents_ ? y.MakeTangent().values().data() : nullptr;
  BlockGradients(network_, product, matrices_, exponents, samples, want_rows,
                 y.value.values().data(), tangents, &sums->sequence_sums,
                 sums->shared_gradients.data(), row_gradients);
}

template struct NetworkWorkspace<float>;
template struct NetworkWorkspace<double>;
template class NetworkCall<float>;
template class NetworkCall<double>;

}  // namespace qfleet
