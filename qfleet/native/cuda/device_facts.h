// Facts about a device on which launches depend.
#ifndef QFLEET_CUDA_DEVICE_FACTS_H_
#define QFLEET_CUDA_DEVICE_FACTS_H_

#include <cstdint>
#include <string>

namespace qfleet {
namespace device {

struct DeviceFacts {
  std::string name;
  int32_t multiprocessors = 1;
  int64_t shared_bytes = 0;  // that a thread block may use
  int32_t double_ratio = 1;  // operations of floats in the time of one of doubles
};

}  // namespace device
}  // namespace qfleet

#endif  // QFLEET_CUDA_DEVICE_FACTS_H_
