// The rows of a network: its instances for the examples of a batch.
#ifndef QFLEET_NETWORK_ROWS_H_
#define QFLEET_NETWORK_ROWS_H_

#include <cstdint>
#include <vector>

#include "network/network_program.h"
#include "state/engine.h"

namespace qfleet {

// Consecutive examples of a batch.
struct ExampleRange {
  int64_t first, count;
};

class NetworkRows {
 public:
  // With `join`, rows with equal exponents are one row, unless they take them from different shared
  // exponents. It is not for batches with tangents.
  NetworkRows(const Network& network, const Batch& batch, int64_t example_exponents,
              ExampleRange examples, bool join);

  int64_t count() const { return count_; }
  // [count][slots], from a row on.
  const double* Exponents(int64_t row) const { return exponents_.data() + row * slots_; }
  // The same of their tangents, or null.
  const double* Tangents(int64_t row) const {
    return tangents_.empty() ? nullptr : tangents_.data() + row * slots_;
  }
  double* Gradients(int64_t row) { return gradients_.data() + row * slots_; }
  double Weight(int64_t row) const { return weights_[row]; }

  // sums[b][k] += the values [count] of the rows, weighted.
  template <class T>
  void AddValues(const T* values, int64_t readouts, double* sums) const;
  // Sets the weight of each row's value, given upstream[b][k] = dL/dvalues, and its gradients to 0.
  template <class T>
  void SetWeights(const T* upstream, int64_t readouts);
  // Adds the gradients of rows to those of the exponents that the rows took. `per_example` may be
  // null.
  void AddGradients(double* shared, double* per_example);

 private:
  const Network& network_;
  int64_t slots_, example_exponents_, count_ = 0;
  ExampleRange examples_;
  std::vector<double> exponents_, tangents_, gradients_, weights_;
  std::vector<int64_t> row_of_;  // [examples][instances]
};

}  // namespace qfleet

#endif  // QFLEET_NETWORK_ROWS_H_
