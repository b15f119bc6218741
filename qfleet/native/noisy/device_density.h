// Density matrices on a device: it evolves the coefficients, and the host computes the matrices of
// blocks, the readouts, and the gradients of exponents.
#ifndef QFLEET_DEVICE_DENSITY_H_
#define QFLEET_DEVICE_DENSITY_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "device/device_library.h"
#include "noisy/noisy_program.h"
#include "program/program_matrices.h"
#include "program/stateless_engine.h"

namespace qfleet {

template <class T>
class DeviceDensityEngine : public StatelessEngine<T> {
 public:
  DeviceDensityEngine(const std::string& library, int32_t number,
                      std::shared_ptr<const DensityProgram> program);
  ~DeviceDensityEngine() override;

  const DensityProgram& program() const override { return *program_; }
  int64_t WorkspaceBytes(const Batch& batch) const override;
  void Expectation(const Batch& batch, T* values) const override;
  void Gradient(const Batch& batch, const T* upstream, double* shared_gradients,
                double* per_example_gradients) const override;

 private:
  struct Part;
  // Calls visit(part) for consecutive examples, whose matrices are in memory at a time.
  template <class Visit>
  void ForEachPart(const Batch& batch, const SharedMatrices& matrices, const Visit& visit) const;

  std::shared_ptr<const DensityProgram> program_;
  const device::Interface* interface_;
  device::DensityProgram* on_device_ = nullptr;
  int64_t shared_ = 0, own_ = 0;  // matrices of all examples, and of each one
  std::vector<int64_t> slots_;    // of each block's matrix among those of its kind
};

}  // namespace qfleet

#endif  // QFLEET_DEVICE_DENSITY_H_
