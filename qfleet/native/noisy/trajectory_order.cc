#include "noisy/trajectory_order.h"

#include <algorithm>
#include <numeric>

namespace qfleet {
namespace {

// Trajectories that are the same up to an item of a block.
struct Branching {
  size_t block, item;
  std::vector<int32_t> trajectories;
};

// The sums of the probabilities of a channel's operators, up to any factor.
std::vector<double> Cumulative(const KrausChannel& channel) {
  std::vector<double> sums = channel.probabilities;
  if (channel.depends_on_state())
    for (const std::vector<double>& one : channel.operators)
      sums.push_back(std::inner_product(one.begin(), one.end(), one.begin(), 0.0));
  std::partial_sum(sums.begin(), sums.end(), sums.begin());
  return sums;
}

// Follows the largest branch to the end, and returns its trajectories. Adds the others, the latest
// one last.
std::vector<int32_t> Follow(const TrajectoryProgram& program,
                            const std::vector<std::vector<double>>& cumulative, Branching branch,
                            const DrawInBlock& draw, std::vector<Branching>* others) {
  size_t item = branch.item;
  for (size_t b = branch.block; b < program.blocks.size(); ++b, item = 0)
    for (; item < program.blocks[b].items.size(); ++item) {
      const int64_t channel = program.blocks[b].items[item].channel;
      if (channel < 0 || cumulative[channel].size() == 1) continue;
      const std::vector<double>& sums = cumulative[channel];
      std::vector<std::vector<int32_t>> drawn(sums.size());
      for (int32_t trajectory : branch.trajectories) {
        const double target = sums.back() * draw(trajectory, b, item);
        const auto found = std::upper_bound(sums.begin(), sums.end() - 1, target);
        drawn[found - sums.begin()].push_back(trajectory);
      }
      const auto most = std::max_element(
          drawn.begin(), drawn.end(),
          [](const auto& one, const auto& other) { return one.size() < other.size(); });
      branch.trajectories = std::move(*most);
      most->clear();
      for (std::vector<int32_t>& one : drawn)
        if (!one.empty()) others->push_back({b, item + 1, std::move(one)});
    }
  return branch.trajectories;
}

}  // namespace

std::vector<std::vector<int32_t>> DivideByHistory(const TrajectoryProgram& program, int64_t count,
                                                  int64_t parts, const DrawInBlock& draw) {
  std::vector<std::vector<double>> cumulative;
  for (const KrausChannel& channel : program.channels) cumulative.push_back(Cumulative(channel));
  Branching all = {0, 0, std::vector<int32_t>(count)};
  std::iota(all.trajectories.begin(), all.trajectories.end(), 0);
  std::vector<Branching> open = {std::move(all)};
  std::vector<int32_t> order;
  std::vector<int64_t> work;  // blocks that are evolved up to the end of each trajectory in order
  int64_t total = 0;
  while (!open.empty()) {
    Branching branch = std::move(open.back());
    open.pop_back();
    total += static_cast<int64_t>(program.blocks.size() - branch.block);
    for (int32_t one : Follow(program, cumulative, std::move(branch), draw, &open)) {
      order.push_back(one);
      work.push_back(total++);  // the end of each costs something, too
    }
  }
  std::vector<std::vector<int32_t>> divided(parts);
  for (size_t i = 0; i < order.size(); ++i)
    divided[std::min(work[i] * parts / total, parts - 1)].push_back(order[i]);
  divided.erase(std::remove_if(divided.begin(), divided.end(),
                               [](const std::vector<int32_t>& one) { return one.empty(); }),
                divided.end());
  return divided;
}

}  // namespace qfleet
