#include "launches.h"

namespace qfleet {
namespace device {

std::unique_ptr<Program> MakeDoubleProgram(int32_t device, const ProgramTables& tables) {
  return std::make_unique<TypedProgram<double>>(device, tables);
}

}  // namespace device
}  // namespace qfleet
