// All-reduce (sum) of a vector over TCP connections that training/group/mesh.py opens.
//
// A step takes a few ms and ends with the sum of some hundred bytes. TensorFlow's collectives take
// 1 to 3 ms for it on a busy processor: a request, a response and half a dozen threads to wake.
// Here it is one write and one read per peer.
//
// With one hop, every worker sends its vector to all others, and each adds all vectors. With two,
// it sends each other worker one part of the vector. Each worker adds its own part, and sends the
// sum to all others: about two vectors in all, as in a ring, but without the 2 (W - 1) hops of a
// ring, each of which waits for the slowest worker. Both add in the order of ranks, so they have
// the same bits.
#include <poll.h>
#include <sys/socket.h>
#include <sys/uio.h>

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

// A message, of which some bytes are done: the length of the whole vector, and a part of it.
struct Message {
  uint64_t length;  // bytes
  char* data;
  size_t size;  // bytes of the part
  size_t done = 0;

  bool is_complete() const { return done == sizeof length + size; }

  // Calls sendmsg or recvmsg for the remaining bytes.
  template <class Call>
  ssize_t Continue(Call call, int socket, int flags) {
    iovec parts[2];
    msghdr header{};
    header.msg_iov = parts;
    const size_t taken = std::max(done, sizeof length) - sizeof length;
    if (done < sizeof length)
      parts[header.msg_iovlen++] = {reinterpret_cast<char*>(&length) + done, sizeof length - done};
    if (taken < size) parts[header.msg_iovlen++] = {data + taken, size - taken};
    const ssize_t count = call(socket, &header, flags);
    if (count > 0) done += count;
    return count;
  }
};

struct Peer {
  int rank;
  int socket;
  Message outgoing;
  Message incoming;
};

tf::Status PeerLost(const Peer& peer, const char* reason) {
  return tf::errors::Unavailable("worker ", peer.rank, " is lost: ", reason);
}

// One all-reduce of this worker: its hops have one time limit.
class Exchange {
 public:
  Exchange(tf::OpKernelContext* context, uint64_t length) : context_(context), length_(length) {}

  // Adds a peer to the next hop. T is that of the vector; counts are elements.
  template <class T>
  void Add(int rank, int socket, const T* sent, int64_t sent_count, T* received,
           int64_t received_count) {
    char* data = const_cast<char*>(reinterpret_cast<const char*>(sent));
    peers_.push_back({rank,
                      socket,
                      {length_, data, sent_count * sizeof(T)},
                      {0, reinterpret_cast<char*>(received), received_count * sizeof(T)}});
  }

  // Sends and receives at the same time until the hop is complete.
  tf::Status Run() {
    std::vector<pollfd> pending;
    for (;;) {
      pending.clear();
      for (Peer& peer : peers_) {
        TF_RETURN_IF_ERROR(Send(&peer));
        TF_RETURN_IF_ERROR(Receive(&peer));
        short events = 0;
        if (!peer.outgoing.is_complete()) events |= POLLOUT;
        if (!peer.incoming.is_complete()) events |= POLLIN;
        if (events) pending.push_back({peer.socket, events, 0});
      }
      if (pending.empty()) break;
      if (poll(pending.data(), pending.size(), kPollMs) < 0 && errno != EINTR)
        return tf::errors::Internal("poll: ", std::strerror(errno));
      auto* cancellation = context_->cancellation_manager();
      if (cancellation != nullptr && cancellation->IsCancelled())
        return tf::errors::Cancelled("the step was cancelled");
      const double now = Now();
      waited_ += std::min(now - last_, kMaxPollSeconds);
      last_ = now;
      if (waited_ >= timeout_seconds.load(std::memory_order_relaxed)) return TimedOut();
    }
    peers_.clear();
    return tf::OkStatus();
  }

 private:
  // Names the peers that have not sent their message; without such, those that do not receive.
  tf::Status TimedOut() const {
    std::string silent, blocked;
    for (const Peer& peer : peers_) {
      const std::string rank = " " + std::to_string(peer.rank);
      if (!peer.incoming.is_complete()) silent += rank;
      if (!peer.outgoing.is_complete()) blocked += rank;
    }
    return tf::errors::DeadlineExceeded("no data from worker", silent.empty() ? blocked : silent,
                                        " for ", static_cast<int>(waited_), " seconds");
  }

