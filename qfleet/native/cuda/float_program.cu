#include "launches.h"

namespace qfleet {
namespace device {

std::unique_ptr<Program> MakeFloatProgram(int32_t device, const ProgramTables& tables) {
  return std::make_unique<TypedProgram<float>>(device, tables);
}

}  // namespace device
}  // namespace qfleet
