#include "device/device_library.h"

#include <dlfcn.h>

#include <map>
#include <mutex>

namespace qfleet {

const device::Interface* LoadDeviceLibrary(const std::string& path) {
  static std::mutex mutex;
  static auto& loaded = *new std::map<std::string, const device::Interface*>();
  const std::lock_guard<std::mutex> lock(mutex);
  const device::Interface*& found = loaded[path];
  if (found) return found;
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library)
    throw DeviceFailure(std::string("the device library cannot be loaded: ") + dlerror(), false);
  using Function = const device::Interface*();
  auto* function = reinterpret_cast<Function*>(dlsym(library, "qfleet_device_interface"));
  if (!function || function()->version != device::kInterfaceVersion)
    throw DeviceFailure("the device library " + path + " is of another version: build it again",
                        false);
  return found = function();
}

device::DeviceDescription DescribeDevice(const std::string& library, int32_t number) {
  device::DeviceDescription description;
  RunOnDevice(LoadDeviceLibrary(library)->describe, number, &description);
  return description;
}

}  // namespace qfleet
