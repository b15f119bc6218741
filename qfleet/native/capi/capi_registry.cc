// The programs of this process by handle.
#include <pthread.h>

#include <mutex>
#include <unordered_map>
#include <utility>

#include "capi/capi_internal.h"

namespace qfleet {
namespace {

// Never destroyed, since other threads may call until the process ends.
struct Registry {
  std::mutex mutex;
  std::unordered_map<qfleet_program, std::shared_ptr<const LoadedProgram>> programs;
  qfleet_program last = 0;  // numbers are not used again
};

Registry& ProcessRegistry() {
  static Registry* const registry = [] {
    // A fork waits for the lock, which no thread of the child could release.
    pthread_atfork([] { ProcessRegistry().mutex.lock(); }, [] { ProcessRegistry().mutex.unlock(); },
                   [] { ProcessRegistry().mutex.unlock(); });
    return new Registry();
  }();
  return *registry;
}

}  // namespace

const ProgramSizes& SizesOf(const LoadedProgram& loaded) {
  return std::visit([](const auto& engine) -> const ProgramSizes& { return engine->program(); },
                    loaded);
}

qfleet_program AddProgram(std::shared_ptr<const LoadedProgram> loaded) {
  Registry& registry = ProcessRegistry();
  const std::lock_guard<std::mutex> lock(registry.mutex);
  registry.programs.emplace(registry.last + 1, std::move(loaded));
  return ++registry.last;
}

std::shared_ptr<const LoadedProgram> FindProgram(qfleet_program handle) {
  Registry& registry = ProcessRegistry();
  const std::lock_guard<std::mutex> lock(registry.mutex);
  const auto found = registry.programs.find(handle);
  if (found == registry.programs.end())
    throw std::invalid_argument("there is no program " + std::to_string(handle));
  return found->second;
}

void RemoveProgram(qfleet_program handle) {
  // Destroyed here, unless other threads use it, and without the registry's lock.
  const std::shared_ptr<const LoadedProgram> last_reference = FindProgram(handle);
  Registry& registry = ProcessRegistry();
  const std::lock_guard<std::mutex> lock(registry.mutex);
  registry.programs.erase(handle);
}

}  // namespace qfleet
