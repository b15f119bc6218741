#include "state/subspace.h"

#include <cmath>
#include <map>

namespace qfleet {

Subspace FindSubspace(const Program& program, const double* per_example, int64_t examples,
                      int64_t most) {
  Subspace subspace;
  std::map<std::vector<int64_t>, int64_t> known;  // active exponents -> basis state
  const auto no_subspace = [] { return Subspace(); };
  if (static_cast<int64_t>(program.spectra.size()) < program.per_example) return no_subspace();
  for (const ExponentSpectrum& spectrum : program.spectra)
    if (!spectrum.has_two_eigenvalues) return no_subspace();
  subspace.first.push_back(0);
  for (int64_t b = 0; b < examples; ++b) {
    std::vector<int64_t> active;
    std::vector<Complex> alpha, beta;
    for (int64_t e = 0; e < program.per_example; ++e) {
      const double t = per_example[b * program.per_example + e];
      if (t == 0) continue;
      // Solve alpha + beta z(half period) = z(t) for both eigenvalues z.
      const double* half_turns = program.spectra[e].half_turns;
      const double half_period = 1 / (half_turns[1] - half_turns[0]);
      const Complex z0 = std::polar(1.0, M_PI * half_turns[0] * t);
      const Complex z1 = std::polar(1.0, M_PI * half_turns[1] * t);
      active.push_back(e);
      alpha.push_back((z0 + z1) / 2.0);
      beta.push_back((z0 - z1) / 2.0 / std::polar(1.0, M_PI * half_turns[0] * half_period));
    }
    if (active.size() > 20 || int64_t{1} << active.size() > most) return no_subspace();
    for (int64_t subset = 0; subset < int64_t{1} << active.size(); ++subset) {
      std::vector<int64_t> subset_exponents;
      Complex weight = 1;
      for (size_t i = 0; i < active.size(); ++i) {
        if (subset >> i & 1) subset_exponents.push_back(active[i]);
        weight *= subset >> i & 1 ? beta[i] : alpha[i];
      }
      const auto found = known.emplace(subset_exponents, subspace.states);
      if (found.second) {
        if (++subspace.states > most) return no_subspace();
        subspace.per_example.resize(subspace.states * program.per_example);
        for (int64_t e : subset_exponents) {
          const double* half_turns = program.spectra[e].half_turns;
          subspace.per_example[(subspace.states - 1) * program.per_example + e] =
              1 / (half_turns[1] - half_turns[0]);
        }
      }
      subspace.state.push_back(found.first->second);
      subspace.weight.push_back(weight);
    }
    subspace.first.push_back(subspace.state.size());
  }
  return subspace;
}

}  // namespace qfleet
