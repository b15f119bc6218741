#include "launches.h"

namespace qfleet {
namespace device {

std::unique_ptr<Program> MakeDualDoubleProgram(int32_t device, const ProgramTables& tables) {
  return std::make_unique<TypedProgram<Dual<double>>>(device, tables);
}

}  // namespace device
}  // namespace qfleet
