#include "network/network_rows.h"

#include <algorithm>
#include <cstring>
#include <unordered_map>

namespace qfleet {
namespace {

// The value of an exponent's source; 0 if its array is null.
double ValueOf(int64_t source, const double* shared, const double* per_example, int64_t first) {
  if (source >= 0) return shared ? shared[source] : 0;
  return per_example ? per_example[first + ~source] : 0;
}

// Equal for equal rows, with 0 and -0 apart, which only costs a row.
uint64_t Hash(const std::vector<double>& row, int64_t origin) {
  uint64_t hash = static_cast<uint64_t>(origin);
  for (double exponent : row) {
    uint64_t word;
    std::memcpy(&word, &exponent, sizeof(word));
    hash = (hash ^ word) * 0x9e3779b97f4a7c15;
    hash ^= hash >> 32;
  }
  return hash;
}

}  // namespace

NetworkRows::NetworkRows(const Network& network, const Batch& batch, int64_t example_exponents,
                         ExampleRange examples, bool join)
    : network_(network),
      slots_(network.per_example),
      example_exponents_(example_exponents),
      examples_(examples),
      row_of_(examples.count * network.instances) {
  std::unordered_multimap<uint64_t, int64_t> known;  // rows by hash
  std::vector<int64_t> origins;                      // of known rows: the instance, if it counts
  std::vector<double> row(slots_);
  if (!join) exponents_.reserve(row_of_.size() * slots_);
  for (size_t at = 0; at < row_of_.size(); ++at) {
    const int64_t instance = at % network.instances, b = examples.first + at / network.instances;
    const int64_t* sources = network.sources.data() + instance * slots_;
    bool has_shared = false;
    for (int64_t s = 0; s < slots_; ++s) {
      has_shared |= sources[s] >= 0;
      row[s] = ValueOf(sources[s], batch.shared, batch.per_example, b * example_exponents_);
    }
    row_of_[at] = count_;
    if (join) {
      const int64_t origin = has_shared ? instance : -1;
      const uint64_t hash = Hash(row, origin);
      const auto [begin, end] = known.equal_range(hash);
      const auto equal = std::find_if(begin, end, [&](const auto& one) {
        return origins[one.second] == origin &&
               std::equal(row.begin(), row.end(), Exponents(one.second));
      });
      if (equal != end) {
        row_of_[at] = equal->second;
        continue;
      }
      known.emplace(hash, count_);
      origins.push_back(origin);
    }
    exponents_.insert(exponents_.end(), row.begin(), row.end());
    if (batch.shared_tangents || batch.per_example_tangents)
      for (int64_t s = 0; s < slots_; ++s)
        tangents_.push_back(ValueOf(sources[s], batch.shared_tangents, batch.per_example_tangents,
                                    b * example_exponents_));
    ++count_;
  }
}

template <class T>
void NetworkRows::AddValues(const T* values, int64_t readouts, double* sums) const {
  for (size_t at = 0; at < row_of_.size(); ++at)
    for (const WeightedReadout& output : network_.outputs[at % network_.instances])
      sums[(examples_.first + at / network_.instances) * readouts + output.readout] +=
          output.weight * static_cast<double>(values[row_of_[at]]);
}

template <class T>
void NetworkRows::SetWeights(const T* upstream, int64_t readouts) {
  weights_.assign(count_, 0.0);
  gradients_.assign(count_ * slots_, 0.0);
  for (size_t at = 0; at < row_of_.size(); ++at)
    for (const WeightedReadout& output : network_.outputs[at % network_.instances]) {
      const int64_t b = examples_.first + at / network_.instances;
      weights_[row_of_[at]] +=
          output.weight * static_cast<double>(upstream[b * readouts + output.readout]);
    }
}

void NetworkRows::AddGradients(double* shared, double* per_example) {
  for (size_t at = 0; at < row_of_.size(); ++at) {
    const int64_t* sources =
        network_.sources.data() + static_cast<int64_t>(at % network_.instances) * slots_;
    const int64_t b = examples_.first + at / network_.instances;
    double* from = Gradients(row_of_[at]);
    for (int64_t s = 0; s < slots_; ++s) {
      if (sources[s] >= 0)
        shared[sources[s]] += from[s];
      else if (per_example)
        per_example[b * example_exponents_ + ~sources[s]] += from[s];
      from[s] = 0;  // a joined row's gradients are the sum over all of its rows: added once
    }
  }
}

template void NetworkRows::AddValues(const float*, int64_t, double*) const;
template void NetworkRows::AddValues(const double*, int64_t, double*) const;
template void NetworkRows::SetWeights(const float*, int64_t);
template void NetworkRows::SetWeights(const double*, int64_t);

}  // namespace qfleet
