#include "program_words.h"

#include <limits>
#include <numeric>

#include "../qfleet.h"
#include "testing.h"

namespace qfleet {
namespace tests {

void Words::AddPowerOfX(int64_t exponent) {
  ints.insert(ints.end(), {2, 2, 1, exponent});
  for (double half_turns : {0.0, 1.0}) reals.push_back(half_turns);
  for (double sign : {1.0, -1.0})
    for (double entry : {0.5, sign * 0.5, sign * 0.5, 0.5}) {
      reals.push_back(entry);
      reals.push_back(0);
    }
}

std::string Words::Bytes() const {
  const int64_t count = ints.size();
  std::string bytes(reinterpret_cast<const char*>(&count), sizeof(count));
  bytes.append(reinterpret_cast<const char*>(ints.data()), ints.size() * sizeof(int64_t));
  bytes.append(reinterpret_cast<const char*>(reals.data()), reals.size() * sizeof(double));
  return bytes;
}

void TryAll(const std::string& serialized) {
  const std::string exact(serialized.data(), serialized.size());
  for (int32_t real_bytes : {4, 8}) {
    qfleet_program program = 0;
    if (qfleet_program_create(exact.data(), exact.size(), real_bytes, &program) != QFLEET_OK)
      continue;
    qfleet_program_info info;
    CHECK(qfleet_program_describe(program, &info) == QFLEET_OK, qfleet_last_error());
    if (info.shared + info.per_example < 100 && info.readouts < 100 && info.qubits < 8) {
      const int64_t size = 3;
      std::vector<double> shared(info.shared, 0.3), rows(size * info.per_example, 0.2);
      std::vector<double> by_shared(info.shared), by_rows(rows.size());
      std::vector<double> values(size * info.readouts);  // large enough for both types
      qfleet_batch batch = {};
      batch.shared = shared.data();
      batch.shared_count = info.shared;
      batch.per_example = rows.data();
      batch.per_example_count = size * info.per_example;
      batch.size = size;
      batch.memory_limit = int64_t{1} << 30;
      batch.check_finite = 1;
      const int64_t count = values.size();
      qfleet_plan plan;
      qfleet_plan_batch(program, &batch, &plan);
      qfleet_expectation(program, &batch, values.data(), count, nullptr, 0);
      qfleet_expectation_gradient(program, &batch, values.data(), count, nullptr, 0, 0,
                                  by_shared.data(), info.shared, by_rows.data(), by_rows.size());
      qfleet_expectation_hvp(program, &batch, shared.data(), info.shared, rows.data(), rows.size(),
                             values.data(), count, nullptr, 0, by_shared.data(), info.shared,
                             by_rows.data(), by_rows.size());
      const int64_t order = 0;
      CHECK(qfleet_state(program, &batch, &order, 1, values.data(), count) != QFLEET_OK,
            "no state vectors");
      const int64_t runs = 5;
      std::vector<int64_t> bits(info.qubits), samples(size * runs);
      std::iota(bits.begin(), bits.end(), 0);
      std::vector<uint8_t> records(info.records < 1000 ? size * runs * info.records : 0);
      qfleet_measure(program, &batch, bits.data(), info.qubits, runs, 0, records.data(),
                     records.size(), samples.data(), samples.size(), nullptr, 0);
      int64_t sample = 0;
      CHECK(qfleet_sample(program, &batch, &order, 1, 1, 0, &sample, 1) != QFLEET_OK, "no samples");
    }
    qfleet_program_destroy(program);
  }
}

bool IsRejected(const Words& words) {
  const std::string bytes = words.Bytes();
  qfleet_program program = 0;
  const bool rejected =
      qfleet_program_create(bytes.data(), bytes.size(), 4, &program) == QFLEET_INVALID_ARGUMENT;
  if (!rejected) qfleet_program_destroy(program);
  return rejected;
}

void TryCorrupted(const Words& valid, bool light) {
  CHECK(!IsRejected(valid), "the valid program");
  const std::string serialized = valid.Bytes();
  TryAll(serialized);
  for (size_t length = 0; length < serialized.size(); length += 8)
    TryAll(serialized.substr(0, length));
  const int64_t most = std::numeric_limits<int64_t>::max();
  for (size_t at = 0; at < valid.ints.size(); at += light ? 5 : 1)
    for (int64_t value : {-most - 1, int64_t{-3}, int64_t{-1}, int64_t{0}, int64_t{1}, int64_t{2},
                          int64_t{3}, int64_t{4}, int64_t{7}, int64_t{12}, int64_t{16}, int64_t{40},
                          int64_t{63}, int64_t{64}, most >> 32, most}) {
      Words other = valid;
      other.ints[at] = value;
      TryAll(other.Bytes());
    }
  Words other = valid;
  other.reals.push_back(0);
  CHECK(IsRejected(other), "trailing data");
}

}  // namespace tests
}  // namespace qfleet
