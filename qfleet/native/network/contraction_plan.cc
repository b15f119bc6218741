#include "network/contraction_plan.h"

#include <algorithm>

namespace qfleet {
namespace {

bool Has(const Indices& indices, int64_t index) {
  return std::find(indices.begin(), indices.end(), index) != indices.end();
}

// The elements between two values of an index; 0 if the tensor does not have it.
int64_t StrideOf(const Indices& tensor, int64_t index) {
  for (size_t at = 0; at < tensor.size(); ++at)
    if (tensor[at] == index) return int64_t{1} << (tensor.size() - 1 - at);
  return 0;
}

bool HasSharedExponent(const Network& network, const MatrixProduct& product) {
  return std::any_of(product.items.begin(), product.items.end(), [&](int64_t item) {
    if (item >= 0) return network.sequences[item].has_exponents;
    const std::vector<int64_t>& exponents = network.factors[~item].exponents;
    return std::any_of(exponents.begin(), exponents.end(), [](int64_t e) { return e >= 0; });
  });
}

}  // namespace

ContractionTables::ContractionTables(const Indices& a, const Indices& b, const Indices& out) {
  Indices groups, rows, cols, terms;
  for (int64_t index : out) {
    if (!Has(b, index))
      rows.push_back(index);  // also one that neither operand has: its elements are equal
    else
      (Has(a, index) ? groups : cols).push_back(index);
  }
  for (const Indices* operand : {&a, &b})
    for (int64_t index : *operand)
      if (!Has(out, index) && !Has(terms, index)) terms.push_back(index);
  swapped_ = cols.size() > rows.size();
  const Indices &first = swapped_ ? b : a, &second = swapped_ ? a : b;
  if (swapped_) rows.swap(cols);
  step_.groups = int64_t{1} << groups.size();
  step_.rows = int64_t{1} << rows.size();
  step_.cols = int64_t{1} << cols.size();
  step_.terms = int64_t{1} << terms.size();
  tables_.reserve(9);
  step_.out_groups = Offsets(groups, out);
  step_.out_rows = Offsets(rows, out);
  step_.out_cols = Offsets(cols, out);
  step_.a_groups = Offsets(groups, first);
  step_.a_rows = Offsets(rows, first);
  step_.a_terms = Offsets(terms, first);
  step_.b_groups = Offsets(groups, second);
  step_.b_cols = Offsets(cols, second);
  step_.b_terms = Offsets(terms, second);
}

const int64_t* ContractionTables::Offsets(const Indices& varied, const Indices& tensor) {
  std::vector<int64_t> offsets = {0};
  for (int64_t index : varied) {
    const int64_t stride = StrideOf(tensor, index);
    std::vector<int64_t> next;
    next.reserve(2 * offsets.size());
    for (int64_t offset : offsets) {
      next.push_back(offset);
      next.push_back(offset + stride);
    }
    offsets = std::move(next);
  }
  tables_.push_back(std::move(offsets));
  return tables_.back().data();
}

ContractionPlan::ContractionPlan(const Network& network) {
  const auto add = [&](bool depends_on_row, const Indices& indices) {
    int64_t& count = depends_on_row ? row_elements : common_elements;
    of_rows.push_back(depends_on_row);
    offset.push_back(count);
    elements.push_back(int64_t{1} << indices.size());
    count += elements.back();
  };
  for (const Leaf& leaf : network.leaves) {
    const bool constant = leaf.product < 0;
    add(!constant && network.products[leaf.product].per_example, leaf.indices);
    const bool differentiated = !constant && !leaf.conjugate;
    const bool shared =
        differentiated && HasSharedExponent(network, network.products[leaf.product]);
    wanted[0].push_back(shared);
    wanted[1].push_back(shared || (differentiated && of_rows.back()));
  }
  for (const ContractionStep& step : network.steps) {
    const Indices &a = network.IndicesOf(step.a), &b = network.IndicesOf(step.b);
    const int64_t out = of_rows.size();
    add(of_rows[step.a] || of_rows[step.b], step.indices);
    for (std::vector<bool>& mode : wanted) mode.push_back(mode[step.a] || mode[step.b]);
    steps.push_back({step.a, step.b, out, ContractionTables(a, b, step.indices),
                     ContractionTables(step.indices, b, a), ContractionTables(step.indices, a, b)});
    if (of_rows[out]) multiply_adds += steps.back().forward.MultiplyAdds();
  }
}

}  // namespace qfleet
