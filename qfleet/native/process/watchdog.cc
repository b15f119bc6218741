// A thread that ends this process at a time limit, without Python's interpreter lock.
//
// TensorFlow holds that lock while it waits for other workers, so that no Python thread runs. While
// the limits hold, this thread touches a file that a supervisor looks at
// (training/process/watchdog.py).
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstring>

namespace {

constexpr double kMaxTickSeconds = 2.0;  // more has passed where this process did not run
constexpr int kReportTimeoutMs = 200;    // the reader of the report may be slow, or stopped
constexpr size_t kMaxReport = 4000;      // less than a pipe takes at once

struct Limit {
  double seconds = 1e18;  // since the last progress
  int exit_code = 1;
  int fd = 2;
  size_t length = 0;
  char report[kMaxReport];
};

pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
Limit stage, total;  // guarded by the mutex; the second one is not restarted by progress
double grace_seconds = 0, waited = 0, total_waited = 0;
double interval_seconds = 0.5;
char heartbeat_file[4096];

double Now() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec + 1e-9 * now.tv_nsec;
}

[[noreturn]] void End(const Limit& limit) {
  pollfd writable{limit.fd, POLLOUT, 0};
  if (limit.length && poll(&writable, 1, kReportTimeoutMs) == 1) {
    const ssize_t written = write(limit.fd, limit.report, limit.length);
    static_cast<void>(written);
  }
  _exit(limit.exit_code);
}

void* Watch(void*) {
  double last = Now();
  for (;;) {
    usleep(static_cast<useconds_t>(1e6 * interval_seconds));
    const double now = Now(), passed = now - last;
    last = now;
    pthread_mutex_lock(&mutex);
    waited += passed < kMaxTickSeconds ? passed : kMaxTickSeconds;
    total_waited += passed;
    const bool in_limits = waited < stage.seconds && total_waited < total.seconds;
    const bool stage_over = waited >= stage.seconds + grace_seconds;
    const bool total_over = total_waited >= total.seconds + grace_seconds;
    if (stage_over) End(stage);
    if (total_over) End(total);
    pthread_mutex_unlock(&mutex);
    if (in_limits && heartbeat_file[0]) utimensat(AT_FDCWD, heartbeat_file, nullptr, 0);
  }
  return nullptr;
}

void Set(Limit* limit, double seconds, int exit_code, int fd, const char* report, int64_t length) {
  limit->seconds = seconds;
  limit->exit_code = exit_code;
  limit->fd = fd;
  limit->length = static_cast<size_t>(length) < kMaxReport ? length : kMaxReport;
  std::memcpy(limit->report, report, limit->length);
}

}  // namespace

extern "C" {

// Starts the thread, once per process. `file` may be empty. Returns 0, or an errno.
__attribute__((visibility("default"))) int qfleet_watchdog_start(const char* file,
                                                                 double interval) {
  std::snprintf(heartbeat_file, sizeof heartbeat_file, "%s", file);
  interval_seconds = interval;
  pthread_t thread;
  const int error = pthread_create(&thread, nullptr, Watch, nullptr);
  if (!error) pthread_detach(thread);
  return error;
}

// Begins a stage: after `seconds` without progress the file is no longer touched; `grace` seconds
// later, `report` is written to `fd`, and the process ends.
__attribute__((visibility("default"))) void qfleet_watchdog_enter(double seconds, double grace,
                                                                  int exit_code, int fd,
                                                                  const char* report,
                                                                  int64_t length) {
  pthread_mutex_lock(&mutex);
  Set(&stage, seconds, exit_code, fd, report, length);
  grace_seconds = grace;
  waited = 0;
  pthread_mutex_unlock(&mutex);
}

// Restarts the limit of the stage.
__attribute__((visibility("default"))) void qfleet_watchdog_progress() {
  pthread_mutex_lock(&mutex);
  waited = 0;
  pthread_mutex_unlock(&mutex);
}

// Sets the limit of the whole process, from now on.
__attribute__((visibility("default"))) void qfleet_watchdog_deadline(double seconds, int exit_code,
                                                                     int fd, const char* report,
                                                                     int64_t length) {
  pthread_mutex_lock(&mutex);
  Set(&total, seconds, exit_code, fd, report, length);
  total_waited = 0;
  pthread_mutex_unlock(&mutex);
}
}
