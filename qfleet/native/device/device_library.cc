#include "device/device_library.h"

#include <dlfcn.h>
#include <unistd.h>

#include <atomic>
#include <map>
#include <mutex>

namespace qfleet {
namespace {

std::atomic<pid_t> owner{0};  // the process that loaded a library; 0: none did

}  // namespace

bool DevicesAreOfParent() { return owner != 0 && owner != getpid(); }

void RequireOwnDevices() {
  if (DevicesAreOfParent())
    throw DeviceFailure(
        "this process was forked from one that uses a GPU, and cannot use it: start it by the "
        "method spawn, such as DataLoader(..., multiprocessing_context='spawn'), or compile its "
        "circuits for the device cpu");
}

const device::Interface* LoadDeviceLibrary(const std::string& path) {
  RequireOwnDevices();  // before a lock that another thread may have held
  static std::mutex mutex;
  static auto& loaded = *new std::map<std::string, const device::Interface*>();
  const std::lock_guard<std::mutex> lock(mutex);
  const device::Interface*& found = loaded[path];
  if (found) return found;
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library)
    throw DeviceFailure(std::string("the device library cannot be loaded: ") + dlerror());
  using Function = const device::Interface*();
  auto* function = reinterpret_cast<Function*>(dlsym(library, "qfleet_device_interface"));
  if (!function || function()->version != device::kInterfaceVersion)
    throw DeviceFailure("the device library " + path + " is of another version: build it again");
  owner = getpid();
  return found = function();
}

device::DeviceDescription DescribeDevice(const std::string& library, int32_t number) {
  device::DeviceDescription description;
  RunOnDevice(LoadDeviceLibrary(library)->describe, number, &description);
  return description;
}

}  // namespace qfleet
