#include "pulses/split_plan.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace qfleet {
namespace {

class Planner {
 public:
  Planner(const std::vector<int32_t>& levels, const std::vector<SplitOperation>& operations,
          int32_t lanes)
      : levels_(levels), operations_(operations), places_(levels.size()) {
    int64_t place = 1;
    size_t widest = 0;
    for (size_t q = levels.size(); q-- > 0; place *= levels[q]) places_[q] = place;
    for (const SplitOperation& one : operations) widest = std::max(widest, one.qubits.size());
    const bool bits = std::all_of(levels.begin(), levels.end(), [](int32_t n) { return n == 2; });
    if (bits && place >= lanes << widest) lanes_ = lanes;
    homes_ = places_;
  }

  std::vector<SplitInstruction> Plan() {
    for (size_t at = 0; at < operations_.size(); ++at) {
      for (int32_t qubit : operations_[at].qubits)
        if (places_[qubit] < lanes_) Swap(qubit, Free(at, places_[qubit]));
      Add(at);
    }
    for (size_t q = 0; q < places_.size(); ++q)
      if (places_[q] != homes_[q])
        Exchange(q, std::find(places_.begin(), places_.end(), homes_[q]) - places_.begin());
    return std::move(instructions_);
  }

 private:
  // The qubit outside the lanes that no operation needs for the longest time, and of several the
  // one that is nearest to its place at the start if it moves to this lane.
  size_t Free(size_t operation, int64_t lane) const {
    size_t best = 0;
    std::pair<size_t, int> best_score = {0, 0};
    for (size_t q = 0; q < places_.size(); ++q) {
      if (places_[q] < lanes_) continue;
      size_t use = operation;
      while (use < operations_.size() && !Uses(operations_[use], q)) ++use;
      const std::pair<size_t, int> score = {use, (homes_[q] < lanes_) + (homes_[q] == lane)};
      if (use > operation && score > best_score) best = q, best_score = score;
    }
    return best;
  }

  static bool Uses(const SplitOperation& operation, size_t qubit) {
    return std::count(operation.qubits.begin(), operation.qubits.end(),
                      static_cast<int32_t>(qubit)) != 0;
  }

  // Exchanges two qubits, of which one at most has a place that is a lane.
  void Swap(size_t a, size_t b) {
    const auto [low, high] = std::minmax(places_[a], places_[b]);
    instructions_.push_back({-1, low, high, {}, {}, 0});
    std::swap(places_[a], places_[b]);
  }

  // Exchanges any two qubits. Two lanes need the help of a third qubit.
  void Exchange(size_t a, size_t b) {
    if (places_[a] >= lanes_ || places_[b] >= lanes_) return Swap(a, b);
    size_t helper = 0;
    while (places_[helper] < lanes_) ++helper;
    Swap(a, helper);
    Swap(b, a);
    Swap(helper, b);
  }

  void Add(size_t at) {
    const SplitOperation& operation = operations_[at];
    std::vector<int64_t> offsets = {0};
    int64_t run = places_[operation.qubits[0]];
    for (int32_t qubit : operation.qubits) {
      offsets = Spread(offsets, qubit);
      run = std::min(run, places_[qubit]);
    }
    SplitInstruction found = {static_cast<int32_t>(at), 0, 0, {}, {0}, run};
    for (size_t q = 0; q < places_.size(); ++q)
      if (places_[q] > run && !Uses(operation, q)) found.bases = Spread(found.bases, q);
    std::sort(found.bases.begin(), found.bases.end());
    for (std::vector<int32_t>& rows : Parts(operation, static_cast<int32_t>(offsets.size()))) {
      SplitPart part = {std::move(rows), {}};
      for (int32_t row : part.rows) part.offsets.push_back(offsets[row]);
      found.parts.push_back(std::move(part));
    }
    instructions_.push_back(std::move(found));
  }

  // Each place once per level of a qubit.
  std::vector<int64_t> Spread(const std::vector<int64_t>& places, size_t qubit) const {
    std::vector<int64_t> found;
    for (int64_t place : places)
      for (int32_t level = 0; level < levels_[qubit]; ++level)
        found.push_back(place + level * places_[qubit]);
    return found;
  }

  // The sets of rows that a constant matrix mixes, without those that it keeps.
  static std::vector<std::vector<int32_t>> Parts(const SplitOperation& operation, int32_t size) {
    std::vector<int32_t> part(size);
    std::iota(part.begin(), part.end(), 0);
    const auto entry = [&](int32_t r, int32_t c) {
      return operation.matrices + 2 * (r * size + c);
    };
    for (int32_t r = 0; r < size; ++r)
      for (int32_t c = 0; c < size; ++c)
        if (operation.varies || entry(r, c)[0] != 0 || entry(r, c)[1] != 0)
          std::replace(part.begin(), part.end(), int32_t{part[r]}, int32_t{part[c]});
    std::vector<std::vector<int32_t>> found;
    for (int32_t number = 0; number < size; ++number) {
      std::vector<int32_t> rows;
      for (int32_t r = 0; r < size; ++r)
        if (part[r] == number) rows.push_back(r);
      if (rows.empty()) continue;
      const double* first = entry(rows[0], rows[0]);
      const bool kept = rows.size() == 1 && !operation.varies && first[0] == 1 && first[1] == 0;
      if (!kept) found.push_back(std::move(rows));
    }
    return found;
  }

  const std::vector<int32_t>& levels_;
  const std::vector<SplitOperation>& operations_;
  std::vector<int64_t> places_;  // the weight of each qubit's level in the index of an amplitude
  std::vector<int64_t> homes_;   // at the start
  int64_t lanes_ = 1;            // places below it are lanes
  std::vector<SplitInstruction> instructions_;
};

}  // namespace

std::vector<SplitInstruction> PlanSplitStep(const std::vector<int32_t>& levels,
                                            const std::vector<SplitOperation>& operations,
                                            int32_t lanes) {
  return Planner(levels, operations, lanes).Plan();
}

int64_t SplitRows(const std::vector<int32_t>& levels, const SplitOperation& operation) {
  int64_t rows = 1;
  for (int32_t qubit : operation.qubits) rows *= levels[qubit];
  return rows;
}

}  // namespace qfleet
