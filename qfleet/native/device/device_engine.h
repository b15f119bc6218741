// Evaluates a program on a device, such as a GPU, through a library that is loaded on demand.
#ifndef QFLEET_DEVICE_ENGINE_H_
#define QFLEET_DEVICE_ENGINE_H_

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "device/device_library.h"
#include "program/program_matrices.h"

namespace qfleet {

struct Batch;

// A program on a device. The matrices that all examples share, and the gradients of their
// exponents, are computed on the host.
class DeviceEngine {
 public:
  DeviceEngine(const std::string& library, int32_t number, const Program& program,
               int32_t real_bytes);
  ~DeviceEngine();

  // As the methods of StateVectorEngine; the reals are the program's.
  void Expectation(const Batch& batch, void* values);
  void ValuesAndGradient(const Batch& batch, const void* upstream, void* values,
                         double* shared_gradients, double* per_example_gradients);
  void Gradient(const Batch& batch, const void* upstream, double* shared_gradients,
                double* per_example_gradients) {
    ValuesAndGradient(batch, upstream, nullptr, shared_gradients, per_example_gradients);
  }
  // Its program is made with the first one, so that gradients do not pay for it.
  void HessianVectorProduct(const Batch& batch, const void* upstream, void* value_tangents,
                            double* shared_results, double* per_example_results);
  void State(const Batch& batch, const int64_t* order, void* states);
  void StateGradient(const Batch& batch, const int64_t* order, const void* states,
                     const void* upstream, double* shared_gradients, double* per_example_gradients);
  // As SampleState for all examples, whose states stay on the device. norms [size] are the sums of
  // their probabilities, which the caller checks.
  void Sample(const Batch& batch, const int64_t* order, int64_t shots, uint64_t seed,
              int64_t* samples, double* norms);

 private:
  struct Tables;
  struct Results;
  struct PreparedCall;
  // The last call's matrices, if it had the same exponents: a gradient follows its forward pass.
  // With tangents, they are computed again.
  std::shared_ptr<const SharedMatrices> MatricesOf(const Batch& batch);
  void Prepare(const Batch& batch, PreparedCall* prepared);
  // Calls run(call, results), and then adds the gradients of shared exponents.
  template <class Function>
  void ComputeGradient(const Batch& batch, double* shared_gradients, double* per_example_gradients,
                       const Function& run);
  // Adds the gradients of shared exponents, or their tangents if `tangents` is not null.
  void Complete(const Batch& batch, const SharedMatrices& matrices, const Results& results,
                const Results* tangents, bool want_per_example, double* shared_gradients) const;

  template <class T>
  void MultiplyHessian(Batch batch, const T* upstream, T* value_tangents, double* shared_results,
                       double* per_example_results);
  device::Program* ProgramWithTangents();

  const Program source_;
  const int32_t number_, real_bytes_;
  const device::Interface* interface_;
  std::unique_ptr<Tables> tables_;
  device::Program* program_ = nullptr;
  std::mutex tangents_mutex_;
  device::Program* program_with_tangents_ = nullptr;  // null: not asked for yet
  std::mutex matrices_mutex_;
  std::vector<double> last_shared_;  // exponents of last_matrices_
  std::shared_ptr<const SharedMatrices> last_matrices_;
};

}  // namespace qfleet

#endif  // QFLEET_DEVICE_ENGINE_H_
