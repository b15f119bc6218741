// Network programs: values, gradients and Hessian-vector products of a network of two qubits with a
// known result, on every instruction set, and corrupt programs.
#include <cmath>

#include "network/network_engine.h"
#include "program_words.h"
#include "testing.h"
#include "tests.h"

namespace qfleet {
namespace tests {
namespace {

constexpr double kPi = 3.14159265358979323846;

// X**x on |0>, then X**p, then Z: cos(pi (x + p)), with x of the row and p shared. Two instances
// take x from per-example exponents 0 and 1, and count 1 and -2 in readouts 0 and 1; readout 1 also
// has an offset of 0.5.
Words ValidNetwork() {
  Words words;
  words.ints = {2, 2, 1,  2,  2, 1,  // format, qubits, shared, per example, readouts, networks
                1, 2, -1, -2,        // slots, instances, their sources
                1, 0, 1,  1};        // outputs
  words.reals = {1, -2};
  words.ints.push_back(2);  // factors: X**x, X**p
  for (int64_t exponent : {-1, 0}) words.AddPowerOfX(exponent);
  words.ints.insert(words.ints.end(), {1, 2, 1, 1});            // a sequence: X**p
  words.ints.insert(words.ints.end(), {2, 1, 1, ~0, 1, 1, 0});  // products: X**x and X**p
  words.ints.push_back(5);                                      // leaves
  for (int64_t conjugate : {0, 1}) {
    const int64_t middle = 10 + conjugate;
    words.ints.insert(words.ints.end(), {1, middle, 0, conjugate, 0, 2});            // column 0
    words.ints.insert(words.ints.end(), {2, 12, middle, 1, conjugate, 0, 1, 2, 3});  // matrix
  }
  words.ints.insert(words.ints.end(), {1, 12, -1, 0});  // Z
  for (double value : {1.0, 0.0, -1.0, 0.0}) words.reals.push_back(value);
  words.ints.insert(words.ints.end(), {0, 1, 1, 12, 2, 3, 1, 12, 5, 6, 1, 12, 7, 4, 0});  // steps
  words.reals.insert(words.reals.end(), {0.0, 0.5});                                      // offsets
  return words;
}

// The arguments of a call for `size` examples.
struct Call {
  explicit Call(int64_t size) : per_example(2 * size), upstream(2 * size) {
    for (int64_t i = 0; i < 2 * size; ++i) {
      per_example[i] = 0.1 * static_cast<double>(i % 7) - 0.2;
      upstream[i] = 0.3 - 0.05 * static_cast<double>(i % 5);
      example_tangents.push_back(0.7 - 0.1 * static_cast<double>(i % 3));
    }
    batch = {shared.data(), per_example.data(), size, 1, nullptr};
  }

  std::vector<double> shared = {0.3}, tangents = {-0.4};
  std::vector<double> per_example, example_tangents, upstream;
  Batch batch;
};

template <class T>
void CheckResults(const Kernels<T>& kernels, int64_t size, int64_t threads, bool join) {
  const std::string context = std::to_string(size) + " examples, " + std::to_string(threads) +
                              " threads, " + std::to_string(kernels.lanes) + " lanes";
  const double tolerance = sizeof(T) == 4 ? 2e-4 : 1e-11;
  const NetworkEngine<T> engine(std::make_shared<NetworkProgram>(ValidNetwork().Bytes()), kernels);
  Call call(size);
  call.batch.threads = threads;
  call.batch.parallel = RunOnThreads(threads);
  std::vector<double> values, slopes(2 * size), example_results(2 * size), value_tangents;
  double shared_slope = 0, shared_result = 0;
  for (int64_t i = 0; i < 2 * size; ++i) {
    const double weight = i % 2 ? -2 : 1, angle = kPi * (call.per_example[i] + call.shared[0]);
    const double along = call.example_tangents[i] + call.tangents[0];
    values.push_back(weight * std::cos(angle) + (i % 2 ? 0.5 : 0));
    slopes[i] = -call.upstream[i] * weight * kPi * std::sin(angle);
    value_tangents.push_back(-weight * kPi * std::sin(angle) * along);
    example_results[i] = -call.upstream[i] * weight * kPi * kPi * std::cos(angle) * along;
    shared_slope += slopes[i];
    shared_result += example_results[i];
  }
  const std::vector<T> upstream(call.upstream.begin(), call.upstream.end());
  std::vector<T> found(2 * size), found_tangents(2 * size);
  call.batch.allow_subspace = join;
  engine.Expectation(call.batch, found.data());
  CheckClose(found, values, tolerance, context + ", values");
  std::vector<double> shared(1), per_example(2 * size);
  engine.Gradient(call.batch, upstream.data(), shared.data(), join ? nullptr : per_example.data());
  CheckClose(shared, std::vector<double>{shared_slope}, size * tolerance, context + ", shared");
  if (join) return;
  CheckClose(per_example, slopes, tolerance, context + ", per example");

  call.batch.shared_tangents = call.tangents.data();
  call.batch.per_example_tangents = call.example_tangents.data();
  shared = {0};
  per_example.assign(2 * size, 0);
  engine.HessianVectorProduct(call.batch, upstream.data(), found_tangents.data(), shared.data(),
                              per_example.data());
  CheckClose(found_tangents, value_tangents, 10 * tolerance, context + ", value tangents");
  CheckClose(shared, std::vector<double>{shared_result}, 10 * size * tolerance, context + ", hvp");
  CheckClose(per_example, example_results, 10 * tolerance, context + ", hvp per example");
}

}  // namespace

void NetworkResults(bool light) {
  for (int64_t size : {1, 2, 9, 40})
    for (int64_t threads : {1, 3})
      for (bool join : {false, true}) {
        CheckResults(BestKernels<float>(), size, threads, join);
        CheckResults(BestKernels<double>(), size, threads, join);
        if (light) continue;
        CheckResults(baseline::kFloat, size, threads, join);
        CheckResults(baseline::kDouble, size, threads, join);
      }
}

void CorruptNetworks(bool light) {
  const Words valid = ValidNetwork();
  TryCorrupted(valid, light);
  Words other = valid;
  const size_t steps = valid.ints.size() - 15;
  for (size_t at : {steps, steps + 1}) {
    other = valid;
    other.ints[at] = valid.ints[2 * steps + 1 - at];
    CHECK(IsRejected(other), "a tensor that is contracted with itself");
  }
  other = valid;
  other.ints[steps + 3] = 99;
  CHECK(IsRejected(other), "an index that no operand has");
  other = valid;
  other.ints.back() = 1;
  other.ints.push_back(12);
  CHECK(IsRejected(other), "a network that is not contracted to a number");
}

}  // namespace tests
}  // namespace qfleet
