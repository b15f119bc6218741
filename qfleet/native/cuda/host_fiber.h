// A fiber: a function with its own stack that runs until it yields to the code that resumed it.
#ifndef QFLEET_CUDA_HOST_FIBER_H_
#define QFLEET_CUDA_HOST_FIBER_H_

#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <new>

#if defined(__has_feature)  // Clang announces its sanitizers in this way, g++ by macros
#if __has_feature(address_sanitizer) && !defined(__SANITIZE_ADDRESS__)
#define __SANITIZE_ADDRESS__ 1
#endif
#if __has_feature(thread_sanitizer) && !defined(__SANITIZE_THREAD__)
#define __SANITIZE_THREAD__ 1
#endif
#endif

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif
#ifdef __SANITIZE_THREAD__
#include <sanitizer/tsan_interface.h>
#endif

// swapcontext makes a system call per switch, so that it is the choice only for other processors.
#if !defined(__ELF__) || !(defined(__x86_64__) || defined(__aarch64__))
#define QFLEET_FIBER_UCONTEXT 1
#endif

#ifdef QFLEET_FIBER_UCONTEXT
#include <ucontext.h>
#else
// Saves the callee-saved registers on the stack, its pointer in `*from`, and continues at `to`.
extern "C" void qfleet_switch_stack(void** from, void* to);

