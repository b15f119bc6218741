// All-reduce (sum) of a vector over TCP connections that training/group/mesh.py opens.
//
// A step takes a few ms and ends with the sum of some hundred bytes. TensorFlow's collectives take
// 1 to 3 ms for it on a busy processor: a request, a response and half a dozen threads to wake.
// Here it is one write and one read per peer.
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/shape_inference.h"

namespace qfleet {
namespace {

namespace tf = tensorflow;

#ifdef MSG_NOSIGNAL
constexpr int kSendFlags = MSG_DONTWAIT | MSG_NOSIGNAL;
#else
constexpr int kSendFlags = MSG_DONTWAIT;  // SO_NOSIGPIPE suppresses SIGPIPE instead
#endif
constexpr int kPollMs = 200;           // interval between checks for cancellation and the limit
constexpr double kMaxPollSeconds = 2;  // more has passed where this process did not run

// Limit of every all-reduce of this process; see qfleet_set_all_reduce_timeout.
std::atomic<double> timeout_seconds{1e18};

double Now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// The transfer with one peer. A message is the length in bytes and the vector.
struct Peer {
  int rank;
  int socket;
  size_t sent = 0;
  size_t received = 0;
  std::vector<char> buffer;
};

template <class T>
class AllReduceOp : public tf::OpKernel {
 public:
  explicit AllReduceOp(tf::OpKernelConstruction* context) : OpKernel(context) {
    OP_REQUIRES_OK(context, context->GetAttr("sockets", &sockets_));
    int own = 0;
    for (int socket : sockets_) own += socket < 0;
#ifdef SO_NOSIGPIPE
    const int on = 1;
    for (int socket : sockets_)
      if (socket >= 0) setsockopt(socket, SOL_SOCKET, SO_NOSIGPIPE, &on, sizeof on);
#endif
    OP_REQUIRES(
        context, own == 1,
        tf::errors::InvalidArgument("exactly one link must be negative: this worker's own"));
  }

  void Compute(tf::OpKernelContext* context) override {
    const tf::Tensor& own = context->input(0);
    tf::Tensor* total = nullptr;
    OP_REQUIRES_OK(context, context->allocate_output(0, own.shape(), &total));
    const uint64_t length = own.NumElements() * sizeof(T);
    std::vector<char> message(sizeof length + length);
    std::memcpy(message.data(), &length, sizeof length);
    std::memcpy(message.data() + sizeof length, own.flat<T>().data(), length);
    std::vector<Peer> peers;
    for (int rank = 0; rank < static_cast<int>(sockets_.size()); ++rank)
      if (sockets_[rank] >= 0) {
        peers.push_back({rank, sockets_[rank]});
        peers.back().buffer.resize(message.size());
      }
    OP_REQUIRES_OK(context, Transfer(context, message, &peers));
    // Add in the order of ranks, so that all workers compute the same bits.
    T* sum = total->flat<T>().data();
    std::memset(sum, 0, length);
    auto next_peer = peers.begin();
    for (int socket : sockets_) {
      const char* vector = (socket < 0 ? message : (next_peer++)->buffer).data() + sizeof length;
      for (int64_t i = 0; i < own.NumElements(); ++i) {
        T value;
        std::memcpy(&value, vector + i * sizeof(T), sizeof(T));
        sum[i] += value;
      }
    }
  }

 private:
  // Sends and receives until all transfers are complete.
  static tf::Status Transfer(tf::OpKernelContext* context, const std::vector<char>& message,
                             std::vector<Peer>* peers) {
    std::vector<pollfd> pending;
    double waited = 0, last = Now();
    for (;;) {
      pending.clear();
      for (Peer& peer : *peers) {
        TF_RETURN_IF_ERROR(Send(message, &peer));
        TF_RETURN_IF_ERROR(Receive(message, &peer));
        short events = 0;
        if (peer.sent < message.size()) events |= POLLOUT;
        if (peer.received < message.size()) events |= POLLIN;
        if (!events) continue;
        pending.push_back({peer.socket, events, 0});
      }
      if (pending.empty()) return tf::OkStatus();
      if (poll(pending.data(), pending.size(), kPollMs) < 0 && errno != EINTR)
        return tf::errors::Internal("poll: ", std::strerror(errno));
      auto* cancellation = context->cancellation_manager();
      if (cancellation != nullptr && cancellation->IsCancelled())
        return tf::errors::Cancelled("the step was cancelled");
      const double now = Now();
      waited += std::min(now - last, kMaxPollSeconds);
      last = now;
      if (waited >= timeout_seconds.load(std::memory_order_relaxed))
        return TimedOut(message, *peers, waited);
    }
  }

