// A program in the device's form.
#ifndef QFLEET_DEVICE_TABLES_H_
#define QFLEET_DEVICE_TABLES_H_

#include <vector>

#include "device/device_engine.h"

namespace qfleet {

// The tables of a program, and what completes its results on the host.
struct DeviceEngine::Tables {
  explicit Tables(const Program& program);

  device::ProgramTables View(const Program& program, int32_t real_bytes, bool tangents) const;

  std::vector<device::BlockTable> blocks;
  std::vector<device::ProductTable> products;
  std::vector<device::ItemTable> items;
  std::vector<device::FactorTable> factors;
  std::vector<int32_t> exponents, derivatives;
  std::vector<double> half_turns, factor_matrices;
  std::vector<device::PauliString> strings;
  std::vector<const Block*> combined;     // whose matrix follows those of the sequences
  std::vector<const Block*> summed;       // shared blocks, by the number of their sums
  std::vector<int64_t> summed_sequences;  // sequences in products, likewise
  int64_t product_sums = 0;

 private:
  void AddFactor(const Factor& factor);
  void AddSharedBlock(const Program& program, const Block& block, device::BlockTable* table);
  void AddProduct(const Program& program, const Block& block, device::BlockTable* table);
};

}  // namespace qfleet

#endif  // QFLEET_DEVICE_TABLES_H_