// Each source that includes this header brings the function: the linker keeps one section of the
// group, and link-time optimization puts several sources in one assembly, where the first counts.
asm(R"(
  .ifndef qfleet_switch_stack
  .pushsection .text.qfleet_switch_stack,"axG",%progbits,qfleet_switch_stack,comdat
  .weak qfleet_switch_stack
  .hidden qfleet_switch_stack
  .type qfleet_switch_stack,%function
  .balign 16
qfleet_switch_stack:
)"
#ifdef __x86_64__
    R"(
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  popq %rdx
  jmp *%rdx
)"
#else
    R"(
  sub sp, sp, #160
  stp x19, x20, [sp, #0]
  stp x21, x22, [sp, #16]
  stp x23, x24, [sp, #32]
  stp x25, x26, [sp, #48]
  stp x27, x28, [sp, #64]
  stp x29, x30, [sp, #80]
  stp d8, d9, [sp, #96]
  stp d10, d11, [sp, #112]
  stp d12, d13, [sp, #128]
  stp d14, d15, [sp, #144]
  mov x9, sp
  str x9, [x0]
  mov sp, x1
  ldp x19, x20, [sp, #0]
  ldp x21, x22, [sp, #16]
  ldp x23, x24, [sp, #32]
  ldp x25, x26, [sp, #48]
  ldp x27, x28, [sp, #64]
  ldp x29, x30, [sp, #80]
  ldp d8, d9, [sp, #96]
  ldp d10, d11, [sp, #112]
  ldp d12, d13, [sp, #128]
  ldp d14, d15, [sp, #144]
  add sp, sp, #160
  ret
)"
#endif
    R"(
  .size qfleet_switch_stack, .-qfleet_switch_stack
  .popsection
  .endif
)");
#endif

namespace qfleet {
namespace device {

// Runs `function` again and again, and yields after each run; stays on the thread that made it.
class Fiber {
 public:
  // `number` staggers the stacks, because equal offsets in their pages would share cache sets.
  Fiber(void (*function)(), int32_t number) : function_(function) {
    const size_t guard = static_cast<size_t>(sysconf(_SC_PAGESIZE));
    mapped_bytes_ = guard + kZoneBytes + kStackBytes;
    mapped_ = mmap(nullptr, mapped_bytes_, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
    if (mapped_ == MAP_FAILED) throw std::bad_alloc();
    mprotect(mapped_, guard, PROT_NONE);
    stack_ = static_cast<char*>(mapped_) + guard;
    stack_bytes_ = kZoneBytes + kStackBytes - static_cast<size_t>(number % 16) * 256;
#ifdef __SANITIZE_THREAD__
    sanitized_ = __tsan_create_fiber(0);
#endif
    Prepare();
  }
  ~Fiber() {
#ifdef __SANITIZE_ADDRESS__
    // The frames of a fiber that did not end would stay poisoned for the next use of the addresses.
    __asan_unpoison_memory_region(stack_, stack_bytes_);
#endif
#ifdef __SANITIZE_THREAD__
    __tsan_destroy_fiber(sanitized_);
#endif
    munmap(mapped_, mapped_bytes_);
  }
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  // Runs the fiber until it yields.
  void Resume() {
    running_ = this;
#ifdef __SANITIZE_ADDRESS__
    void* fake_stack;
    __sanitizer_start_switch_fiber(&fake_stack, stack_, stack_bytes_);
#endif
#ifdef __SANITIZE_THREAD__
    host_sanitized_ = __tsan_get_current_fiber();
    __tsan_switch_to_fiber(sanitized_, 0);
#endif
    Switch(&host_, &context_);
#ifdef __SANITIZE_ADDRESS__
    __sanitizer_finish_switch_fiber(fake_stack, nullptr, nullptr);
#endif
  }

  // Continues after the call of Resume; to be called in the fiber.
  void Yield() {
#ifdef __SANITIZE_ADDRESS__
    void* fake_stack;
    __sanitizer_start_switch_fiber(&fake_stack, host_stack_, host_stack_bytes_);
#endif
#ifdef __SANITIZE_THREAD__
    __tsan_switch_to_fiber(host_sanitized_, 0);
#endif
    Switch(&context_, &host_);
#ifdef __SANITIZE_ADDRESS__
    __sanitizer_finish_switch_fiber(fake_stack, &host_stack_, &host_stack_bytes_);
#endif
  }

  // True if the fiber wrote below its stack. Far below is a guard page, which ends the process.
  bool Overflowed() const {
    const uint64_t* zone = reinterpret_cast<const uint64_t*>(stack_);
    uint64_t bits = 0;
    for (size_t i = 0; i < kZoneBytes / sizeof(uint64_t); ++i) bits |= zone[i];
    return bits != 0;
  }

 private:
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  static constexpr size_t kStackBytes = 256 << 10;
#else
  static constexpr size_t kStackBytes = 64 << 10;
#endif
  static constexpr size_t kZoneBytes = 4096;  // stay zero if the fiber does not overflow

  static void Main() {
    Fiber* const fiber = running_;
#ifdef __SANITIZE_ADDRESS__
    __sanitizer_finish_switch_fiber(nullptr, &fiber->host_stack_, &fiber->host_stack_bytes_);
#endif
    for (;;) {
      fiber->function_();
      fiber->Yield();
    }
  }

#ifdef QFLEET_FIBER_UCONTEXT
  using Context = ucontext_t;
  static void Switch(Context* from, Context* to) { swapcontext(from, to); }
  void Prepare() {
    getcontext(&context_);
    context_.uc_stack.ss_sp = stack_;
    context_.uc_stack.ss_size = stack_bytes_;
    context_.uc_link = nullptr;
    makecontext(&context_, &Fiber::Main, 0);
  }
#else
  using Context = void*;
  static void Switch(Context* from, Context* to) { qfleet_switch_stack(from, *to); }
  // Lays out the registers that the first switch restores; zeros elsewhere end a debugger's trace.
  void Prepare() {
#ifdef __x86_64__
    constexpr int kWords = 8, kReturnAddress = 6;
#else
    constexpr int kWords = 20, kReturnAddress = 11;
#endif
    void** words = reinterpret_cast<void**>(stack_ + stack_bytes_) - kWords;
    words[kReturnAddress] = reinterpret_cast<void*>(&Fiber::Main);
    context_ = words;
  }
#endif

  inline static thread_local Fiber* running_ = nullptr;

  void (*function_)();
  void* mapped_;
  size_t mapped_bytes_;
  char* stack_;
  size_t stack_bytes_;
  Context context_, host_;
#ifdef __SANITIZE_ADDRESS__
  const void* host_stack_ = nullptr;
  size_t host_stack_bytes_ = 0;
#endif
#ifdef __SANITIZE_THREAD__
  void* sanitized_;
  void* host_sanitized_ = nullptr;
#endif
};

}  // namespace device
}  // namespace qfleet

#endif  // QFLEET_CUDA_HOST_FIBER_H_
