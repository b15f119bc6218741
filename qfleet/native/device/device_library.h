// Loads a device library on demand and calls its functions.
#ifndef QFLEET_DEVICE_LIBRARY_H_
#define QFLEET_DEVICE_LIBRARY_H_

#include <stdexcept>
#include <string>

#include "cuda/device_interface.h"

namespace qfleet {

// The device is missing or lost, or has too little memory.
class DeviceFailure : public std::runtime_error {
 public:
  explicit DeviceFailure(const std::string& message, device::Status status = device::kDeviceFailed)
      : std::runtime_error(message), status(status) {}
  const device::Status status;
};

// Libraries stay loaded until the process ends, as a device's runtime has threads of its own.
// Throws DeviceFailure, also for a library of another version.
const device::Interface* LoadDeviceLibrary(const std::string& path);

// True in a process that was forked from one with a device library: CUDA works in neither its calls
// nor its clean-up.
bool DevicesAreOfParent();
// Throws DeviceFailure in such a process.
void RequireOwnDevices();

// Runs a function of the library, whose last arguments are its error and the error's size.
template <class Function, class... Arguments>
void RunOnDevice(Function* function, Arguments... arguments) {
  RequireOwnDevices();
  constexpr int64_t kErrorBytes = 512;
  char error[kErrorBytes] = "";
  const device::Status status = function(arguments..., error, kErrorBytes);
  if (status != device::kOk) throw DeviceFailure(error, status);
}

// Throws DeviceFailure.
device::DeviceDescription DescribeDevice(const std::string& library, int32_t number);

}  // namespace qfleet

#endif  // QFLEET_DEVICE_LIBRARY_H_
