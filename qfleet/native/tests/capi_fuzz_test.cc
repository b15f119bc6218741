// Random arguments for every function of the C interface: it returns a status and a sentence, and
// neither faults nor writes beyond a buffer, which the sanitizers detect.
#include <chrono>
#include <cstdio>
#include <limits>

#include "../qfleet.h"
#include "../qfleet_stages.h"
#include "circuit_case.h"
#include "tests.h"

namespace qfleet {
namespace tests {
namespace {

constexpr int64_t kMaxBufferReals = 1 << 16;
constexpr double kSeconds = 20, kLightSeconds = 5, kMostTimes = 20;

int64_t Choose(Random* random, std::vector<int64_t> values) {
  return values[RandomInt(random, 0, static_cast<int64_t>(values.size()) - 1)];
}

bool Rarely(Random* random) { return RandomInt(random, 0, 19) == 0; }

// A number that no valid call has.
int64_t WrongNumber(Random* random, int64_t right) {
  const int64_t most = std::numeric_limits<int64_t>::max();
  // Unsigned numbers may overflow.
  const uint64_t near = static_cast<uint64_t>(right);
  return Choose(
      random, {-most - 1, -1, 0, 1, static_cast<int64_t>(near - 1), static_cast<int64_t>(near + 1),
               static_cast<int64_t>(2 * near), most / 2, most});
}

double* AsDoubles(void* data) { return static_cast<double*>(data); }

void RunInOrder(void*, int64_t count, int64_t, qfleet_work work, void* argument) {
  for (int64_t i = 0; i < count; ++i) work(argument, i);
}

// The arguments of one call. Buffers have exactly their size, and usually the right one.
class Fuzzer {
 public:
  Fuzzer(Random* random, std::vector<std::string> programs)
      : random_(random), programs_(std::move(programs)) {}
  ~Fuzzer() {
    for (qfleet_program program : handles_) qfleet_program_destroy(program);
  }

  // Chooses a program and a batch for it. Returns false if there is none of a size for this test.
  bool Begin() {
    buffers_.clear();
    if (handles_.size() < 4 || Rarely(random_)) CreateProgram();
    if (handles_.size() > 8) {
      qfleet_program_destroy(handles_.front());
      handles_.erase(handles_.begin());
    }
    program_ = handles_.empty() ? 0 : handles_[RandomInt(random_, 0, handles_.size() - 1)];
    info_ = {3, 1, 1, 1, 4};
    qfleet_program_describe(program_, &info_);
    if (Rarely(random_)) program_ = Choose(random_, {-1, 0, std::numeric_limits<int64_t>::max()});
    size_ = Choose(random_, {0, 1, 2, 5, 17});
    if (info_.qubits > 9) return false;
    MakeBatch();
    MakeShard();
    return true;
  }

  // Calls one function; `number` chooses it.
  qfleet_status Call(int64_t number);
  static constexpr int64_t kFunctions = 25;

 private:
  struct Array {
    void* data;
    int64_t count;
  };

  void CreateProgram() {
    std::string bytes = programs_[RandomInt(random_, 0, programs_.size() - 1)];
    for (int64_t left = Choose(random_, {0, 0, 1, 3}); left > 0; --left)
      bytes[RandomInt(random_, 0, bytes.size() - 1)] ^=
          static_cast<char>(RandomInt(random_, 1, 255));
    const ExactBuffer<char> exact = Exactly(bytes);
    const int64_t size = Rarely(random_) ? RandomInt(random_, 0, bytes.size()) : bytes.size();
    qfleet_program program = 0;
    const int32_t real_bytes = static_cast<int32_t>(Choose(random_, {4, 4, 8, 8, 0, -1, 16}));
    if (qfleet_program_create(Rarely(random_) ? nullptr : exact.data(), size, real_bytes,
                              Rarely(random_) ? nullptr : &program) == QFLEET_OK)
      handles_.push_back(program);
  }

  static ExactBuffer<char> Exactly(const std::string& bytes) {
    ExactBuffer<char> exact(bytes.size());
    std::copy(bytes.begin(), bytes.end(), exact.data());
    return exact;
  }