  // Names the peers that have not sent their vector; without such, those that do not receive.
  static tf::Status TimedOut(const std::vector<char>& message, const std::vector<Peer>& peers,
                             double waited) {
    std::string silent, blocked;
    for (const Peer& peer : peers) {
      const std::string rank = " " + std::to_string(peer.rank);
      if (peer.received < message.size()) silent += rank;
      if (peer.sent < message.size()) blocked += rank;
    }
    return tf::errors::DeadlineExceeded("no data from worker", silent.empty() ? blocked : silent,
                                        " for ", static_cast<int>(waited), " seconds");
  }

  static tf::Status Send(const std::vector<char>& message, Peer* peer) {
    while (peer->sent < message.size()) {
      const ssize_t count =
          send(peer->socket, message.data() + peer->sent, message.size() - peer->sent, kSendFlags);
      if (count < 0 && errno == EINTR) continue;
      if (count < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) break;
      if (count < 0) return PeerLost(*peer, std::strerror(errno));
      peer->sent += count;
    }
    return tf::OkStatus();
  }

  static tf::Status Receive(const std::vector<char>& message, Peer* peer) {
    while (peer->received < message.size()) {
      const ssize_t count = recv(peer->socket, peer->buffer.data() + peer->received,
                                 message.size() - peer->received, MSG_DONTWAIT);
      if (count < 0 && errno == EINTR) continue;
      if (count < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) break;
      if (count < 0) return PeerLost(*peer, std::strerror(errno));
      if (count == 0) return PeerLost(*peer, "it closed the connection");
      peer->received += count;
      // All workers must be at the same all-reduce, with the same type and length.
      if (peer->received >= sizeof(uint64_t) &&
          std::memcmp(peer->buffer.data(), message.data(), sizeof(uint64_t)) != 0)
        return tf::errors::Internal("worker ", peer->rank, " is at a different all-reduce");
    }
    return tf::OkStatus();
  }

  static tf::Status PeerLost(const Peer& peer, const char* reason) {
    return tf::errors::Unavailable("worker ", peer.rank, " is lost: ", reason);
  }

  std::vector<int> sockets_;
};

}  // namespace

// Limits the wait of each all-reduce of this process, also of those that run; see
// training/step/allreduce.py. It may change between two steps.
extern "C" __attribute__((visibility("default"))) void qfleet_set_all_reduce_timeout(
    double seconds) {
  timeout_seconds.store(seconds, std::memory_order_relaxed);
}

REGISTER_OP("QfleetAllReduce")
    .Input("own: T")
    .Output("total: T")
    .Attr("T: {float, double, int64}")
    // By rank: the connection's file descriptor, or -1 for this worker.
    .Attr("sockets: list(int) >= 2")
    .SetIsStateful()
    .SetShapeFn([](tf::shape_inference::InferenceContext* context) {
      context->set_output(0, context->input(0));
      return tf::OkStatus();
    });
REGISTER_KERNEL_BUILDER(Name("QfleetAllReduce").Device(tf::DEVICE_CPU).TypeConstraint<float>("T"),
                        AllReduceOp<float>);
REGISTER_KERNEL_BUILDER(Name("QfleetAllReduce").Device(tf::DEVICE_CPU).TypeConstraint<double>("T"),
                        AllReduceOp<double>);
REGISTER_KERNEL_BUILDER(Name("QfleetAllReduce").Device(tf::DEVICE_CPU).TypeConstraint<int64_t>("T"),
                        AllReduceOp<int64_t>);

}  // namespace qfleet
