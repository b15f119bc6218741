// qfleet.h: version, machine, threads and programs.
#include <algorithm>
#include <utility>

#include "capi/capi_internal.h"
#include "cpu/thread_pool.h"
#include "cpu/tile_layout.h"
#include "network/network_engine.h"
#include "noisy/density_engine.h"
#include "noisy/device_density.h"
#include "noisy/trajectory_engine.h"
#include "program/program_reader.h"

namespace qfleet {
namespace {

constexpr int32_t kMaxLayoutQubits = 40;
constexpr int64_t kLayoutFields = 6;

// Where a program's states are: on a device, or on the CPU without a library.
struct Place {
  const char* library = nullptr;
  int32_t device = 0;
};

template <class T>
LoadedProgram Load(const std::string& bytes, const Place& place) {
  const int64_t format = FormatOf(bytes);
  const Kernels<T>& kernels = BestKernels<T>();
  if (place.library && format != Program::kFormat && format != DensityProgram::kFormat)
    throw std::invalid_argument("only state vectors and density matrices run on a device");
  if (format == NetworkProgram::kFormat)
    return std::make_unique<NetworkEngine<T>>(std::make_shared<NetworkProgram>(bytes), kernels);
  if (format == DensityProgram::kFormat) {
    const auto program = std::make_shared<DensityProgram>(bytes);
    if (!place.library) return std::make_unique<DensityEngine<T>>(program, kernels);
    if (program->takes_states)
      throw std::invalid_argument("density matrices that take states run on the CPU only");
    return std::make_unique<DeviceDensityEngine<T>>(place.library, place.device, program);
  }
  if (format == TrajectoryProgram::kFormat)
    return std::make_unique<TrajectoryEngine<T>>(std::make_shared<TrajectoryProgram>(bytes),
                                                 kernels);
  auto engine = std::make_unique<StateVectorEngine<T>>(std::make_shared<Program>(bytes), kernels);
  if (!place.library) return engine;
  engine->UseDevice(
      std::make_unique<DeviceEngine>(place.library, place.device, engine->program(), sizeof(T)));
  return engine;
}

int32_t SimdLanes(int32_t real_bytes) {
  if (real_bytes == sizeof(float)) return BestKernels<float>().lanes;
  if (real_bytes == sizeof(double)) return BestKernels<double>().lanes;
  return 0;
}

void CheckRealBytes(int32_t real_bytes) {
  if (!SimdLanes(real_bytes))
    throw std::invalid_argument("real_bytes must be 4 or 8, not " + std::to_string(real_bytes));
}

// Creates a program and gives it a handle.
void Register(const void* bytes, int64_t size, int32_t real_bytes, const Place& place,
              qfleet_program* program) {
  if (!program) throw std::invalid_argument("program must not be null");
  *program = 0;
  if (size < 0) throw std::invalid_argument("size must not be negative");
  if (!bytes) throw std::invalid_argument("bytes must not be null");
  CheckRealBytes(real_bytes);
  const std::string program_bytes(static_cast<const char*>(bytes), size);
  *program = AddProgram(std::make_shared<LoadedProgram>(real_bytes == sizeof(float)
                                                            ? Load<float>(program_bytes, place)
                                                            : Load<double>(program_bytes, place)));
}

}  // namespace

}  // namespace qfleet

using namespace qfleet;  // NOLINT: the functions of this file are in the global namespace

int32_t qfleet_abi_version() { return QFLEET_ABI_VERSION; }

const char* qfleet_instruction_set() { return InstructionSetName(); }

int32_t qfleet_simd_lanes(int32_t real_bytes) { return SimdLanes(real_bytes); }

int32_t qfleet_thread_count() { return ThreadPool::Get().ThreadCount(); }

qfleet_status qfleet_set_thread_count(int32_t count) {
  return RunGuarded(__func__, [&] {
    if (count < 1 || count > kMaxThreads)
      throw std::invalid_argument("count must be from 1 to " + std::to_string(kMaxThreads) +
                                  ", not " + std::to_string(count));
    ThreadPool::Get().SetThreadCount(count);
  });
}

qfleet_status qfleet_program_create(const void* bytes, int64_t size, int32_t real_bytes,
                                    qfleet_program* program) {
  return RunGuarded(__func__, [&] { Register(bytes, size, real_bytes, {}, program); });
}

qfleet_status qfleet_program_create_on(const void* bytes, int64_t size, int32_t real_bytes,
                                       const char* library, int32_t device,
                                       qfleet_program* program) {
  return RunGuarded(__func__, [&] {
    if (program) *program = 0;
    if (!library) throw std::invalid_argument("library must not be null");
    Register(bytes, size, real_bytes, {library, device}, program);
  });
}

qfleet_status qfleet_device_describe(const char* library, int32_t device,
                                     qfleet_device_info* info) {
  return RunGuarded(__func__, [&] {
    if (!library || !info) throw std::invalid_argument("library and info must not be null");
    const device::DeviceDescription found = DescribeDevice(library, device);
    *info = {};
    std::copy_n(found.name, sizeof(info->name), info->name);
    info->total_bytes = found.total_bytes;
    info->free_bytes = found.free_bytes;
    info->multiprocessors = found.multiprocessors;
    info->is_host_executor = found.host_executor;
    info->double_ratio = found.double_ratio;
  });
}

qfleet_status qfleet_program_destroy(qfleet_program program) {
  return RunGuarded(__func__, [&] { RemoveProgram(program); });
}

qfleet_status qfleet_program_describe(qfleet_program program, qfleet_program_info* info) {
  return RunGuarded(__func__, [&] {
    if (!info) throw std::invalid_argument("info must not be null");
    const std::shared_ptr<const LoadedProgram> loaded = FindProgram(program);
    const ProgramSizes& found = SizesOf(*loaded);
    info->qubits = found.qubits;
    info->shared = found.shared;
    info->per_example = found.per_example;
    info->readouts = found.readouts;
    info->takes_states = found.takes_states;
    info->records = found.records;
    info->real_bytes = std::visit(
        [](const auto& engine) { return sizeof(RealOf<decltype(engine.get())>); }, *loaded);
  });
}

qfleet_status qfleet_tile_layout(int32_t qubits, int32_t real_bytes, int64_t batch, int64_t threads,
                                 int64_t* fields, int64_t field_count) {
  return RunGuarded(__func__, [&] {
    CheckRealBytes(real_bytes);
    if (qubits < 1 || qubits > kMaxLayoutQubits)
      throw std::invalid_argument("qubits must be from 1 to " + std::to_string(kMaxLayoutQubits) +
                                  ", not " + std::to_string(qubits));
    if (batch < 0 || batch > INT64_MAX / 2 || threads < 1)
      throw std::invalid_argument("batch must be at least 0 and threads at least 1");
    int64_t* out =
        Checked<int64_t>("fields", static_cast<void*>(fields), field_count, kLayoutFields);
    const TileLayout layout =
        ChooseTileLayout(qubits, SimdLanes(real_bytes), real_bytes, batch, threads);
    out[0] = layout.lane_qubits;
    out[1] = layout.samples;
    out[2] = layout.tiles;
    out[3] = layout.groups;
    out[4] = layout.tile_reals;
    out[5] = layout.shared_tile;
  });
}
