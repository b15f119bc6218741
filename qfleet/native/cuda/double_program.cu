#include "launches.h"

namespace qfleet {
namespace device {

std::unique_ptr<Program> MakeDoubleProgram(int32_t device, const ProgramTables& tables,
                                           std::shared_ptr<Workspace> workspace) {
  return std::make_unique<TypedProgram<double>>(device, tables, std::move(workspace));
}

}  // namespace device
}  // namespace qfleet
