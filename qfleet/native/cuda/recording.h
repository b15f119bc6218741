// Calls that are made again and again, such as the steps of a training: their launches and copies
// are recorded once, and started again by one call of the driver.
#ifndef QFLEET_CUDA_RECORDING_H_
#define QFLEET_CUDA_RECORDING_H_

#include <array>
#include <cstdlib>
#include <memory>
#include <utility>

#include "runtime.h"

namespace qfleet {
namespace device {

#ifdef __CUDACC__

// The launches and copies of a call, as a CUDA graph.
class Recording {
 public:
  Recording() = default;
  Recording(const Recording&) = delete;
  Recording& operator=(const Recording&) = delete;
  ~Recording() {
    if (graph_) cudaGraphExecDestroy(graph_);
  }

  // Records what `work` starts; false if the driver refuses it. Starts nothing.
  template <class Work>
  bool Record(const Work& work) {
    cudaGraph_t graph = nullptr;
    bool is_made = cudaGraphCreate(&graph, 0) == cudaSuccess;
    if (is_made) {
      const GraphRecorder recorder(graph);
      try {
        work();
      } catch (const DeviceError&) {
        is_made = false;  // the caller does the work again, without a recording
      }
    }
    is_made = is_made && cudaGraphInstantiate(&graph_, graph, 0) == cudaSuccess;
    if (graph) cudaGraphDestroy(graph);
    if (!is_made) cudaGetLastError();
    return is_made;
  }

  void Start(Stream stream) { Check(cudaGraphLaunch(graph_, stream), "a call cannot be started"); }

 private:
  cudaGraphExec_t graph_ = nullptr;
};

#else

class Recording {
 public:
  template <class Work>
  bool Record(const Work& work) {
    const HostRecorder recorder(&steps_);
    work();
    return true;
  }

  void Start(Stream) {
    for (const auto& step : steps_) step();
  }

 private:
  HostRecorder::Steps steps_;
};

#endif

// The recordings of a program's latest calls. A call is recorded when it is made again; one that is
// made once, or with another size each time, is not. GPU_CHECK, an environment variable, makes an
// error of a refusal by the driver.
class Recordings {
 public:
  // What a recording depends on: the kind of the call, and the allocations that it uses.
  struct Key {
    int64_t size = 0;
    bool values = false, gradient = false;
    int32_t mode = 0;
    std::array<uint64_t, 5> memory = {};

    bool operator==(const Key& other) const {
      return size == other.size && values == other.values && gradient == other.gradient &&
             mode == other.mode && memory == other.memory;
    }
  };

  // Does the work, in which nothing may allocate or wait.
  template <class Work>
  void Run(const Key& key, Stream stream, const Work& work) {
    for (Entry& entry : entries_) {
      if (!(entry.key == key)) continue;
      if (!entry.recording && !entry.is_refused) Record(work, &entry);
      return entry.recording ? entry.recording->Start(stream) : work();
    }
    entries_[next_++ % entries_.size()] = {key, nullptr, false};
    work();
  }

 private:
  struct Entry {
    Key key;
    std::unique_ptr<Recording> recording;
    bool is_refused = false;
  };

  template <class Work>
  static void Record(const Work& work, Entry* entry) {
    auto recording = std::make_unique<Recording>();
    if (recording->Record(work))
      entry->recording = std::move(recording);
    else if (std::getenv("GPU_CHECK"))
      throw DeviceError("the driver refuses a recording", false);
    else
      entry->is_refused = true;
  }

  // Values and gradients, of whole batches, last batches and evaluations, whose sizes differ.
  std::array<Entry, 8> entries_;
  size_t next_ = 0;
};

}  // namespace device
}  // namespace qfleet

#endif  // QFLEET_CUDA_RECORDING_H_
