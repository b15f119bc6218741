#include "network/network_program.h"

#include <algorithm>

#include "program/program_reader.h"

namespace qfleet {
namespace {

constexpr int64_t kMaxNetworkQubits = 1 << 20;
constexpr int64_t kMaxRank = 34;
constexpr int64_t kMaxIndices = 1 << 20;

Indices ReadIndices(Reader* in) {
  Indices indices = in->Ints(in->Int(0, kMaxRank), 0, kMaxIndices);
  Indices sorted = indices;
  std::sort(sorted.begin(), sorted.end());
  if (std::adjacent_find(sorted.begin(), sorted.end()) != sorted.end()) throw Corrupt();
  return indices;
}

MatrixProduct ReadProduct(Reader* in, const GateTables& gates) {
  MatrixProduct product;
  product.qubits = static_cast<int32_t>(in->Int(1, 2));
  ReadItems(in, gates, &product);
  return product;
}

Leaf ReadLeaf(Reader* in, const Network& network) {
  Leaf leaf;
  leaf.indices = ReadIndices(in);
  leaf.product = in->Int(-1, static_cast<int64_t>(network.products.size()) - 1);
  leaf.conjugate = in->Int(0, 1) != 0;
  const int64_t elements = int64_t{1} << leaf.indices.size();
  if (leaf.product < 0) {
    leaf.values = in->Complexes(elements);
  } else {
    const int64_t size = network.products[leaf.product].size();
    leaf.entries = in->Ints(elements, -1, size * size - 1);
  }
  return leaf;
}

void ReadSteps(Reader* in, Network* network) {
  const int64_t leaves = network->leaves.size();
  if (leaves == 0) throw Corrupt();
  std::vector<bool> used(2 * leaves);
  for (int64_t s = 0; s + 1 < leaves; ++s) {
    ContractionStep step;
    step.a = in->Int(0, leaves + s - 1);
    step.b = in->Int(0, leaves + s - 1);
    if (step.a == step.b || used[step.a] || used[step.b]) throw Corrupt();
    used[step.a] = used[step.b] = true;
    step.indices = ReadIndices(in);
    const Indices &a = network->IndicesOf(step.a), &b = network->IndicesOf(step.b);
    for (int64_t index : step.indices)
      if (std::find(a.begin(), a.end(), index) == a.end() &&
          std::find(b.begin(), b.end(), index) == b.end())
        throw Corrupt();
    network->steps.push_back(std::move(step));
  }
  if (!network->IndicesOf(2 * leaves - 2).empty()) throw Corrupt();
}

Network ReadNetwork(Reader* in, const ProgramSizes& sizes) {
  Network network;
  network.qubits = sizes.qubits;
  network.shared = sizes.shared;
  network.readouts = sizes.readouts;
  network.per_example = in->Int(0, kMaxExponents);
  network.instances = in->Count();
  network.sources =
      in->Ints(network.instances * network.per_example, -sizes.per_example, sizes.shared - 1);
  for (int64_t i = 0; i < network.instances; ++i) {
    network.outputs.emplace_back();
    for (int64_t left = in->Count(); left > 0; --left) {
      const int64_t readout = in->Int(0, sizes.readouts - 1);
      network.outputs.back().push_back({readout, in->Reals(1)[0]});
    }
  }
  ReadGateTables(in, &network);
  for (int64_t left = in->Count(); left > 0; --left)
    network.products.push_back(ReadProduct(in, network));
  for (int64_t left = in->Count(); left > 0; --left)
    network.leaves.push_back(ReadLeaf(in, network));
  ReadSteps(in, &network);
  return network;
}

}  // namespace

const Indices& Network::IndicesOf(int64_t tensor) const {
  const int64_t count = leaves.size();
  return tensor < count ? leaves[tensor].indices : steps[tensor - count].indices;
}

NetworkProgram::NetworkProgram(const std::string& serialized) {
  kind = "tensor networks";
  Reader in(serialized);
  in.Int(kFormat, kFormat);
  qubits = static_cast<int32_t>(in.Int(1, kMaxNetworkQubits));
  shared = in.Int(0, kMaxExponents);
  per_example = in.Int(0, kMaxExponents);
  readouts = in.Count();
  for (int64_t left = in.Count(); left > 0; --left) networks.push_back(ReadNetwork(&in, *this));
  offsets = in.Reals(readouts);
  in.End();
}

}  // namespace qfleet
