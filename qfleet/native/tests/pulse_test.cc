// Propagators of pulses: products against long Taylor series, gradients against differences.
#include <complex>

#include "pulses/propagation.h"
#include "random_gate.h"
#include "testing.h"
#include "tests.h"

namespace qfleet {
namespace tests {
namespace {

// Random steps, with numbers in buffers of exactly their size.
struct PulseCase {
  PulseCase(int64_t size, int64_t examples, int64_t count, int64_t segments, bool unitary,
            Random* random)
      : steps{size, 3, examples, count, segments, nullptr, examples, nullptr, 1, unitary},
        matrices(2 * examples * 3 * size * size),
        coefficients(count * 3) {
    for (int64_t m = 0; m < examples * 3; ++m)
      for (int64_t r = 0; r < size; ++r)
        for (int64_t c = 0; c < size; ++c) {
          if (RandomInt(random, 0, 2) == 0 || (unitary && c < r)) continue;
          const Complex z(RandomReal(random, -1, 1), RandomReal(random, -1, 1));
          Set(m, r, c, unitary && r == c ? Complex(0, z.imag()) : z);
          if (unitary && c > r) Set(m, c, r, -std::conj(z));
        }
    for (size_t i = 0; i < coefficients.size(); ++i) coefficients[i] = RandomReal(random, -1, 1);
    steps.matrices = matrices.data();
    steps.coefficients = coefficients.data();
  }
  void Set(int64_t m, int64_t r, int64_t c, Complex z) {
    const int64_t at = 2 * ((m * steps.dimension + r) * steps.dimension + c);
    matrices[at] = z.real();
    matrices[at + 1] = z.imag();
  }
  int64_t Reals() const {
    return 2 * steps.examples * steps.segments * steps.dimension * steps.dimension;
  }
  // The product of a segment's exponentials, each a Taylor series of 60 terms.
  Matrix Product(int64_t example, int64_t segment) const {
    const int64_t size = steps.dimension;
    const int64_t length = (steps.steps + steps.segments - 1) / steps.segments;
    Matrix total(size * size);
    for (int64_t i = 0; i < size; ++i) total[i * (size + 1)] = 1;
    for (int64_t t = segment * length; t < std::min((segment + 1) * length, steps.steps); ++t) {
      Matrix generator(size * size);
      for (int64_t k = 0; k < 3; ++k)
        for (int64_t i = 0; i < size * size; ++i) {
          const int64_t at = 2 * ((example * 3 + k) * size * size + i);
          generator[i] += coefficients[t * 3 + k] * Complex(matrices[at], matrices[at + 1]);
        }
      Matrix term = total;
      for (int order = 1; order < 60; ++order) {
        term = Times(generator, term, size);
        for (int64_t i = 0; i < size * size; ++i) total[i] += term[i] /= order;
      }
    }
    return total;
  }

  PulseSteps steps;
  ExactBuffer<double> matrices, coefficients;
};

// Calls check(case, instruction set, threads, context) for sizes, batches and both kinds.
template <class Check>
void ForEachCase(bool light, const Check& check) {
  Random random(5);
  const std::vector<int64_t> sizes =
      light ? std::vector<int64_t>{2, 5} : std::vector<int64_t>{1, 2, 3, 4, 6, 9, 11};
  for (int64_t size : sizes)
    for (bool unitary : {true, false})
      for (int64_t examples : {1, 9}) {
        PulseCase one(size, examples, 7, examples == 1 ? 5 : 2, unitary, &random);
        for (const SetKernels& set : SupportedSets())
          check(one, *set.pulse, RunOnThreads(3),
                std::to_string(size) + " levels, " + std::to_string(examples) + " examples, " +
                    set.name + (unitary ? ", unitary" : ", general"));
      }
}

}  // namespace

void PulseProducts(bool light) {
  ForEachCase(light, [](const PulseCase& one, const PulseKernels& kernels, const Parallel& parallel,
                        const std::string& context) {
    ExactBuffer<double> found(one.Reals());
    Propagation(one.steps, kernels).Products(parallel, found.data());
    std::vector<double> wanted;
    for (int64_t chain = 0; chain < one.steps.examples * one.steps.segments; ++chain)
      for (Complex z : one.Product(chain / one.steps.segments, chain % one.steps.segments))
        wanted.insert(wanted.end(), {z.real(), z.imag()});
    double largest = 1;
    for (double number : wanted) largest = std::max(largest, std::abs(number));
    CheckClose(found, wanted, 1e-12 * largest, context);
  });
}

void PulseGradients(bool light) {
  ForEachCase(light, [](PulseCase& one, const PulseKernels& kernels, const Parallel& parallel,
                        const std::string& context) {
    // The loss is the sum of the real parts of the first column of every segment's product.
    const int64_t size = one.steps.dimension;
    const Propagation propagation(one.steps, kernels);
    ExactBuffer<double> products(one.Reals()), seeds(one.Reals());
    propagation.Products(parallel, products.data());
    for (int64_t chain = 0; chain < one.steps.examples * one.steps.segments; ++chain)
      for (int64_t r = 0; r < size; ++r)
        for (int64_t c = 0; c < size; ++c) {
          const auto seed = [&](int64_t column) {  // W U^dagger, with ones in W's first column
            const int64_t at = 2 * (chain * size + column) * size;
            return Complex(products[at], -products[at + 1]);
          };
          Complex z = seed(c);
          if (one.steps.unitary) z = (z - std::conj(seed(r))) / 2.0;
          const int64_t at = 2 * ((chain * size + r) * size + c);
          seeds[at] = z.real();
          seeds[at + 1] = z.imag();
        }
    const int64_t each = one.steps.steps * one.steps.operators;
    ExactBuffer<double> gradients(one.steps.examples * each);
    propagation.Gradients(parallel, seeds.data(), gradients.data());
    std::vector<double> found(each), wanted;
    for (int64_t i = 0; i < one.steps.examples * each; ++i) found[i % each] += gradients[i];
    const auto loss = [&](int64_t at, double shift) {
      const double kept = one.coefficients[at];
      one.coefficients[at] += shift;
      ExactBuffer<double> moved(one.Reals());
      Propagation(one.steps, kernels).Products(parallel, moved.data());
      one.coefficients[at] = kept;
      double sum = 0;
      for (size_t i = 0; i < moved.size(); i += 2 * size) sum += moved[i];
      return sum;
    };
    double largest = 1;
    for (int64_t at = 0; at < each; ++at) {
      wanted.push_back((loss(at, 1e-5) - loss(at, -1e-5)) / 2e-5);
      largest = std::max(largest, std::abs(wanted.back()));
    }
    CheckClose(found, wanted, 1e-7 * largest, context);
  });
}

}  // namespace tests
}  // namespace qfleet
