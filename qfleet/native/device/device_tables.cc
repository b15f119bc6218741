#include "device/device_tables.h"

#include <algorithm>
#include <array>

#include "device/device_fusion.h"

namespace qfleet {

DeviceEngine::Tables::Tables(const Program& program) {
  for (const Factor& factor : program.factors) AddFactor(factor);
  for (const Block& block : program.blocks) {
    device::BlockTable table = {};
    table.kind = block.qubits == 2 ? device::kTwoQubits : device::kOneQubit;
    for (int32_t q = 0; q < block.qubits; ++q) table.bits[q] = static_cast<int32_t>(block.bits[q]);
    table.sums = -1;
    for (int mode = 0; mode < 2; ++mode) {
      table.gradient[mode] = block.needs_gradient[mode];
      table.uncompute[mode] = block.needs_uncompute[mode];
    }
    if (const auto image = PermutationOf(program, block)) {
      table.kind = device::kPermutation;
      std::copy(image->begin(), image->end(), table.entry);
    } else if (block.per_example)
      AddProduct(program, block, &table);
    else
      AddSharedBlock(program, block, &table);
    blocks.push_back(table);
  }
  for (const PauliGroup& group : program.pauli_groups)
    for (size_t s = 0; s < group.z.size(); ++s)
      strings.push_back({group.flip, group.z[s], static_cast<int32_t>(group.ys[s]), 0});
}

void DeviceEngine::Tables::AddFactor(const Factor& factor) {
  device::FactorTable table = {};
  table.size = factor.size;
  table.spaces = factor.spaces;
  table.first_exponent = static_cast<int32_t>(exponents.size());
  table.exponents = static_cast<int32_t>(factor.exponents.size());
  table.first_half_turn = static_cast<int32_t>(half_turns.size());
  table.first_matrix = static_cast<int32_t>(factor_matrices.size() / 2);
  factors.push_back(table);
  exponents.insert(exponents.end(), factor.exponents.begin(), factor.exponents.end());
  half_turns.insert(half_turns.end(), factor.half_turns.begin(), factor.half_turns.end());
  for (const std::vector<Complex>* matrices : {&factor.projectors, &factor.generators})
    for (const Complex& entry : *matrices) {
      factor_matrices.push_back(entry.real());
      factor_matrices.push_back(entry.imag());
    }
}

void DeviceEngine::Tables::AddSharedBlock(const Program& program, const Block& block,
                                          device::BlockTable* table) {
  if (block.items.size() == 1) {
    table->matrix = static_cast<int32_t>(block.items[0]);
  } else {
    table->matrix = static_cast<int32_t>(program.sequences.size() + combined.size());
    combined.push_back(&block);
  }
  if (block.needs_gradient[1]) {
    table->sums = static_cast<int32_t>(summed.size());
    summed.push_back(&block);
  }
  if (block.qubits == 1) return;
  // Rows without an entry are those of the identity.
  int32_t rows = 0;
  for (int32_t entry = 0; entry < 16; ++entry)
    if ((block.entries | block.closure) >> entry & 1) rows |= 1 << entry / 4 | 1 << entry % 4;
  struct Half {
    int32_t rows[2], control_bit, control;
  };
  constexpr Half kHalves[] = {{{2, 3}, 0, 1}, {{0, 1}, 0, 0}, {{1, 3}, 1, 1}, {{0, 2}, 1, 0}};
  for (const Half& half : kHalves) {
    if (rows & ~(1 << half.rows[0] | 1 << half.rows[1])) continue;
    table->kind = device::kControlled;
    table->control = half.control;
    table->bits[0] = static_cast<int32_t>(block.bits[half.control_bit]);
    table->bits[1] = static_cast<int32_t>(block.bits[1 - half.control_bit]);
    for (int32_t r = 0; r < 2; ++r)
      for (int32_t j = 0; j < 2; ++j) table->entry[r * 2 + j] = half.rows[r] * 4 + half.rows[j];
    return;
  }
}

void DeviceEngine::Tables::AddProduct(const Program& program, const Block& block,
                                      device::BlockTable* table) {
  table->matrix = ~static_cast<int32_t>(products.size());
  device::ProductTable product = {};
  product.size = block.size();
  product.first_item = static_cast<int32_t>(items.size());
  product.items = static_cast<int32_t>(block.items.size());
  product.sums = -1;
  if (block.needs_gradient[1]) product.sums = table->sums = static_cast<int32_t>(product_sums++);
  for (int mode = 0; mode < 2; ++mode) product.gradient[mode] = block.needs_gradient[mode];
  bool needs_earlier[2] = {false, false};
  for (int64_t item : block.items) {
    device::ItemTable made = {static_cast<int32_t>(item), -1, -1, {}};
    std::copy_n(needs_earlier, 2, made.needs_earlier);
    if (item >= 0) {
      if (program.sequences[item].has_exponents) {
        needs_earlier[0] = needs_earlier[1] = true;
        if (product.sums >= 0) {
          made.sequence_sums = static_cast<int32_t>(summed_sequences.size());
          summed_sequences.push_back(item);
        }
      }
    } else {
      const std::vector<int64_t>& used = program.factors[~item].exponents;
      if (product.sums >= 0 && !used.empty())
        made.first_derivative = static_cast<int32_t>(derivatives.size());
      for (int64_t exponent : used) {
        needs_earlier[0] |= exponent >= 0;
        if (product.sums >= 0) derivatives.push_back(static_cast<int32_t>(exponent));
      }
      needs_earlier[1] = true;
    }
    items.push_back(made);
  }
  products.push_back(product);
}

device::ProgramTables DeviceEngine::Tables::View(const Program& program, int32_t real_bytes,
                                                 bool tangents) const {
  device::ProgramTables view = {};
  view.qubits = program.qubits;
  view.real_bytes = real_bytes;
  view.has_tangents = tangents;
  view.takes_states = program.takes_states;
  view.shared = program.shared;
  view.per_example = program.per_example;
  view.readouts = program.readouts;
  const auto list = [](const auto& from, int64_t* count) {
    *count = static_cast<int64_t>(from.size());
    return from.data();
  };
  view.blocks = list(blocks, &view.block_count);
  view.matrix_count = static_cast<int64_t>(program.sequences.size() + combined.size());
  view.block_sums = static_cast<int64_t>(summed.size());
  view.products = list(products, &view.product_count);
  view.product_sums = product_sums;
  view.items = list(items, &view.item_count);
  view.sequence_sums = static_cast<int64_t>(summed_sequences.size());
  view.factors = list(factors, &view.factor_count);
  view.exponents = list(exponents, &view.exponent_count);
  view.half_turns = list(half_turns, &view.half_turn_count);
  view.factor_matrices = list(factor_matrices, &view.factor_reals);
  view.derivatives = list(derivatives, &view.derivative_count);
  view.strings = list(strings, &view.string_count);
  view.weights = program.weights.data();
  view.offsets = program.offsets.data();
  view.initial = program.initial.empty() ? nullptr : program.initial.data();
  return view;
}

}  // namespace qfleet
