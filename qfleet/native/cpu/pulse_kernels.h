// Steps of chains of small matrices, one chain per lane (PulseChains). Included by kernels.cc only.
#ifndef QFLEET_PULSE_KERNELS_H_
#define QFLEET_PULSE_KERNELS_H_

#include <utility>

#include "cpu/kernels.h"
#include "cpu/vector_types.h"

namespace qfleet {
namespace QFLEET_SET {
namespace {

struct PulseStep : VectorTypes<double> {
  static constexpr int kColumns = 4;  // of a product that are summed in registers

  // A step's generator A / parts: entries (re, im).
  static void Assemble(const PulseChains& chains, int64_t step, V* generator) {
    const int32_t entries = chains.row_starts[chains.dimension];
    for (int32_t i = 0; i < 2 * entries; ++i) generator[i] = V{};
    const V* values = reinterpret_cast<const V*>(chains.values);
    const double scale = 1.0 / chains.parts;
    for (int32_t k = 0; k < chains.operators; ++k) {
      V coefficient = {};
      for (int lane = 0; lane < kLanes; ++lane)
        if (step < chains.lengths[lane])
          coefficient[lane] = chains.coefficients[lane][step * chains.operators + k];
      coefficient *= scale;
      for (int32_t e = chains.element_starts[k]; e < chains.element_starts[k + 1]; ++e) {
        V* entry = generator + 2 * chains.elements[e];
        entry[0] += coefficient * values[2 * e];
        entry[1] += coefficient * values[2 * e + 1];
      }
    }
  }

  // Columns [first, first + COLUMNS) of out = scale A in, plus `base` unless it is null.
  template <int COLUMNS>
  static void MultiplyColumns(const PulseChains& chains, const V* a, const V* in, const V* base,
                              double scale, int32_t first, V* out) {
    const int32_t size = chains.dimension;
    for (int32_t row = 0; row < size; ++row) {
      V re[COLUMNS] = {}, im[COLUMNS] = {};
      for (int32_t e = chains.row_starts[row]; e < chains.row_starts[row + 1]; ++e) {
        const V x = a[2 * e], y = a[2 * e + 1];
        const V* from = in + 2 * (chains.columns[e] * size + first);
        for (int j = 0; j < COLUMNS; ++j) {
          re[j] += x * from[2 * j] - y * from[2 * j + 1];
          im[j] += x * from[2 * j + 1] + y * from[2 * j];
        }
      }
      const int32_t at = 2 * (row * size + first);
      for (int j = 0; j < COLUMNS; ++j) {
        out[at + 2 * j] = scale * re[j] + (base ? base[at + 2 * j] : V{});
        out[at + 2 * j + 1] = scale * im[j] + (base ? base[at + 2 * j + 1] : V{});
      }
    }
  }

  static void Multiply(const PulseChains& chains, const V* a, const V* in, const V* base,
                       double scale, V* out) {
    int32_t first = 0;
    for (; first + kColumns <= chains.dimension; first += kColumns)
      MultiplyColumns<kColumns>(chains, a, in, base, scale, first, out);
    switch (chains.dimension - first) {
      case 3:
        return MultiplyColumns<3>(chains, a, in, base, scale, first, out);
      case 2:
        return MultiplyColumns<2>(chains, a, in, base, scale, first, out);
      case 1:
        return MultiplyColumns<1>(chains, a, in, base, scale, first, out);
    }
  }

  // out = base + scale (A^dagger in - in A^dagger), for anti-Hermitian matrices.
  static void AddCommutator(const PulseChains& chains, const V* a, const V* in, const V* base,
                            double scale, V* product, V* out) {
    Multiply(chains, a, in, nullptr, scale, product);
    const int32_t size = chains.dimension;
    for (int32_t row = 0; row < size; ++row)
      for (int32_t column = row; column < size; ++column) {
        const int32_t upper = 2 * (row * size + column), lower = 2 * (column * size + row);
        const V re = base[upper] + product[lower] - product[upper];
        const V im = base[upper + 1] - product[lower + 1] - product[upper + 1];
        out[upper] = re;
        out[upper + 1] = im;
        out[lower] = -re;
        out[lower + 1] = im;
        if (row == column) out[upper] = V{};
      }
  }

  // The same for any matrices; `adjoint` is A^dagger.
  static void AddGeneralCommutator(const PulseChains& chains, const V* adjoint, const V* in,
                                   const V* base, double scale, V* out) {
    Multiply(chains, adjoint, in, base, scale, out);
    const int32_t size = chains.dimension;
    for (int32_t row = 0; row < size; ++row)
      for (int32_t column = 0; column < size; ++column) {
        V re = {}, im = {};
        for (int32_t e = chains.row_starts[column]; e < chains.row_starts[column + 1]; ++e) {
          const V* b = adjoint + 2 * chains.mates[e];
          const V* from = in + 2 * (row * size + chains.columns[e]);
          re += b[0] * from[0] - b[1] * from[1];
          im += b[0] * from[1] + b[1] * from[0];
        }
        out[2 * (row * size + column)] -= scale * re;
        out[2 * (row * size + column) + 1] -= scale * im;
      }
  }

