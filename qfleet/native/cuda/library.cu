// The functions of the device library.
#include <cstdio>
#include <cstring>

#include "device_program.h"
#include "runtime.h"

namespace qfleet {
namespace device {
namespace {

template <class Body>
Status Guarded(char* error, int64_t error_size, const Body& body) noexcept {
  try {
    body();
    return kOk;
  } catch (const DeviceError& failure) {
    std::snprintf(error, error_size, "%s", failure.what());
    return failure.is_memory ? kOutOfMemory : failure.is_lost ? kDeviceLost : kDeviceFailed;
  } catch (const std::bad_alloc&) {
    std::snprintf(error, error_size, "there is not enough memory on the host");
    return kOutOfMemory;
  } catch (const std::exception& failure) {
    std::snprintf(error, error_size, "%s", failure.what());
    return kDeviceFailed;
  }
}

// Creates a program; if there is no room for it, once more without the memory of idle ones.
template <class Make>
auto MakeOn(int32_t device, const Make& make) {
  RequireDevice(device);
  UseDevice(device);
  try {
    return make().release();
  } catch (const DeviceError& failure) {
    if (!failure.is_memory) throw;
  }
  Workspace::ReleaseIdle(device);
  return make().release();
}

Status Describe(int32_t device, DeviceDescription* description, char* error, int64_t size) {
  return Guarded(error, size, [&] {
    RequireDevice(device);
    UseDevice(device);
    const DeviceFacts facts = FactsOf(device);
    *description = {};
    std::snprintf(description->name, sizeof(description->name), "%s", facts.name.c_str());
    FreeMemory(&description->free_bytes, &description->total_bytes);
    description->free_bytes += Workspace::IdleBytes(device);
    description->multiprocessors = facts.multiprocessors;
    description->host_executor = kIsHostExecutor;
    description->double_ratio = facts.double_ratio;
  });
}

Status Create(int32_t device, const ProgramTables* tables, const Program* lender, Program** program,
              char* error, int64_t size) {
  return Guarded(error, size, [&] {
    const bool is_float = tables->real_bytes == sizeof(float);
    MakeProgram* const make = tables->has_tangents
                                  ? (is_float ? MakeDualFloatProgram : MakeDualDoubleProgram)
                                  : (is_float ? MakeFloatProgram : MakeDoubleProgram);
    *program = MakeOn(device, [&] {
      return make(device, *tables,
                  lender ? lender->workspace : std::make_shared<Workspace>(device));
    });
  });
}

void Destroy(Program* program) { delete program; }

Status Evaluate(Program* program, const Call* call, void* values, const void* upstream,
                const GradientResults* results, char* error, int64_t size) {
  return Guarded(error, size, [&] { program->Evaluate(*call, values, upstream, results); });
}

Status State(Program* program, const Call* call, const int64_t* order, void* states, char* error,
             int64_t size) {
  return Guarded(error, size, [&] { program->State(*call, order, states); });
}

Status StateGradient(Program* program, const Call* call, const int64_t* order, const void* states,
                     const void* upstream, const GradientResults* results, char* error,
                     int64_t size) {
  return Guarded(error, size,
                 [&] { program->StateGradient(*call, order, states, upstream, *results); });
}

Status Sample(Program* program, const Call* call, const int64_t* order, int64_t shots,
              uint64_t seed, int64_t* samples, double* norms, char* error, int64_t size) {
  return Guarded(error, size, [&] { program->Sample(*call, order, shots, seed, samples, norms); });
}

Status CreateDensity(int32_t device, const DensityTables* tables, DensityProgram** program,
                     char* error, int64_t size) {
  return Guarded(error, size, [&] {
    *program = MakeOn(device, [&] { return MakeDensityProgram(device, *tables); });
  });
}

void DestroyDensity(DensityProgram* program) { delete program; }

Status EvaluateDensity(DensityProgram* program, const DensityCall* call, double* means,
                       const DensityGradient* gradient, char* error, int64_t size) {
  return Guarded(error, size, [&] { program->Evaluate(*call, means, gradient); });
}

constexpr Interface kInterface = {kInterfaceVersion, Describe,       Create,         Destroy,
                                  Evaluate,          State,          StateGradient,  Sample,
                                  CreateDensity,     DestroyDensity, EvaluateDensity};

}  // namespace
}  // namespace device
}  // namespace qfleet

extern "C" __attribute__((visibility("default"))) const qfleet::device::Interface*
qfleet_device_interface() {
  return &qfleet::device::kInterface;
}
