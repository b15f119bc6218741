#include "launches.h"

namespace qfleet {
namespace device {

std::unique_ptr<Program> MakeDualFloatProgram(int32_t device, const ProgramTables& tables) {
  return std::make_unique<TypedProgram<Dual<float>>>(device, tables);
}

}  // namespace device
}  // namespace qfleet
