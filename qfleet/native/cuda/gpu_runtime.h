// What the kernels and their launches need of a GPU. Included by runtime.h.
#ifndef QFLEET_CUDA_GPU_RUNTIME_H_
#define QFLEET_CUDA_GPU_RUNTIME_H_

#include <cuda_runtime.h>

#include <new>
#include <tuple>

#include "device_facts.h"
#include "failures.h"

namespace qfleet {
namespace device {

// After these errors each later call of the process fails.
inline bool IsLost(cudaError_t status) {
  for (const cudaError_t error :
       {cudaErrorIllegalAddress, cudaErrorLaunchFailure, cudaErrorLaunchTimeout, cudaErrorAssert,
        cudaErrorMisalignedAddress, cudaErrorIllegalInstruction, cudaErrorInvalidPc,
        cudaErrorInvalidAddressSpace, cudaErrorHardwareStackError, cudaErrorECCUncorrectable,
        cudaErrorNvlinkUncorrectable, cudaErrorContextIsDestroyed, cudaErrorMpsClientTerminated,
        cudaErrorUnknown})
    if (status == error) return true;
  // cudaErrorContained and cudaErrorTensorMemoryLeak, which older toolkits do not name.
  return static_cast<int>(status) == 226 || static_cast<int>(status) == 721;
}

inline void Check(cudaError_t status, const char* what) {
  if (status == cudaSuccess) return;
  cudaGetLastError();  // clears errors of the call, not those of the device
  const Cause cause = IsLost(status)                              ? Cause::kLost
                      : status == cudaErrorMemoryAllocation       ? Cause::kMemory
                      : status == cudaErrorDevicesUnavailable     ? Cause::kBusy
                      : status == cudaErrorNoKernelImageForDevice ? Cause::kNoCode
                                                                  : Cause::kOther;
  throw FailureOf(cause, what, cudaGetErrorString(status));
}

using Stream = cudaStream_t;

// While it exists, the launches and copies of its thread are added to a graph, one after another,
// instead of being started. A stream that captures them would stop others that wait for the device.
class GraphRecorder {
 public:
  explicit GraphRecorder(cudaGraph_t graph) : graph_(graph) { current = this; }
  ~GraphRecorder() { current = nullptr; }

  template <class... Parameters>
  void AddKernel(void (*kernel)(Parameters...), dim3 grid, int32_t cluster, int32_t threads,
                 int64_t shared_bytes, std::tuple<Parameters...> arguments) {
    std::apply(
        [&](auto&... each) {
          void* addresses[] = {&each...};
          cudaKernelNodeParams parameters = {};
          parameters.func = reinterpret_cast<void*>(kernel);
          parameters.gridDim = grid;
          parameters.blockDim = dim3(static_cast<unsigned>(threads));
          parameters.sharedMemBytes = static_cast<unsigned>(shared_bytes);
          parameters.kernelParams = addresses;
          Add([&](cudaGraphNode_t* node, const cudaGraphNode_t* before, size_t count) {
            return cudaGraphAddKernelNode(node, graph_, before, count, &parameters);
          });
        },
        arguments);
    if (cluster == 1) return;
    cudaLaunchAttributeValue value = {};
    value.clusterDim.x = static_cast<unsigned>(cluster);
    value.clusterDim.y = value.clusterDim.z = 1;
    Check(cudaGraphKernelNodeSetAttribute(last_, cudaLaunchAttributeClusterDimension, &value),
          "a call cannot be recorded");
  }
  void AddCopy(void* to, const void* from, int64_t bytes, cudaMemcpyKind kind) {
    Add([&](cudaGraphNode_t* node, const cudaGraphNode_t* before, size_t count) {
      return cudaGraphAddMemcpyNode1D(node, graph_, before, count, to, from,
                                      static_cast<size_t>(bytes), kind);
    });
  }
  void AddZeros(void* data, int64_t bytes) {
    cudaMemsetParams parameters = {};
    parameters.dst = data;
    parameters.elementSize = 1;
    parameters.width = static_cast<size_t>(bytes);
    parameters.height = 1;
    Add([&](cudaGraphNode_t* node, const cudaGraphNode_t* before, size_t count) {
      return cudaGraphAddMemsetNode(node, graph_, before, count, &parameters);
    });
  }