  // A buffer of `right` elements. Sometimes the number that is passed on is wrong, the buffer is
  // null or its alignment is.
  Array Numbers(int64_t right, int64_t bytes) {
    right = std::clamp<int64_t>(right, 0, kMaxBufferReals);
    int64_t count = right;
    if (Rarely(random_)) count = std::min(WrongNumber(random_, right), kMaxBufferReals);
    buffers_.push_back(
        std::make_unique<ExactBuffer<char>>(std::max<int64_t>(count, 0) * bytes + 64));
    char* data = buffers_.back()->data() + 64;  // the end of the allocation is the buffer's
    if (Rarely(random_)) data -= Choose(random_, {1, 4, 8, 16, 32});
    for (int64_t i = 0; i < count; ++i) {
      const double value =
          Rarely(random_) ? std::numeric_limits<double>::quiet_NaN() : RandomReal(random_, -2, 2);
      const float single = static_cast<float>(value);
      std::memcpy(data + i * bytes, bytes == 8 ? static_cast<const void*>(&value) : &single, bytes);
    }
    if (Rarely(random_)) return {nullptr, Rarely(random_) ? 0 : count};
    return {data, count};
  }
  Array Reals(int64_t right) { return Numbers(right, info_.real_bytes); }
  Array Doubles(int64_t right) { return Numbers(right, sizeof(double)); }
  // A buffer that may be null with a count of 0.
  Array Optional(Array array) { return RandomInt(random_, 0, 2) ? array : Array{nullptr, 0}; }

  Array Integers(const std::vector<int64_t>& values) {
    Array array = Doubles(values.size());
    if (array.data && !values.empty())
      std::memcpy(array.data, values.data(),
                  std::min<int64_t>(array.count < 0 ? 0 : array.count, values.size()) * 8);
    return array;
  }

  // A matrix of all steps and one of each step, on two of three qubits.
  qfleet_status Split(bool backward) {
    int32_t levels[] = {2, 3, 2}, qubits[] = {2, 0};
    const int64_t steps = RandomInt(random_, 2, 5);
    const Array constant = Doubles(2 * 4 * 4), varying = Doubles(2 * 4 * 4 * steps);
    const Array seeds = Optional(Doubles(2 * 4 * 4 * steps));
    const Array states = Doubles(backward ? 48 : 24);
    qfleet_split_operation operations[] = {
        {qubits, 2, AsDoubles(constant.data), constant.count, 0.5, nullptr, 0},
        {qubits, 2, AsDoubles(varying.data), varying.count, 0, AsDoubles(seeds.data), seeds.count}};
    qfleet_split split = {levels, 3, operations, 2, steps};
    if (Rarely(random_)) levels[1] = static_cast<int32_t>(RandomInt(random_, -1, 30));
    if (Rarely(random_)) qubits[0] = static_cast<int32_t>(RandomInt(random_, -1, 3));
    if (Rarely(random_)) operations[0].qubit_count = RandomInt(random_, -1, 2);
    if (Rarely(random_)) split.qubit_count = WrongNumber(random_, 0);
    if (Rarely(random_)) split.operation_count = RandomInt(random_, -1, 2);
    if (Rarely(random_)) split.steps = RandomInt(random_, -1, 6);
    const qfleet_split* pointer = Rarely(random_) ? nullptr : &split;
    return backward ? qfleet_split_backward(pointer, AsDoubles(states.data), states.count)
                    : qfleet_split_forward(pointer, AsDoubles(states.data), states.count);
  }

  Array Order() {
    std::vector<int64_t> order(info_.qubits);
    for (size_t bit = 0; bit < order.size(); ++bit) order[bit] = bit;
    std::shuffle(order.begin(), order.end(), *random_);
    if (Rarely(random_)) order[0] = WrongNumber(random_, info_.qubits);
    return Integers(order);
  }

  void MakeBatch() {
    const Array shared = Doubles(info_.shared), each = Doubles(size_ * info_.per_example);
    batch_ = {static_cast<double*>(shared.data),
              shared.count,
              static_cast<double*>(each.data),
              each.count,
              size_,
              Choose(random_, {0, 1, 4096, 1 << 20, std::numeric_limits<int64_t>::max()}),
              static_cast<int32_t>(RandomInt(random_, 0, 1)),
              static_cast<int32_t>(RandomInt(random_, 0, 1)),
              nullptr};
    if (info_.takes_states || Rarely(random_)) {
      const int64_t reals = size_ * (int64_t{2} << info_.qubits);
      const Array states = Reals(reals), order = Order(), gradients = Optional(Reals(reals));
      batch_.initial_states = states.data;
      batch_.initial_state_count = states.count;
      batch_.initial_order = static_cast<const int64_t*>(order.data);
      batch_.initial_order_count = order.count;
      batch_.initial_gradients = gradients.data;
      batch_.initial_gradient_count = gradients.count;
    }
    if (Rarely(random_)) batch_.size = WrongNumber(random_, size_);
    if (Rarely(random_)) batch_.memory_limit = WrongNumber(random_, 0);
    executor_ = {RunInOrder, nullptr, static_cast<int32_t>(Choose(random_, {1, 2, 5, 64}))};
    if (Rarely(random_)) executor_.run = nullptr;
    if (Rarely(random_)) executor_.threads = static_cast<int32_t>(WrongNumber(random_, 1));
    if (RandomInt(random_, 0, 1)) batch_.executor = &executor_;
    batch_pointer_ = Rarely(random_) ? nullptr : &batch_;
  }

