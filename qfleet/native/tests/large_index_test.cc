// Arithmetic with indices beyond 32 bits.
#include <cmath>
#include <cstdio>

#include "circuit_case.h"
#include "state/amplitude_order.h"
#include "tests.h"

namespace qfleet {
namespace tests {
namespace {

constexpr int64_t kQubits = 40;  // the most that a program may have

// Zeros over the whole address range of a state; only touched pages use memory.
template <class T>
class SparseMemory {
 public:
  explicit SparseMemory(int64_t reals) : bytes_(reals * sizeof(T)) {
    void* memory = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) throw std::bad_alloc();
#ifdef MADV_NOHUGEPAGE
    madvise(memory, bytes_, MADV_NOHUGEPAGE);
#endif
    data_ = static_cast<T*>(memory);
  }
  SparseMemory(const SparseMemory&) = delete;
  ~SparseMemory() { munmap(data_, bytes_); }
  T* data() { return data_; }

 private:
  size_t bytes_;
  T* data_;
};

Circuit HighestQubitCircuit() {
  Circuit circuit;
  circuit.qubits = kQubits;
  circuit.shared = 1;
  Random random(9);
  circuit.gates = {RandomGate(2, kDense, {0}, &random), RandomGate(4, kControlled, {0}, &random)};
  circuit.blocks = {{{39}, {0}}, {{0, 38}, {1}}};
  circuit.windows = {{2, {0, 1, 2, 3, 38, 39}}};
  circuit.strings = {{int64_t{1} << 39, int64_t{1} << 38 | 1, 0, {0.5}}};
  circuit.offsets = {0};
  return circuit;
}

void ProgramsAndLayouts() {
  const auto program = std::make_shared<Program>(HighestQubitCircuit().Serialize());
  CHECK(program->blocks[0].bits[0] == 39 && program->blocks[1].bits[1] == 38, "blocks");
  CHECK(program->pauli_groups[0].flip == int64_t{1} << 39, "flip");
  CHECK(program->pauli_groups[0].z[0] == (int64_t{1} << 38 | 1), "z");
  CHECK(program->windows[0].bits.back() == 39, "window");
  for (const InstructionSet<float>& set : InstructionSets<float>())
    for (int64_t qubits = 1; qubits <= kQubits; ++qubits) {
      Circuit circuit;
      circuit.qubits = qubits;
      const StateVectorEngine<float> engine(std::make_shared<Program>(circuit.Serialize()),
                                            *set.kernels);
      for (int64_t batch : {int64_t{1}, int64_t{3}, int64_t{17}, int64_t{1} << 33})
        for (int64_t threads : {1, 2, 64}) {
          const std::string context = std::string(set.name) + ", " + std::to_string(qubits) +
                                      " qubits, batch " + std::to_string(batch);
          const TileLayout layout = ChooseTileLayout(
              static_cast<int32_t>(qubits), set.kernels->lanes, sizeof(float), batch, threads);
          const int64_t lanes = set.kernels->lanes;
          CHECK(int64_t{layout.samples} << layout.lane_qubits == lanes, context);
          CHECK(layout.groups << layout.lane_qubits == int64_t{1} << qubits, context);
          CHECK(layout.tile_reals == layout.groups * 2 * lanes, context);
          CHECK(
              layout.tiles * layout.samples >= batch && (layout.tiles - 1) * layout.samples < batch,
              context);
          const int64_t cached = engine.CachedReals(layout, int64_t{1} << 30);
          CHECK(cached % layout.tile_reals == 0 && cached >= layout.tile_reals, context);
          CHECK(cached == layout.tile_reals || cached * 4 <= int64_t{1} << 30, context);
          if (qubits == 33 && batch == 1) CHECK(layout.tile_reals == int64_t{1} << 34, context);
        }
    }
}

void BitPermutations() {
  std::vector<int64_t> order(kQubits);
  for (int64_t bit = 0; bit < kQubits; ++bit) order[bit] = kQubits - 1 - bit;
  const BitPermutation permutation(order.data(), kQubits);
  for (int64_t bit = 0; bit < kQubits; ++bit)
    CHECK(permutation(int64_t{1} << bit) == int64_t{1} << (kQubits - 1 - bit), std::to_string(bit));
  CHECK(permutation(int64_t{5} << 37) == 5, "three bits");
  CHECK(permutation((int64_t{1} << 40) - 1) == (int64_t{1} << 40) - 1, "all bits");
  std::vector<int32_t> bits = {0, 33, 39};
  CHECK(ScatterBits(7, bits) == (int64_t{1} << 39 | int64_t{1} << 33 | 1), "spread");
}

// A block on the highest qubit of a chunk with a large index, forward and backward.
template <class T>
void Chunks(const InstructionSet<T>& set, bool in_place) {
  const int64_t lanes = set.kernels->lanes, top = kQubits - Log2(lanes);
  std::vector<int32_t> local = {0, 1, 2, 3, 4, 5}, outside;
  if (!in_place)
    local = {0, 1, static_cast<int32_t>(top) - 30, 31, 32, static_cast<int32_t>(top) - 1};
  std::vector<int64_t> segments;
  const std::vector<int32_t> high(local.begin() + (in_place ? 6 : 2), local.end());
  for (int64_t i = 0; i < int64_t{1} << high.size(); ++i) segments.push_back(ScatterBits(i, high));
  for (int32_t bit = 0; bit < top; ++bit)
    if (!std::count(local.begin(), local.end(), bit)) outside.push_back(bit);
  qfleet::Window window = {};
  window.count = 1;
  window.in_place = in_place;
  window.segment_bits = in_place ? 6 : 2;
  window.chunk_bits = 6;
  window.segments = segments.data();
  window.outside = outside.data();
  window.outside_bits = static_cast<int32_t>(outside.size());
  const int64_t chunk = (int64_t{1} << outside.size()) - 3;

  // X on the chunk's highest qubit, with phase i.
  ExactBuffer<T> matrix(8 * lanes), inverse(8 * lanes);
  for (int64_t lane = 0; lane < lanes; ++lane)
    for (int64_t entry : {1, 2}) {
      matrix[(2 * entry + 1) * lanes + lane] = 1;
      inverse[(2 * entry + 1) * lanes + lane] = -1;
    }
  BlockKernel kernel = {};
  kernel.rows = kernel.cols = 2;
  kernel.groups = int64_t{1} << window.chunk_bits;
  kernel.low = 5;
  kernel.offset[1] = int64_t{1} << 5;
  for (int64_t lane = 0; lane < lanes; ++lane) kernel.row[1][lane] = kernel.col[1][lane] = 1;
  kernel.matrix = matrix.data();
  kernel.inverse = inverse.data();
  kernel.needs_gradient = kernel.needs_uncompute = true;

  SparseMemory<T> psi(int64_t{2} << kQubits), lambda(int64_t{2} << kQubits);
  ExactBuffer<T> buffer(2 * kChunkBytes / sizeof(T));
  const int64_t from = ScatterBits(chunk, outside) | ScatterBits(0b010110, local);
  const int64_t to = from | int64_t{1} << local[5];
  const auto re = [&](SparseMemory<T>& state, int64_t group) {
    return &state.data()[2 * lanes * group];
  };
  for (int64_t lane = 0; lane < lanes; ++lane) re(psi, from)[lane] = static_cast<T>(lane + 1);
  set.kernels->forward(window, &kernel, psi.data(), chunk, in_place ? nullptr : buffer.data());
  for (int64_t lane = 0; lane < lanes; ++lane) {
    CHECK(re(psi, from)[lane] == 0 && re(psi, to)[lane] == 0, set.name);
    CHECK(re(psi, from)[lanes + lane] == 0 && re(psi, to)[lanes + lane] == lane + 1, set.name);
    re(lambda, from)[lane] = 2;
  }
  std::vector<double> sums(kBlockSumReals);
  set.kernels->backward(window, &kernel, psi.data(), lambda.data(), chunk,
                        in_place ? nullptr : buffer.data(), sums.data(), 1);
  for (int64_t lane = 0; lane < lanes; ++lane) {
    CHECK(re(psi, from)[lane] == lane + 1 && re(psi, to)[lanes + lane] == 0, set.name);
    CHECK(re(lambda, to)[lanes + lane] == -2 && re(lambda, from)[lane] == 0, set.name);
  }
  // psi[1] conj(lambda[0]) = i (lane + 1) 2
  for (int64_t i = 0; i < kBlockSumReals; ++i)
    CHECK(sums[i] == (i == 2 * (1 * 2 + 0) + 1 ? lanes * (lanes + 1) : 0), set.name);
}

// A Pauli string with X on the highest qubit and Z on the second highest.
template <class T>
void Readouts(const InstructionSet<T>& set) {
  const int64_t lanes = set.kernels->lanes, top = kQubits - Log2(lanes);
  const int64_t flip = int64_t{1} << (top - 1) | 3, z = int64_t{1} << (top - 2);
  const int32_t ys = 0;
  const PauliStrings strings = {flip, 0, 1, &z, &ys};
  const int64_t first = z | int64_t{1} << 30, x = first + 21;
  constexpr int64_t kCount = int64_t{1} << kMaxTransformBits;
  SparseMemory<T> psi(int64_t{2} << kQubits), sum(int64_t{2} << kQubits);
  ExactBuffer<T> weights(lanes, T{3}), lambda(kCount * 2 * lanes);
  for (int64_t lane = 0; lane < lanes; ++lane) {
    psi.data()[2 * lanes * x + lane] = 2;
    psi.data()[2 * lanes * (x ^ flip) + lane] = static_cast<T>(lane + 1);
  }
  std::vector<double> sums(lanes);
  set.kernels->measure(strings, psi.data(), psi.data(), first, kCount, sums.data());
  set.kernels->apply_strings(strings, psi.data(), lambda.data(), first, kCount, weights.data(),
                             false);
  const T* states[] = {psi.data(), psi.data()};
  const double parts[] = {1, 0, 0, 2};  // psi + 2 i psi
  set.kernels->combine(states, parts, 2, sum.data(), first, kCount);
  for (int64_t lane = 0; lane < lanes; ++lane) {
    CHECK(sums[lane] == -2 * (lane + 1), set.name);
    CHECK(lambda[2 * lanes * (x - first) + lane] == -3 * (lane + 1), set.name);
    CHECK(lambda[2 * lanes * (x - first + 1) + lane] == 0, set.name);
    CHECK(sum.data()[2 * lanes * x + lane] == 2, set.name);
    CHECK(sum.data()[2 * lanes * x + lanes + lane] == 4, set.name);
  }
}

}  // namespace

void LargeIndices(bool light) {
  ProgramsAndLayouts();
  BitPermutations();
  if (light) return;  // the rest needs more address space than an emulated processor has
  for (bool in_place : {false, true}) {
    for (const InstructionSet<float>& set : InstructionSets<float>()) Chunks(set, in_place);
    for (const InstructionSet<double>& set : InstructionSets<double>()) Chunks(set, in_place);
  }
  for (const InstructionSet<float>& set : InstructionSets<float>()) Readouts(set);
  for (const InstructionSet<double>& set : InstructionSets<double>()) Readouts(set);
}

// X**t on every qubit, from |0...0>: <Z> = cos(pi t).
void LargeState(bool light) {
  const int64_t large = light ? 16 : 26;
  Circuit circuit;
  circuit.qubits = circuit.shared = large;
  std::vector<double> exponents, cosines, gradients;
  for (int64_t bit = 0; bit < large; ++bit) {
    circuit.gates.push_back({2, {bit}, {0, 1}, {{0.5, 0.5, 0.5, 0.5}, {0.5, -0.5, -0.5, 0.5}}});
    circuit.blocks.push_back({{bit}, {bit}});
    circuit.strings.push_back({0, int64_t{1} << bit, 0, {1}});
    exponents.push_back(0.1 + 0.03 * bit);
    cosines.push_back(std::cos(M_PI * exponents.back()));
    gradients.push_back(-M_PI * std::sin(M_PI * exponents.back()));
  }
  circuit.offsets = {0};
  circuit.windows = MakeWindows(circuit, 15);
  StateVectorEngine<float> engine(std::make_shared<Program>(circuit.Serialize()),
                                  BestKernels<float>());
  const Batch batch = {exponents.data(), nullptr, 1, 2, RunOnThreads(2)};
  ExactBuffer<float> value(1), upstream(1, 1.0f);
  engine.Expectation(batch, value.data(), nullptr, 0);
  double expected = 0;
  for (double cosine : cosines) expected += cosine;
  CheckClose(value, std::vector<double>{expected}, 1e-5 * large, "value");
  ExactBuffer<double> results(large);
  engine.Gradient(batch, upstream.data(), nullptr, 0, false, false, nullptr, results.data(),
                  nullptr);
  CheckClose(results, gradients, 1e-5 * large, "gradients");
}

}  // namespace tests
}  // namespace qfleet