  static tf::Status Send(Peer* peer) {
    while (!peer->outgoing.is_complete()) {
      const ssize_t count = peer->outgoing.Continue(sendmsg, peer->socket, kSendFlags);
      if (count < 0 && errno == EINTR) continue;
      if (count < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) break;
      if (count < 0) return PeerLost(*peer, std::strerror(errno));
    }
    return tf::OkStatus();
  }

  static tf::Status Receive(Peer* peer) {
    Message& message = peer->incoming;
    while (!message.is_complete()) {
      const ssize_t count = message.Continue(recvmsg, peer->socket, MSG_DONTWAIT);
      if (count < 0 && errno == EINTR) continue;
      if (count < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) break;
      if (count < 0) return PeerLost(*peer, std::strerror(errno));
      if (count == 0) return PeerLost(*peer, "it closed the connection");
      // All workers must be at the same all-reduce, with the same type and length.
      if (message.done >= sizeof message.length && message.length != peer->outgoing.length)
        return tf::errors::Internal("worker ", peer->rank, " is at a different all-reduce");
    }
    return tf::OkStatus();
  }

  tf::OpKernelContext* context_;
  uint64_t length_;
  std::vector<Peer> peers_;
  double waited_ = 0, last_ = Now();
};

template <class T>
class AllReduceOp : public tf::OpKernel {
 public:
  explicit AllReduceOp(tf::OpKernelConstruction* context) : OpKernel(context) {
    OP_REQUIRES_OK(context, context->GetAttr("sockets", &sockets_));
    OP_REQUIRES_OK(context, context->GetAttr("hops", &hops_));
    OP_REQUIRES(context, hops_ == 1 || hops_ == 2,
                tf::errors::InvalidArgument("hops must be 1 or 2"));
#ifdef SO_NOSIGPIPE
    const int on = 1;
    for (int socket : sockets_)
      if (socket >= 0) setsockopt(socket, SOL_SOCKET, SO_NOSIGPIPE, &on, sizeof on);
#endif
    const auto is_own = [](int socket) { return socket < 0; };
    OP_REQUIRES(
        context, std::count_if(sockets_.begin(), sockets_.end(), is_own) == 1,
        tf::errors::InvalidArgument("exactly one link must be negative: this worker's own"));
    rank_ = std::find_if(sockets_.begin(), sockets_.end(), is_own) - sockets_.begin();
  }

  void Compute(tf::OpKernelContext* context) override {
    const tf::Tensor& own = context->input(0);
    tf::Tensor* total = nullptr;
    OP_REQUIRES_OK(context, context->allocate_output(0, own.shape(), &total));
    const int64_t length = own.NumElements();
    const T* vector = own.flat<T>().data();
    T* sum = total->flat<T>().data();
    const int64_t begin = Begin(rank_, length), count = Count(rank_, length);
    tf::Tensor received;
    OP_REQUIRES_OK(
        context, context->allocate_temp(tf::DataTypeToEnum<T>::value,
                                        {static_cast<int64_t>(sockets_.size()), count}, &received));
    T* parts = received.flat<T>().data();  // by rank; that of this worker is not used
    Exchange exchange(context, length * sizeof(T));
    for (int rank = 0; rank < workers(); ++rank)
      if (rank != rank_)
        exchange.Add(rank, sockets_[rank], vector + Begin(rank, length), Count(rank, length),
                     parts + rank * count, count);
    OP_REQUIRES_OK(context, exchange.Run());
    // Add in the order of ranks, so that all workers compute the same bits.
    std::fill_n(sum + begin, count, T(0));
    for (int rank = 0; rank < workers(); ++rank) {
      const T* part = rank == rank_ ? vector + begin : parts + rank * count;
      for (int64_t i = 0; i < count; ++i) sum[begin + i] += part[i];
    }
    if (hops_ == 1) return;
    for (int rank = 0; rank < workers(); ++rank)
      if (rank != rank_)
        exchange.Add(rank, sockets_[rank], sum + begin, count, sum + Begin(rank, length),
                     Count(rank, length));
    OP_REQUIRES_OK(context, exchange.Run());
  }

 private:
  int workers() const { return sockets_.size(); }

  // The part that a worker adds: everything with one hop.
  int64_t Begin(int rank, int64_t length) const {
    return hops_ == 1 ? 0 : length * rank / workers();
  }
  int64_t Count(int rank, int64_t length) const {
    return hops_ == 1 ? length : Begin(rank + 1, length) - Begin(rank, length);
  }

  std::vector<int> sockets_;
  int hops_ = 1;
  int rank_ = 0;
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
    // 1: whole vectors; 2: parts, and their sums.
    .Attr("hops: int")
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
