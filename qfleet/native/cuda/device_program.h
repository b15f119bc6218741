// A program on a device: its tables, its memory, and the launches of a call.
#ifndef QFLEET_CUDA_DEVICE_PROGRAM_H_
#define QFLEET_CUDA_DEVICE_PROGRAM_H_

#include <memory>

#include "device_interface.h"
#include "workspace.h"

namespace qfleet {
namespace device {

// Calls of several threads run one after the other. All methods throw DeviceError.
struct Program {
  explicit Program(std::shared_ptr<Workspace> workspace) : workspace(std::move(workspace)) {}
  virtual ~Program() = default;
  // Writes values [size][K] unless they are null, and, given upstream = dL/dvalues [size][K], the
  // gradient's results.
  virtual void Evaluate(const Call& call, void* values, const void* upstream,
                        const GradientResults* results) = 0;
  virtual void State(const Call& call, const int64_t* order, void* states) = 0;
  virtual void StateGradient(const Call& call, const int64_t* order, const void* states,
                             const void* upstream, const GradientResults& results) = 0;
  virtual void Sample(const Call& call, const int64_t* order, int64_t shots, uint64_t seed,
                      int64_t* samples, double* norms) = 0;

  const std::shared_ptr<Workspace> workspace;
};

// A program that evolves density matrices; all as for Program.
struct DensityProgram {
  virtual ~DensityProgram() = default;
  virtual void Evaluate(const DensityCall& call, double* means,
                        const DensityGradient* gradient) = 0;
};

std::unique_ptr<DensityProgram> MakeDensityProgram(int32_t device, const DensityTables& tables);

// Makes a program for a device that is in use.
using MakeProgram = std::unique_ptr<Program>(int32_t device, const ProgramTables& tables,
                                             std::shared_ptr<Workspace> workspace);
MakeProgram MakeFloatProgram, MakeDoubleProgram, MakeDualFloatProgram, MakeDualDoubleProgram;

}  // namespace device
}  // namespace qfleet

#endif  // QFLEET_CUDA_DEVICE_PROGRAM_H_