  static void Adjoint(const PulseChains& chains, const V* a, V* adjoint) {
    for (int32_t e = 0; e < chains.row_starts[chains.dimension]; ++e) {
      adjoint[2 * e] = a[2 * chains.mates[e]];
      adjoint[2 * e + 1] = -a[2 * chains.mates[e] + 1];
    }
  }

  static void Products(const PulseChains& chains, double* product, double* workspace) {
    const int32_t size = chains.dimension, vectors = 2 * size * size;
    V* const result = reinterpret_cast<V*>(product);
    V* generator = reinterpret_cast<V*>(workspace);
    V* current = generator + 2 * chains.row_starts[size];
    V *next = current + vectors, *other = next + vectors;
    for (int32_t i = 0; i < vectors; ++i) current[i] = V{};
    for (int32_t i = 0; i < size; ++i) current[2 * i * (size + 1)] += 1;
    for (int64_t step = 0; step < chains.steps; ++step) {
      Assemble(chains, step, generator);
      for (int32_t part = 0; part < chains.parts; ++part) {
        const V* in = current;  // Horner's rule: X + A (X + A (...) / 2) / 1
        for (int32_t order = chains.degree; order > 0; --order) {
          Multiply(chains, generator, in, current, 1.0 / order, next);
          in = next;
          std::swap(next, other);
        }
        std::swap(current, other);
      }
    }
    for (int32_t i = 0; i < vectors; ++i) result[i] = current[i];
  }

  // With N = W U^dagger of all steps up to this one, exp(A) has the derivative phi(N) by A, where
  // phi(N) = N + [A^dagger, N] / 2! + [A^dagger, [A^dagger, N]] / 3! + ..., and the steps before it
  // have N + [A^dagger, phi(N)].
  static void Gradients(const PulseChains& chains, double* seed, double* const* gradients,
                        double* workspace) {
    const int32_t size = chains.dimension, vectors = 2 * size * size;
    const int32_t entries = chains.row_starts[size];
    V* current = reinterpret_cast<V*>(seed);
    V* const generator = reinterpret_cast<V*>(workspace);
    V* const adjoint = generator + 2 * entries;
    V* const sums = adjoint + 2 * entries;
    V* next = sums + 2 * entries;
    V *other = next + vectors, *const product = other + vectors;
    const auto commute = [&](const V* in, double scale) {  // other = current + scale [A^dagger, in]
      std::swap(next, other);
      if (chains.unitary)
        AddCommutator(chains, generator, in, current, scale, product, other);
      else
        AddGeneralCommutator(chains, adjoint, in, current, scale, other);
    };
    for (int64_t step = chains.steps - 1; step >= 0; --step) {
      Assemble(chains, step, generator);
      if (!chains.unitary) Adjoint(chains, generator, adjoint);
      for (int32_t i = 0; i < 2 * entries; ++i) sums[i] = V{};
      for (int32_t part = 0; part < chains.parts; ++part) {
        const V* phi = current;
        for (int32_t order = chains.degree; order > 0; --order) {
          commute(phi, 1.0 / (order + 1));
          phi = other;
        }
        for (int32_t e = 0; e < entries; ++e) {
          const V* at = phi + 2 * (chains.rows[e] * size + chains.columns[e]);
          sums[2 * e] += at[0];
          sums[2 * e + 1] += at[1];
        }
        commute(phi, 1.0);
        std::swap(current, other);
      }
      Contract(chains, step, sums, gradients);
    }
  }

  // gradients[k] = Re tr(sums^dagger O_k) / parts.
  static void Contract(const PulseChains& chains, int64_t step, const V* sums,
                       double* const* gradients) {
    const V* values = reinterpret_cast<const V*>(chains.values);
    for (int32_t k = 0; k < chains.operators; ++k) {
      V sum = {};
      for (int32_t e = chains.element_starts[k]; e < chains.element_starts[k + 1]; ++e) {
        const V* at = sums + 2 * chains.elements[e];
        sum += at[0] * values[2 * e] + at[1] * values[2 * e + 1];
      }
      for (int lane = 0; lane < kLanes; ++lane)
        if (step < chains.lengths[lane])
          gradients[lane][step * chains.operators + k] = sum[lane] / chains.parts;
    }
  }
};

}  // namespace
}  // namespace QFLEET_SET
}  // namespace qfleet

#endif  // QFLEET_PULSE_KERNELS_H_
