// Why a device cannot be used, in one sentence. The host executor tests them without a GPU.
#ifndef QFLEET_CUDA_FAILURES_H_
#define QFLEET_CUDA_FAILURES_H_

#include <cstdint>
#include <stdexcept>
#include <string>

namespace qfleet {
namespace device {

// A call of the device's interface failed; `is_memory` if the device has too little memory, and
// `is_lost` if each later call of this process fails.
class DeviceError : public std::runtime_error {
 public:
  DeviceError(const std::string& message, bool is_memory, bool is_lost = false)
      : std::runtime_error(message), is_memory(is_memory), is_lost(is_lost) {}
  const bool is_memory, is_lost;
};

constexpr char kFewerQubits[] = ": use fewer qubits, or another device";

enum class Cause { kMemory, kBusy, kNoCode, kLost, kOther };

// `what` is that which failed, and `text` the driver's reason.
inline DeviceError FailureOf(Cause cause, const std::string& what, const std::string& text) {
  switch (cause) {
    case Cause::kMemory:
      return {
          what +
              ": the GPU has too little free memory: use smaller batches, or end other processes"
              " on it, which nvidia-smi lists",
          true};
    case Cause::kBusy:
      return {what +
                  ": the GPU is used by a process that does not share it, or is unavailable: run "
                  "nvidia-smi, or choose another device",
              false};
    case Cause::kNoCode:
      return {
          "the device library has no code for this GPU: build it on this machine by `python -m "
          "qfleet.native.cuda --arch native`",
          false};
    case Cause::kLost:
      return {what + ": " + text +
                  ": this process cannot use the GPU any more: start the process again, and run "
                  "nvidia-smi if it fails again",
              false, true};
    default:
      return {what + ": " + text, false};
  }
}

// The driver must support the CUDA version with which this library was built. Versions are as
// CUDA's: 1000 times the first number and 10 times the second; 0 if there is no driver.
inline void RequireVersion(int driver, int runtime) {
  const auto name = [](int version) {
    return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
  };
  if (driver == 0)
    throw DeviceError("this machine has no NVIDIA driver: install it, or choose the device cpu",
                      false);
  if (driver / 1000 < runtime / 1000)
    throw DeviceError("the NVIDIA driver supports CUDA " + name(driver) +
                          ", but the device library was built with CUDA " + name(runtime) +
                          ": update the driver, or build the library with an older nvcc",
                      false);
}

// Devices of this machine have the numbers 0 to count - 1.
inline void RequireNumber(int32_t device, int32_t count) {
  if (device < 0 || device >= count)
    throw DeviceError("there is no GPU " + std::to_string(device) + ": this machine has " +
                          std::to_string(count) + ", numbered from 0",
                      false);
}

}  // namespace device
}  // namespace qfleet

#endif  // QFLEET_CUDA_FAILURES_H_
