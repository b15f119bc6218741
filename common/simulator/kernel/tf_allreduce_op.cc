// The sum of all workers' vectors, over connections that Python made (training/links.py).
//
// A step is a few ms, and ends with a sum of some hundred bytes. TensorFlow's own collectives take
// 1 to 3 ms for it beside a busy processor: a request, an answer and half a dozen threads to wake.
// One write and one read a peer is all there is to do (benchmarks/exchange.py compares).
#include <poll.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <vector>

#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/shape_inference.h"

namespace qfleet {
namespace {

namespace tf = tensorflow;

constexpr int kCancellationPollMs = 200;  // between two looks at whether the step was given up

// What goes to a peer and what comes from it: the length, then the vector.
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
    OP_REQUIRES_OK(context, context->GetAttr("links", &sockets_));
    int own = 0;
    for (int socket : sockets_) own += socket < 0;
    OP_REQUIRES(context, own == 1, tf::errors::InvalidArgument("one link is this worker's own"));
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
    // In the order of ranks, so that the bits are the same in every worker.
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
  // Sends and takes until every peer has all, whichever way is open.
  static tf::Status Transfer(tf::OpKernelContext* context, const std::vector<char>& message,
                             std::vector<Peer>* peers) {
    std::vector<pollfd> pending;
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
      if (poll(pending.data(), pending.size(), kCancellationPollMs) < 0 && errno != EINTR)
        return tf::errors::Internal("poll: ", std::strerror(errno));
      auto* cancellation = context->cancellation_manager();
      if (cancellation != nullptr && cancellation->IsCancelled())
        return tf::errors::Cancelled("the step was given up");
    }
  }

  static tf::Status Send(const std::vector<char>& message, Peer* peer) {
    while (peer->sent < message.size()) {
      const ssize_t count = send(peer->socket, message.data() + peer->sent,
                                 message.size() - peer->sent, MSG_DONTWAIT | MSG_NOSIGNAL);
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
      // Of one type and length in all workers, or they are not at the same exchange.
      if (peer->received >= sizeof(uint64_t) &&
          std::memcmp(peer->buffer.data(), message.data(), sizeof(uint64_t)) != 0)
        return tf::errors::Internal("worker ", peer->rank, " is at another exchange");
    }
    return tf::OkStatus();
  }

  static tf::Status PeerLost(const Peer& peer, const char* reason) {
    return tf::errors::Unavailable("worker ", peer.rank, " is gone: ", reason);
  }

  std::vector<int> sockets_;
};

}  // namespace

REGISTER_OP("QfleetExchange")
    .Input("own: T")
    .Output("total: T")
    .Attr("T: {float, double}")
    // By rank: the connection's file descriptor, or -1 for the worker's own place.
    .Attr("links: list(int) >= 2")
    .SetIsStateful()
    .SetShapeFn([](tf::shape_inference::InferenceContext* context) {
      context->set_output(0, context->input(0));
      return tf::OkStatus();
    });
REGISTER_KERNEL_BUILDER(Name("QfleetExchange").Device(tf::DEVICE_CPU).TypeConstraint<float>("T"),
                        AllReduceOp<float>);
REGISTER_KERNEL_BUILDER(Name("QfleetExchange").Device(tf::DEVICE_CPU).TypeConstraint<double>("T"),
                        AllReduceOp<double>);

}  // namespace qfleet
