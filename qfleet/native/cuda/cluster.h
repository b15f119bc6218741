// Thread blocks of a cluster, which read the shared memory of all of them.
#ifndef QFLEET_CUDA_CLUSTER_H_
#define QFLEET_CUDA_CLUSTER_H_

#include "runtime.h"

// Devices before sm_90 have no clusters: their code has empty kernels instead, which no launch
// uses.
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
#define QFLEET_HAS_CLUSTERS 1
#endif

namespace qfleet {
namespace device {

constexpr int32_t kMaxClusterBits = 4;

struct Cluster {
  // Waits for all threads of the cluster, whose writes to shared memory can be read then.
  __device__ __forceinline__ void Sync() const {
#ifndef __CUDACC__
    HostExecutor::current->WaitForCluster();
#elif defined(QFLEET_HAS_CLUSTERS)
    __cluster_barrier_arrive();  // as cooperative_groups.h, which needs one more package
    __cluster_barrier_wait();
#endif
  }

  // The address in the shared memory of block `rank` that corresponds to `own` in this block's.
  template <class T>
  __device__ __forceinline__ T* In(uint32_t rank, T* own) const {
#ifndef __CUDACC__
    return HostExecutor::current->AddressIn(rank, own);
#elif defined(QFLEET_HAS_CLUSTERS)
    return static_cast<T*>(__cluster_map_shared_rank(own, rank));
#else
    return own;
#endif
  }
};

}  // namespace device
}  // namespace qfleet

#endif  // QFLEET_CUDA_CLUSTER_H_
