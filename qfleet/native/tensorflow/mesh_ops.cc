// Collectives over TCP connections that training/group/mesh.py opens: the sum of a vector over all
// workers (all-reduce), and the exchange of rows (all-to-all) between workers that share a state.
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
//
// Collectives that use a connection at the same time would mix their messages. All of them take one
// resource, `order`, so TensorFlow runs them in the order of the program, also where functions,
// branches and loops contain them. An overlap is an error.
#include <poll.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <mutex>
#include <set>
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
constexpr int kLengthBits = 44;        // bits of a message's tag below the call site

// Limit of every collective of this process; see qfleet_set_all_reduce_timeout.
std::atomic<double> timeout_seconds{1e18};

double Now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// A message, of which some bytes are done: a tag, and a part of a tensor.
struct Message {
  uint64_t tag;
  char* data;
  size_t size;  // bytes of the part
  size_t done = 0;

  bool is_complete() const { return done == sizeof tag + size; }

  // Calls sendmsg or recvmsg for the remaining bytes.
  template <class Call>
  ssize_t Continue(Call call, int socket, int flags) {
    iovec parts[2];
    msghdr header{};
    header.msg_iov = parts;
    const size_t taken = std::max(done, sizeof tag) - sizeof tag;
    if (done < sizeof tag)
      parts[header.msg_iovlen++] = {reinterpret_cast<char*>(&tag) + done, sizeof tag - done};
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

// The use of connections by one collective, which fails where another one uses them.
class Claim {
 public:
  explicit Claim(const std::vector<int>& sockets) : sockets_(sockets) {
    std::lock_guard<std::mutex> lock(mutex_);
    succeeded_ = std::none_of(sockets.begin(), sockets.end(),
                              [](int socket) { return used_.count(socket) > 0; });
    if (!succeeded_) return;
    for (int socket : sockets)
      if (socket >= 0) used_.insert(socket);
  }
  ~Claim() {
    if (!succeeded_) return;
    std::lock_guard<std::mutex> lock(mutex_);
    for (int socket : sockets_) used_.erase(socket);
  }
  Claim(const Claim&) = delete;
  Claim& operator=(const Claim&) = delete;

  tf::Status status() const {
    if (succeeded_) return tf::OkStatus();
    return tf::errors::Internal("two collectives over the same connections overlap");
  }

 private:
  static inline std::mutex mutex_;
  static inline std::set<int> used_;
  const std::vector<int>& sockets_;
  bool succeeded_;
};

// One collective of this worker: its hops have one time limit.
class Exchange {
 public:
  Exchange(tf::OpKernelContext* context, uint64_t tag, const std::vector<int>& sockets)
      : context_(context), tag_(tag), claim_(sockets) {}

  // Adds a peer to the next hop. T is that of the vector; counts are elements.
  template <class T>
  void Add(int rank, int socket, const T* sent, int64_t sent_count, T* received,
           int64_t received_count) {
    char* data = const_cast<char*>(reinterpret_cast<const char*>(sent));
    peers_.push_back({rank,
                      socket,
                      {tag_, data, sent_count * sizeof(T)},
                      {0, reinterpret_cast<char*>(received), received_count * sizeof(T)}});
  }

  // Sends and receives at the same time until the hop is complete.
  tf::Status Run() {
    TF_RETURN_IF_ERROR(claim_.status());
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
      // All workers must be at the same collective, with the same type and length.
      if (message.done >= sizeof message.tag && message.tag != peer->outgoing.tag)
        return tf::errors::Internal("worker ", peer->rank, " is at a different collective");
    }
    return tf::OkStatus();
  }

  tf::OpKernelContext* context_;
  uint64_t tag_;
  Claim claim_;
  std::vector<Peer> peers_;
  double waited_ = 0, last_ = Now();
};

// Abstract. The workers of a collective, in the order of their ranks.
class MeshOp : public tf::OpKernel {
 public:
  explicit MeshOp(tf::OpKernelConstruction* context) : OpKernel(context) {
    OP_REQUIRES_OK(context, context->GetAttr("sockets", &sockets_));
    OP_REQUIRES_OK(context, context->GetAttr("first_rank", &first_rank_));
    OP_REQUIRES_OK(context, context->GetAttr("call_site", &call_site_));
#ifdef SO_NOSIGPIPE
    const int on = 1;
    for (int socket : sockets_)
      if (socket >= 0) setsockopt(socket, SOL_SOCKET, SO_NOSIGPIPE, &on, sizeof on);
#endif
    const auto is_own = [](int socket) { return socket < 0; };
    OP_REQUIRES(
        context, std::count_if(sockets_.begin(), sockets_.end(), is_own) == 1,
        tf::errors::InvalidArgument("exactly one link must be negative: this worker's own"));
    own_ = std::find_if(sockets_.begin(), sockets_.end(), is_own) - sockets_.begin();
  }

 protected:
  int workers() const { return sockets_.size(); }
  int own() const { return own_; }

  Exchange Begin(tf::OpKernelContext* context, int64_t bytes) const {
    return Exchange(context, static_cast<uint64_t>(call_site_) << kLengthBits | bytes, sockets_);
  }

  template <class... Parts>
  void Add(Exchange* exchange, int worker, Parts... parts) const {
    exchange->Add(first_rank_ + worker, sockets_[worker], parts...);
  }

