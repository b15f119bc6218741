// As much of NVIDIA's driver as a library needs to find out that it cannot be used. The environment
// has its version, such as 13000, and the error of its start, such as 46.
#include <dlfcn.h>

#include <cstdlib>

namespace {

int NumberOf(const char* name) { return std::atoi(std::getenv(name)); }
int Fail() { return 1; }

}  // namespace

extern "C" {

int cuInit(unsigned) { return NumberOf("DRIVER_ERROR"); }

int cuDriverGetVersion(int* version) {
  *version = NumberOf("DRIVER_VERSION");
  return 0;
}

int cuGetProcAddress_v2(const char* name, void** function, int, unsigned long, int* status) {
  void* const driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
  void* const found = driver ? dlsym(driver, name) : nullptr;
  *function = found ? found : reinterpret_cast<void*>(Fail);
  if (status) *status = 0;
  return 0;
}

int cuGetProcAddress(const char* name, void** function, int version, unsigned long flags) {
  return cuGetProcAddress_v2(name, function, version, flags, nullptr);
}

}  // extern "C"