  inline static thread_local GraphRecorder* current = nullptr;

 private:
  template <class AddNode>
  void Add(const AddNode& add) {
    cudaGraphNode_t node;
    Check(add(&node, last_ ? &last_ : nullptr, last_ ? 1 : 0), "a call cannot be recorded");
    last_ = node;
  }

  const cudaGraph_t graph_;
  cudaGraphNode_t last_ = nullptr;
};

template <class... Parameters, class... Arguments>
void Launch(void (*kernel)(Parameters...), dim3 grid, int32_t threads, int64_t shared_bytes,
            Stream stream, Arguments... arguments) {
  if (GraphRecorder* recorder = GraphRecorder::current)
    return recorder->AddKernel(kernel, grid, 1, threads, shared_bytes,
                               std::tuple<Parameters...>(arguments...));
  kernel<<<grid, threads, shared_bytes, stream>>>(arguments...);
  Check(cudaGetLastError(), "a kernel could not be started");
}

// Lets a kernel use more dynamic shared memory than 48 KiB.
template <class Kernel>
void AllowShared(Kernel* kernel, int64_t bytes) {
  Check(cudaFuncSetAttribute(reinterpret_cast<const void*>(kernel),
                             cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(bytes)),
        "shared memory");
}

// Thread blocks of a kernel that run on a multiprocessor at once.
template <class Kernel>
int32_t BlocksPerMultiprocessor(Kernel* kernel, int32_t threads, int64_t shared_bytes) {
  int blocks = 0;
  Check(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, kernel, threads, shared_bytes),
        "occupancy");
  return blocks < 1 ? 1 : blocks;
}

inline cudaLaunchConfig_t ClusterConfig(dim3 grid, int32_t cluster, int32_t threads,
                                        int64_t shared_bytes, Stream stream,
                                        cudaLaunchAttribute* attribute) {
  attribute->id = cudaLaunchAttributeClusterDimension;
  attribute->val.clusterDim.x = static_cast<unsigned>(cluster);
  attribute->val.clusterDim.y = attribute->val.clusterDim.z = 1;
  cudaLaunchConfig_t config = {};
  config.gridDim = grid;
  config.blockDim = dim3(static_cast<unsigned>(threads));
  config.dynamicSmemBytes = static_cast<size_t>(shared_bytes);
  config.stream = stream;
  config.attrs = attribute;
  config.numAttrs = 1;
  return config;
}

// Starts clusters of `cluster` thread blocks, which must divide the grid.
template <class... Parameters, class... Arguments>
void LaunchClusters(void (*kernel)(Parameters...), dim3 grid, int32_t cluster, int32_t threads,
                    int64_t shared_bytes, Stream stream, Arguments... arguments) {
  if (GraphRecorder* recorder = GraphRecorder::current)
    return recorder->AddKernel(kernel, grid, cluster, threads, shared_bytes,
                               std::tuple<Parameters...>(arguments...));
  cudaLaunchAttribute attribute;
  const cudaLaunchConfig_t config =
      ClusterConfig(grid, cluster, threads, shared_bytes, stream, &attribute);
  Check(cudaLaunchKernelEx(&config, kernel, arguments...), "a kernel could not be started");
}

// Clusters of a kernel that run at once: 0 if the device or the code for it has none of this size.
// AllowShared comes first.
template <class Kernel>
int32_t ActiveClusters(Kernel* kernel, int32_t cluster, int32_t threads, int64_t shared_bytes) {
  constexpr int32_t kPortable = 8, kFirstArchitecture = 90;
  int device = 0, supported = 0, count = 0;
  cudaFuncAttributes facts;
  const void* const address = reinterpret_cast<const void*>(kernel);
  Check(cudaGetDevice(&device), "the device cannot be described");
  Check(cudaDeviceGetAttribute(&supported, cudaDevAttrClusterLaunch, device),
        "the device cannot be described");
  Check(cudaFuncGetAttributes(&facts, address), "a kernel cannot be described");
  if (!supported || facts.ptxVersion < kFirstArchitecture) return 0;
  cudaLaunchAttribute attribute;
  const cudaLaunchConfig_t config = ClusterConfig(dim3(static_cast<unsigned>(cluster)), cluster,
                                                  threads, shared_bytes, nullptr, &attribute);
  // Clusters of more than 8 blocks need this permission, and some devices have none of them.
  if ((cluster <= kPortable ||
       cudaFuncSetAttribute(address, cudaFuncAttributeNonPortableClusterSizeAllowed, 1) ==
           cudaSuccess) &&
      cudaOccupancyMaxActiveClusters(&count, kernel, &config) == cudaSuccess)
    return count;
  cudaGetLastError();
  return 0;
}

#define QFLEET_SHARED_MEMORY(name)                \
  extern __shared__ __align__(16) char name##_[]; \
  char* const name = name##_

// For parts of a kernel whose registers should not be those of its loops, too.
#define QFLEET_NOINLINE __noinline__

constexpr bool kIsHostExecutor = false;

// Checks once, for a program, that the device exists.
inline void RequireDevice(int32_t device) {
  int driver = 0, runtime = 0, count = 0;
  cudaDriverGetVersion(&driver);
  cudaRuntimeGetVersion(&runtime);
  RequireVersion(driver, runtime);
  Check(cudaGetDeviceCount(&count), "there is no usable NVIDIA GPU");
  RequireNumber(device, count);
}

// Each thread chooses its device, for its later calls.
inline void UseDevice(int32_t device) { Check(cudaSetDevice(device), "the device cannot be used"); }

inline DeviceFacts FactsOf(int32_t device) {
  cudaDeviceProp properties;
  Check(cudaGetDeviceProperties(&properties, device), "the device cannot be described");
  DeviceFacts facts;
  facts.name = properties.name;
  facts.multiprocessors = properties.multiProcessorCount;
  facts.shared_bytes = static_cast<int64_t>(properties.sharedMemPerBlockOptin);
  Check(cudaDeviceGetAttribute(&facts.double_ratio, cudaDevAttrSingleToDoublePrecisionPerfRatio,
                               device),
        "the device cannot be described");
  return facts;
}

inline void FreeMemory(int64_t* free_bytes, int64_t* total_bytes) {
  size_t free_size = 0, total = 0;
  Check(cudaMemGetInfo(&free_size, &total), "the device's memory cannot be read");
  *free_bytes = static_cast<int64_t>(free_size);
  *total_bytes = static_cast<int64_t>(total);
}

inline Stream MakeStream() {
  Stream stream;
  Check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "a stream cannot be made");
  return stream;
}
inline void EndStream(Stream stream) { cudaStreamDestroy(stream); }
inline void* AllocateOnDevice(int64_t bytes) {
  void* data = nullptr;
  Check(cudaMalloc(&data, bytes), "the device's memory");
  return data;
}
inline void FreeOnDevice(void* data) { cudaFree(data); }
// Memory of the host that the device reads and writes by itself.
inline void* AllocatePinned(int64_t bytes) {
  void* data = nullptr;
  if (cudaMallocHost(&data, bytes) == cudaErrorMemoryAllocation) {
    cudaGetLastError();
    throw std::bad_alloc();
  }
  Check(cudaGetLastError(), "pinned memory");
  return data;
}
inline void FreePinned(void* data) { cudaFreeHost(data); }
inline void CopyToDevice(void* to, const void* from, int64_t bytes, Stream stream) {
  if (bytes == 0) return;
  if (GraphRecorder* recorder = GraphRecorder::current)
    return recorder->AddCopy(to, from, bytes, cudaMemcpyHostToDevice);
  Check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyHostToDevice, stream), "a copy to the device");
}
inline void CopyToHost(void* to, const void* from, int64_t bytes, Stream stream) {
  if (bytes == 0) return;
  if (GraphRecorder* recorder = GraphRecorder::current)
    return recorder->AddCopy(to, from, bytes, cudaMemcpyDeviceToHost);
  Check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToHost, stream), "a copy to the host");
}
inline void FillZero(void* data, int64_t bytes, Stream stream) {
  if (bytes == 0) return;
  if (GraphRecorder* recorder = GraphRecorder::current) return recorder->AddZeros(data, bytes);
  Check(cudaMemsetAsync(data, 0, bytes, stream), "the device's memory");
}
inline void Synchronize(Stream stream) {
  Check(cudaStreamSynchronize(stream), "the device failed");
}

}  // namespace device
}  // namespace qfleet

#endif  // QFLEET_CUDA_GPU_RUNTIME_H_
