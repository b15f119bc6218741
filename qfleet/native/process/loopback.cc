// Restricts listening TCP sockets of a process to this machine; preloaded into local workers.
//
// TensorFlow's gRPC and profiler servers have no authentication, and listen on all interfaces
// without an option to change that. With this library in LD_PRELOAD, a `bind` to all interfaces
// becomes one to the loopback interface. Other addresses stay as they are.
#include <dlfcn.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cstring>

namespace {

using BindFunction = int (*)(int, const sockaddr*, socklen_t);
using ListenFunction = int (*)(int, int);

bool IsTcp(int fd) {
  int type = 0;
  socklen_t length = sizeof type;
  return getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &length) == 0 && type == SOCK_STREAM;
}

int Bind(int fd, const sockaddr* address, socklen_t length) {
  static const auto next = reinterpret_cast<BindFunction>(dlsym(RTLD_NEXT, "bind"));
  return next(fd, address, length);
}

bool IsAny(const in6_addr& address) {
  if (IN6_IS_ADDR_UNSPECIFIED(&address)) return true;
  static const unsigned char none[4] = {0, 0, 0, 0};
  return IN6_IS_ADDR_V4MAPPED(&address) && std::memcmp(address.s6_addr + 12, none, 4) == 0;
}

// A socket of both protocols is reached at 127.0.0.1, as all workers are; others at ::1.
in6_addr Loopback6(int fd) {
  int only_v6 = 0;
  socklen_t length = sizeof only_v6;
  getsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &only_v6, &length);
  in6_addr address = in6addr_loopback;
  if (!only_v6) {
    const unsigned char mapped[16] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 127, 0, 0, 1};
    std::memcpy(address.s6_addr, mapped, sizeof mapped);
  }
  return address;
}

}  // namespace

extern "C" {

__attribute__((visibility("default"))) int bind(int fd, const sockaddr* address,
                                                socklen_t length) noexcept {
  if (address == nullptr || !IsTcp(fd)) return Bind(fd, address, length);
  if (address->sa_family == AF_INET && length >= sizeof(sockaddr_in)) {
    sockaddr_in local;
    std::memcpy(&local, address, sizeof local);
    if (local.sin_addr.s_addr == htonl(INADDR_ANY)) local.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return Bind(fd, reinterpret_cast<const sockaddr*>(&local), sizeof local);
  }
  if (address->sa_family == AF_INET6 && length >= sizeof(sockaddr_in6)) {
    sockaddr_in6 local;
    std::memcpy(&local, address, sizeof local);
    if (IsAny(local.sin6_addr)) local.sin6_addr = Loopback6(fd);
    return Bind(fd, reinterpret_cast<const sockaddr*>(&local), sizeof local);
  }
  return Bind(fd, address, length);
}

// A socket that was never bound would listen on all interfaces.
__attribute__((visibility("default"))) int listen(int fd, int backlog) noexcept {
  static const auto next = reinterpret_cast<ListenFunction>(dlsym(RTLD_NEXT, "listen"));
  sockaddr_storage bound;
  socklen_t length = sizeof bound;
  if (IsTcp(fd) && getsockname(fd, reinterpret_cast<sockaddr*>(&bound), &length) == 0) {
    const auto* v4 = reinterpret_cast<const sockaddr_in*>(&bound);
    const auto* v6 = reinterpret_cast<const sockaddr_in6*>(&bound);
    const bool is_unbound = (bound.ss_family == AF_INET && v4->sin_port == 0) ||
                            (bound.ss_family == AF_INET6 && v6->sin6_port == 0);
    if (is_unbound && bind(fd, reinterpret_cast<const sockaddr*>(&bound), length) != 0) return -1;
  }
  return next(fd, backlog);
}
}