  void MakeShard() {
    std::vector<int64_t> bits;
    for (int64_t bit = info_.qubits - 1; bit >= 0 && RandomInt(random_, 0, 2); --bit)
      bits.push_back(Rarely(random_) ? WrongNumber(random_, bit) : bit);
    if (RandomInt(random_, 0, 3)) batch_.allow_subspace = 0;
    const Array integers = Integers(bits);
    seed_reals_ = size_ * (int64_t{2} << bits.size());
    shard_ = {Rarely(random_) ? nullptr : &batch_,
              static_cast<int32_t>(Choose(random_, {0, 0, 1, 2, 64, -1, 65})),
              static_cast<const int64_t*>(integers.data), integers.count};
    layout_ = {0, 0};
    qfleet_stage_layout(program_, &shard_, &layout_);
    shard_pointer_ = Rarely(random_) ? nullptr : &shard_;
  }

  // A position or length in units of groups, usually within `reals`.
  int64_t Groups(int64_t reals) {
    if (Rarely(random_)) return WrongNumber(random_, reals);
    const int64_t groups = layout_.group_reals ? reals / layout_.group_reals : 0;
    return layout_.group_reals * RandomInt(random_, 0, std::max<int64_t>(groups, 1));
  }

  Random* random_;
  std::vector<std::string> programs_;
  std::vector<qfleet_program> handles_;
  std::vector<std::unique_ptr<ExactBuffer<char>>> buffers_;
  qfleet_program program_ = 0;
  qfleet_program_info info_;
  int64_t size_ = 0, seed_reals_ = 0;
  qfleet_executor executor_;
  qfleet_batch batch_;
  const qfleet_batch* batch_pointer_;
  qfleet_shard shard_;
  const qfleet_shard* shard_pointer_;
  qfleet_layout layout_;
};

qfleet_status Fuzzer::Call(int64_t number) {
  const int64_t values = size_ * info_.readouts, states = size_ * (int64_t{2} << info_.qubits);
  qfleet_plan plan = {0, 0, 0};
  qfleet_plan_batch(program_, &batch_, &plan);
  const Array value = Reals(values), upstream = Reals(values);
  const Array kept = Optional(Reals(plan.kept_reals));
  const Array shared = Doubles(info_.shared), each = Doubles(size_ * info_.per_example);
  const Array seeds = Doubles(seed_reals_), seed_gradients = Doubles(seed_reals_);
  const Array psi = Reals(layout_.state_reals), lambda = Reals(layout_.state_reals);
  const Array order = Order();
  const int64_t* order_data = static_cast<const int64_t*>(order.data);
  switch (number) {
    case 0:
      return qfleet_plan_batch(program_, batch_pointer_, Rarely(random_) ? nullptr : &plan);
    case 1:
      return qfleet_expectation(program_, batch_pointer_, value.data, value.count, kept.data,
                                kept.count);
    case 2: {
      const Array optional = batch_.allow_subspace ? Array{nullptr, 0} : Optional(each);
      return qfleet_expectation_gradient(
          program_, batch_pointer_, upstream.data, upstream.count, kept.data, kept.count,
          static_cast<int32_t>(RandomInt(random_, 0, 1)), AsDoubles(shared.data), shared.count,
          AsDoubles(optional.data), optional.count);
    }
    case 3: {
      // With states of this batch, as a rule, and sometimes of the wrong threads or method.
      qfleet_expectation(program_, batch_pointer_, value.data, value.count, kept.data, kept.count);
      if (Rarely(random_)) batch_.allow_subspace ^= 1;
      if (Rarely(random_)) batch_.executor = nullptr;
      return qfleet_expectation_gradient(program_, batch_pointer_, upstream.data, upstream.count,
                                         kept.data, kept.count, 1, AsDoubles(shared.data),
                                         shared.count, nullptr, 0);
    }
    case 4: {
      const Array optional = Optional(value);
      const Array shared_out = Doubles(info_.shared), each_out = Doubles(size_ * info_.per_example);
      return qfleet_expectation_hvp(program_, batch_pointer_, AsDoubles(shared.data), shared.count,
                                    AsDoubles(each.data), each.count, upstream.data, upstream.count,
                                    optional.data, optional.count, AsDoubles(shared_out.data),
                                    shared_out.count, AsDoubles(each_out.data), each_out.count);
    }
    case 5: {
      const Array out = Reals(states);
      return qfleet_state(program_, batch_pointer_, order_data, order.count, out.data, out.count);
    }
    case 6: {
      const Array in = Reals(states), gradient = Reals(states), optional = Optional(each);
      return qfleet_state_gradient(program_, batch_pointer_, order_data, order.count, in.data,
                                   in.count, gradient.data, gradient.count, AsDoubles(shared.data),
                                   shared.count, AsDoubles(optional.data), optional.count);
    }
    case 7: {
      const int64_t shots = Rarely(random_) ? WrongNumber(random_, 0) : RandomInt(random_, 0, 300);
      const Array samples = Doubles(shots > 0 && shots < 1000 ? size_ * shots : 0);
      return qfleet_sample(program_, batch_pointer_, order_data, order.count, shots, 7,
                           static_cast<int64_t*>(samples.data), samples.count);
    }
    case 8:
      return qfleet_shard_expectation(program_, shard_pointer_, AsDoubles(seeds.data), seeds.count,
                                      value.data, value.count, kept.data, kept.count);
    case 9: {
      const Array optional = Optional(each);
      return qfleet_shard_gradient(
          program_, shard_pointer_, AsDoubles(seeds.data), seeds.count, upstream.data,
          upstream.count, kept.data, kept.count, static_cast<int32_t>(RandomInt(random_, 0, 1)),
          AsDoubles(shared.data), shared.count, AsDoubles(optional.data), optional.count,
          AsDoubles(seed_gradients.data), seed_gradients.count);
    }
    case 10:
      return qfleet_first_stage(program_, shard_pointer_, AsDoubles(seeds.data), seeds.count,
                                psi.data, psi.count);
    case 11:
      return qfleet_stage(program_, shard_pointer_, psi.data, psi.count);
    case 12:
      return qfleet_stage_expectation(program_, shard_pointer_, psi.data, psi.count, value.data,
                                      value.count);
    case 13:
      return qfleet_stage_apply_observables(program_, shard_pointer_, psi.data, psi.count,
                                            upstream.data, upstream.count, lambda.data,
                                            lambda.count);
    case 14: {
      const Array by_each = Optional(each), by_seeds = Optional(seed_gradients);
      return qfleet_stage_adjoint(program_, shard_pointer_, psi.data, psi.count, lambda.data,
                                  lambda.count, AsDoubles(shared.data), shared.count,
                                  AsDoubles(by_each.data), by_each.count, AsDoubles(by_seeds.data),
                                  by_seeds.count);
    }
    case 15:
    case 16: {
      const int64_t workers = int64_t{1} << std::clamp<int64_t>(shard_.bit_count, 0, 10);
      const int64_t first = Groups(psi.count / workers), count = Groups(psi.count / workers);
      const Array packed = Reals(count > 0 && count < kMaxBufferReals ? workers * count : 0);
      if (number == 15)
        return qfleet_pack_region(program_, shard_pointer_, psi.data, psi.count, first, count,
                                  packed.data, packed.count);
      return qfleet_unpack_region(program_, shard_pointer_, packed.data, packed.count, first, count,
                                  psi.data, psi.count);
    }
    case 17:
    case 18: {
      const Array peer = Reals(layout_.group_reals << RandomInt(random_, 0, 3));
      const int64_t first = Groups(psi.count);
      if (number == 17)
        return qfleet_cross_shard_expectation(program_, shard_pointer_, psi.data, psi.count,
                                              peer.data, peer.count, first, value.data,
                                              value.count);
      return qfleet_cross_shard_apply_observables(program_, shard_pointer_, peer.data, peer.count,
                                                  first, upstream.data, upstream.count, psi.data,
                                                  psi.count);
    }
    case 19: {
      const Array fields = Integers({0, 0, 0, 0, 0, 0});
      return qfleet_tile_layout(static_cast<int32_t>(Choose(random_, {1, 5, 20, 40, 41, 0, -1})),
                                static_cast<int32_t>(Choose(random_, {4, 8, 0})),
                                WrongNumber(random_, 32), WrongNumber(random_, 2),
                                static_cast<int64_t*>(fields.data), fields.count);
    }
    case 20:
    case 21: {
      qfleet_pulse pulse = {RandomInt(random_, 1, 5), RandomInt(random_, 1, 3),
                            RandomInt(random_, 1, 9), RandomInt(random_, 1, 9)};
      pulse.segments = RandomInt(random_, 1, pulse.steps);
      const int64_t elements = 2 * pulse.dimension * pulse.dimension;
      const int64_t sets = Choose(random_, {1, pulse.examples});
      const Array matrices = Doubles(sets * pulse.operators * elements);
      const Array coefficients = Doubles(pulse.steps * pulse.operators);
      const Array products = Doubles(pulse.examples * pulse.segments * elements);
      const Array gradients = Doubles(pulse.examples * pulse.steps * pulse.operators);
      pulse.matrices = AsDoubles(matrices.data);
      pulse.matrix_count = matrices.count;
      pulse.coefficients = AsDoubles(coefficients.data);
      pulse.coefficient_count = coefficients.count;
      pulse.unitary = static_cast<int32_t>(RandomInt(random_, 0, 1));
      if (Rarely(random_)) pulse.dimension = WrongNumber(random_, pulse.dimension);
      if (Rarely(random_)) pulse.operators = WrongNumber(random_, pulse.operators);
      if (Rarely(random_)) pulse.examples = WrongNumber(random_, pulse.examples);
      if (Rarely(random_)) pulse.steps = WrongNumber(random_, pulse.steps);
      if (Rarely(random_)) pulse.segments = WrongNumber(random_, pulse.segments);
      const qfleet_pulse* pointer = Rarely(random_) ? nullptr : &pulse;
      if (number == 20)
        return qfleet_pulse_products(pointer, AsDoubles(products.data), products.count);
      return qfleet_pulse_gradient(pointer, AsDoubles(products.data), products.count,
                                   AsDoubles(gradients.data), gradients.count);
    }
    case 22:
    case 23:
      return Split(number == 23);
    default:
      return qfleet_set_thread_count(
          static_cast<int32_t>(Choose(random_, {1, 2, 3, 0, -1, 1 << 20})));
  }
}

}  // namespace

void RandomCalls(bool light) {
  Random random(13);
  std::vector<std::string> programs;
  for (int64_t qubits : {1, 3, 5, 8}) {
    CircuitSpec spec = {qubits, 5, qubits == 3 ? 1 : 0, qubits == 8 ? 5 : 0};
    spec.subspace = qubits == 5;
    programs.push_back(RandomCircuit(spec, &random).Serialize());
  }
  Circuit taking = RandomCircuit({4, 5}, &random);
  taking.takes_states = true;
  programs.push_back(taking.Serialize());
  const auto seconds = [start = std::chrono::steady_clock::now()] {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  };
  const int32_t threads = qfleet_thread_count();
  Fuzzer fuzzer(&random, programs);
  std::vector<int64_t> accepted(Fuzzer::kFunctions), rejected(Fuzzer::kFunctions);
  // On a slow machine, a function has few calls in this time: it continues until each had
  // both results.
  const double least = light ? kLightSeconds : kSeconds;
  const auto is_done = [&] {
    const auto none = [](int64_t calls) { return calls == 0; };
    return std::none_of(accepted.begin(), accepted.end(), none) &&
           std::none_of(rejected.begin(), rejected.end(), none);
  };
  while (seconds() < least || (!is_done() && seconds() < kMostTimes * least)) {
    if (!fuzzer.Begin()) continue;
    const int64_t function = RandomInt(&random, 0, Fuzzer::kFunctions - 1);
    const qfleet_status status = fuzzer.Call(function);
    CHECK(status >= QFLEET_OK && status <= QFLEET_INTERNAL, "status");
    CHECK(status == QFLEET_OK || qfleet_last_error()[0], "no sentence");
    ++(status == QFLEET_OK ? accepted : rejected)[function];
  }
  qfleet_set_thread_count(threads);
  for (int64_t function = 0; function < Fuzzer::kFunctions; ++function) {
    const std::string counts = "function " + std::to_string(function) + ": " +
                               std::to_string(accepted[function]) + " calls accepted, " +
                               std::to_string(rejected[function]) + " rejected";
    CHECK(accepted[function] > 0 && rejected[function] > 0, counts);
  }
}

}  // namespace tests
}  // namespace qfleet
