// Shared by the implementation of qfleet.h: programs by handle, checks of arguments, and errors.
#ifndef QFLEET_CAPI_INTERNAL_H_
#define QFLEET_CAPI_INTERNAL_H_

#include <cstdint>
#include <exception>
#include <memory>
#include <new>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <variant>

#include "device/device_engine.h"
#include "program/stateless_engine.h"
#include "qfleet.h"
#include "state/engine.h"

namespace qfleet {

// The engine of a program of any kind, for one type of reals.
using LoadedProgram =
    std::variant<std::unique_ptr<StateVectorEngine<float>>,
                 std::unique_ptr<StateVectorEngine<double>>,
                 std::unique_ptr<StatelessEngine<float>>, std::unique_ptr<StatelessEngine<double>>>;

const ProgramSizes& SizesOf(const LoadedProgram& loaded);

template <class Engine>
constexpr bool kHasStates = std::is_same_v<Engine, StateVectorEngine<typename Engine::Real>>;

// Returns the handle of a program.
qfleet_program AddProgram(std::shared_ptr<const LoadedProgram> loaded);

// Both throw std::invalid_argument if there is no such program.
std::shared_ptr<const LoadedProgram> FindProgram(qfleet_program handle);
void RemoveProgram(qfleet_program handle);

// There is not enough memory for the states of a program.
class OutOfMemory : public std::bad_alloc {
 public:
  explicit OutOfMemory(int32_t qubits) noexcept;
  const char* what() const noexcept override { return sentence_; }

 private:
  char sentence_[64];
};

// Stores the sentence of qfleet_last_error and returns `status`.
qfleet_status Fail(qfleet_status status, const char* function, const char* message) noexcept;

// Runs `body` and turns exceptions into a status and a sentence that starts with `function`.
template <class Body>
qfleet_status RunGuarded(const char* function, const Body& body) noexcept {
  try {
    body();
    return QFLEET_OK;
  } catch (const std::invalid_argument& error) {
    return Fail(QFLEET_INVALID_ARGUMENT, function, error.what());
  } catch (const DeviceFailure& error) {
    return Fail(static_cast<qfleet_status>(error.status), function, error.what());
  } catch (const OutOfMemory& error) {
    return Fail(QFLEET_OUT_OF_MEMORY, function, error.what());
  } catch (const std::bad_alloc&) {
    return Fail(QFLEET_OUT_OF_MEMORY, function, "there is not enough memory");
  } catch (const std::length_error&) {  // of a std::vector
    return Fail(QFLEET_OUT_OF_MEMORY, function, "there is not enough memory");
  } catch (const std::exception& error) {
    return Fail(QFLEET_INTERNAL, function, error.what());
  } catch (...) {
    return Fail(QFLEET_INTERNAL, function, "unknown exception");
  }
}

template <class Engine>  // a pointer to an engine
using RealOf = typename std::remove_pointer_t<Engine>::Real;

// Calls body(engine, program) for a handle's engine, which is one of four types.
template <class Body>
qfleet_status WithEngine(const char* function, qfleet_program handle, const Body& body) noexcept {
  return RunGuarded(function, [&] {
    const std::shared_ptr<const LoadedProgram> loaded = FindProgram(handle);
    try {
      std::visit([&](const auto& engine) { body(engine.get(), engine->program()); }, *loaded);
    } catch (const std::bad_alloc&) {
      throw OutOfMemory(SizesOf(*loaded).qubits);
    }
  });
}

// The same for a program whose states are evolved.
template <class Body>
qfleet_status WithStateEngine(const char* function, qfleet_program handle,
                              const Body& body) noexcept {
  return WithEngine(function, handle, [&](auto* engine, const auto& program) {
    if constexpr (kHasStates<std::remove_pointer_t<decltype(engine)>>)
      body(engine, program);
    else
      throw std::invalid_argument(std::string(program.kind) + " have no state vectors");
  });
}

// The number of elements of an array; throws std::invalid_argument if it is too large.
int64_t Product(int64_t a, int64_t b);

// Throws std::invalid_argument unless a buffer of `type_bytes` per element is aligned for its type
// and has `expected` elements. A buffer of 0 elements may be null.
void CheckBuffer(const char* name, const void* data, int64_t count, int64_t expected,
                 int64_t type_bytes);

// As CheckBuffer; returns the buffer.
template <class T>
T* Checked(const char* name, void* data, int64_t count, int64_t expected) {
  CheckBuffer(name, data, count, expected, sizeof(T));
  return static_cast<T*>(data);
}
template <class T>
const T* Checked(const char* name, const void* data, int64_t count, int64_t expected) {
  CheckBuffer(name, data, count, expected, sizeof(T));
  return static_cast<const T*>(data);
}

// As CheckBuffer, for elements that are not wanted if `data` is null.
void CheckOptional(const char* name, const void* data, int64_t count, int64_t expected,
                   int64_t type_bytes = sizeof(double));

// Checks a permutation of the bits of a state's index; returns it.
const int64_t* CheckedOrder(const char* name, const ProgramSizes& program, const int64_t* order,
                            int64_t count);

// The number of reals in the states of some examples.
int64_t StateReals(const ProgramSizes& program, int64_t size);

// Loops on the threads of an executor, or of the library's own pool if it is null.
Parallel ParallelOver(const qfleet_executor* executor);

// Checks a batch and its executor, which must outlive the result, for reals of T.
template <class T>
Batch MakeBatch(const ProgramSizes& program, const qfleet_batch* batch);

// Throws OutOfMemory if the machine has less memory than this.
void RequireMemory(int64_t bytes, int32_t qubits);

}  // namespace qfleet

#endif  // QFLEET_CAPI_INTERNAL_H_