 private:
  std::vector<int> sockets_;
  int first_rank_ = 0, call_site_ = 0, own_ = 0;
};

template <class T>
class AllReduceOp : public MeshOp {
 public:
  explicit AllReduceOp(tf::OpKernelConstruction* context) : MeshOp(context) {
    OP_REQUIRES_OK(context, context->GetAttr("hops", &hops_));
    OP_REQUIRES(context, hops_ == 1 || hops_ == 2,
                tf::errors::InvalidArgument("hops must be 1 or 2"));
  }

  void Compute(tf::OpKernelContext* context) override {
    const tf::Tensor& input = context->input(0);
    tf::Tensor* total = nullptr;
    OP_REQUIRES_OK(context, context->allocate_output(0, input.shape(), &total));
    const int64_t length = input.NumElements();
    const T* vector = input.flat<T>().data();
    T* sum = total->flat<T>().data();
    const int64_t begin = First(own(), length), count = Count(own(), length);
    tf::Tensor received;
    OP_REQUIRES_OK(context, context->allocate_temp(tf::DataTypeToEnum<T>::value, {workers(), count},
                                                   &received));
    T* parts = received.flat<T>().data();  // by rank; that of this worker is not used
    Exchange exchange = Begin(context, length * sizeof(T));
    for (int rank = 0; rank < workers(); ++rank)
      if (rank != own())
        Add(&exchange, rank, vector + First(rank, length), Count(rank, length),
            parts + rank * count, count);
    OP_REQUIRES_OK(context, exchange.Run());
    // Add in the order of ranks, so that all workers compute the same bits.
    std::fill_n(sum + begin, count, T(0));
    for (int rank = 0; rank < workers(); ++rank) {
      const T* part = rank == own() ? vector + begin : parts + rank * count;
      for (int64_t i = 0; i < count; ++i) sum[begin + i] += part[i];
    }
    if (hops_ == 1) return;
    for (int rank = 0; rank < workers(); ++rank)
      if (rank != own())
        Add(&exchange, rank, sum + begin, count, sum + First(rank, length), Count(rank, length));
    OP_REQUIRES_OK(context, exchange.Run());
  }

 private:
  // The part that a worker adds: everything with one hop.
  int64_t First(int rank, int64_t length) const {
    return hops_ == 1 ? 0 : length * rank / workers();
  }
  int64_t Count(int rank, int64_t length) const {
    return hops_ == 1 ? length : First(rank + 1, length) - First(rank, length);
  }

  int hops_ = 1;
};

// Sends row r of [workers, n] to worker r; row r of the result is from worker r.
template <class T>
class AllToAllOp : public MeshOp {
 public:
  using MeshOp::MeshOp;

  void Compute(tf::OpKernelContext* context) override {
    const tf::Tensor& rows = context->input(0);
    OP_REQUIRES(
        context, rows.dims() == 2 && rows.dim_size(0) == workers(),
        tf::errors::InvalidArgument("rows must be a matrix with a row for each of ", workers(),
                                    " workers, not ", rows.shape().DebugString()));
    tf::Tensor* received = nullptr;
    OP_REQUIRES_OK(context, context->allocate_output(0, rows.shape(), &received));
    const int64_t count = rows.dim_size(1);
    const T* from = rows.flat<T>().data();
    T* to = received->flat<T>().data();
    Exchange exchange = Begin(context, count * sizeof(T));
    for (int rank = 0; rank < workers(); ++rank)
      if (rank != own()) Add(&exchange, rank, from + rank * count, count, to + rank * count, count);
    OP_REQUIRES_OK(context, exchange.Run());
    std::copy_n(from + own() * count, count, to + own() * count);
  }
};

}  // namespace

// Limits the wait of each collective of this process, also of those that run; see
// training/step/allreduce.py. It may change between two steps.
extern "C" __attribute__((visibility("default"))) void qfleet_set_all_reduce_timeout(
    double seconds) {
  timeout_seconds.store(seconds, std::memory_order_relaxed);
}

// order: any resource; one for all collectives of a process.
// sockets: by worker, the connection's file descriptor, or -1 for this one.
// first_rank: the rank of the first worker, for errors. call_site: below 2^19; equal on all
// workers, and 0 for the all-reduce of gradients.
#define QFLEET_MESH_ATTRS                                              \
  Attr("sockets: list(int) >= 2")                                      \
      .Attr("first_rank: int = 0")                                     \
      .Attr("call_site: int = 0")                                      \
      .SetIsStateful()                                                 \
      .SetShapeFn([](tf::shape_inference::InferenceContext* context) { \
        context->set_output(0, context->input(0));                     \
        return tf::OkStatus();                                         \
      })

REGISTER_OP("QfleetAllReduce")
    .Input("own: T")
    .Input("order: resource")
    .Output("total: T")
    .Attr("T: {float, double, int64}")
    // 1: whole vectors; 2: parts, and their sums.
    .Attr("hops: int")
    .QFLEET_MESH_ATTRS;

REGISTER_OP("QfleetAllToAll")
    .Input("rows: T")
    .Input("order: resource")
    .Output("received: T")
    .Attr("T: {float, double}")
    .QFLEET_MESH_ATTRS;

#define QFLEET_REGISTER(op, T)                                                              \
  REGISTER_KERNEL_BUILDER(Name("Qfleet" #op).Device(tf::DEVICE_CPU).TypeConstraint<T>("T"), \
                          op##Op<T>)
QFLEET_REGISTER(AllReduce, float);
QFLEET_REGISTER(AllReduce, double);
QFLEET_REGISTER(AllReduce, int64_t);
QFLEET_REGISTER(AllToAll, float);
QFLEET_REGISTER(AllToAll, double);

}  // namespace qfleet
