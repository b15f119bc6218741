// Calls that are made again and again, such as the steps of a training: their launches and copies
// are recorded once, and started again by one call of the driver.
#ifndef QFLEET_CUDA_RECORDING_H_
#define QFLEET_CUDA_RECORDING_H_

#include <algorithm>
#include <array>
#include <memory>
#include <utility>

#include "runtime.h"

namespace qfleet {
namespace device {

#ifdef __CUDACC__

// The launches and copies of a stream, as a CUDA graph.
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
  bool Record(Stream stream, const Work& work) {
    cudaGraph_t graph = nullptr;
    bool is_made = cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal) == cudaSuccess;
    if (is_made) {
      try {
        work();
      } catch (const DeviceError&) {
        is_made = false;  // the caller does the work again, without a recording
      }
      is_made &= cudaStreamEndCapture(stream, &graph) == cudaSuccess;
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
  bool Record(Stream, const Work& work) {
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

class Recordings {
 public:
  // What a recording depends on: the kind of the call, and the memory that it uses.
  struct Key {
    int64_t size = 0;
    bool values = false, gradient = false;
    int32_t mode = 0;
    std::array<const char*, 5> memory = {};

    bool operator==(const Key& other) const {
      return size == other.size && values == other.values && gradient == other.gradient &&
             mode == other.mode && memory == other.memory;
    }
  };

  // Does the work, which is recorded when it is done again. Nothing in it may allocate or wait.
  template <class Work>
  void Run(const Key& key, Stream stream, const Work& work) {
    for (const Entry& entry : entries_)
      if (entry.recording && entry.key == key) return entry.recording->Start(stream);
    if (!(key == last_) || is_refused_) {
      last_ = key;
      return work();
    }
    auto recording = std::make_unique<Recording>();
    is_refused_ = !recording->Record(stream, work);
    if (is_refused_) return work();
    recording->Start(stream);
    entries_[next_++ % entries_.size()] = {key, std::move(recording)};
  }

 private:
  struct Entry {
    Key key;
    std::unique_ptr<Recording> recording;
  };
  std::array<Entry, 4> entries_;  // steps, a smaller last step, evaluations and predictions
  size_t next_ = 0;
  Key last_;
  bool is_refused_ = false;
};

}  // namespace device
}  // namespace qfleet

#endif  // QFLEET_CUDA_RECORDING_H_
