// Numbers with tangents. Kernels on them compute, besides their results, the derivatives of these
// in a direction (forward mode): for an adjoint gradient, the product of the Hessian and the
// direction.
#ifndef QFLEET_CUDA_DUAL_H_
#define QFLEET_CUDA_DUAL_H_

#include "runtime.h"

namespace qfleet {
namespace device {

// R is float or double. A number is a constant unless it has a tangent.
template <class R>
struct alignas(2 * sizeof(R)) Dual {
  R value, tangent;

  Dual() = default;
  __device__ __host__ constexpr Dual(R value, R tangent = 0) : value(value), tangent(tangent) {}
  template <class From>
  __device__ __host__ explicit constexpr Dual(const Dual<From>& from)
      : value(static_cast<R>(from.value)), tangent(static_cast<R>(from.tangent)) {}

  __device__ __forceinline__ Dual& operator+=(Dual other) {
    value += other.value;
    tangent += other.tangent;
    return *this;
  }
  __device__ __forceinline__ Dual& operator-=(Dual other) {
    value -= other.value;
    tangent -= other.tangent;
    return *this;
  }
  friend __device__ __forceinline__ Dual operator+(Dual a, Dual b) { return a += b; }
  friend __device__ __forceinline__ Dual operator-(Dual a, Dual b) { return a -= b; }
  friend __device__ __forceinline__ Dual operator-(Dual a) { return {-a.value, -a.tangent}; }
  friend __device__ __forceinline__ Dual operator*(Dual a, Dual b) {
    return {a.value * b.value, a.value * b.tangent + a.tangent * b.value};
  }
  friend __device__ __forceinline__ Dual operator*(R constant, Dual a) {
    return {constant * a.value, constant * a.tangent};
  }
};

// The type of sums and angles, the wider of two.
template <class T>
struct WideType {
  using Type = double;
};
template <class R>
struct WideType<Dual<R>> {
  using Type = Dual<double>;
};
template <class T>
using WideOf = typename WideType<T>::Type;

template <class T>
constexpr bool kHasTangents = false;
template <class R>
constexpr bool kHasTangents<Dual<R>> = true;

__device__ __forceinline__ void SineCosinePi(float x, float* sine, float* cosine) {
  sincospif(x, sine, cosine);
}
__device__ __forceinline__ void SineCosinePi(double x, double* sine, double* cosine) {
  sincospi(x, sine, cosine);
}
template <class R>
__device__ __forceinline__ void SineCosinePi(Dual<R> x, Dual<R>* sine, Dual<R>* cosine) {
  const R rate = static_cast<R>(M_PI) * x.tangent;
  SineCosinePi(x.value, &sine->value, &cosine->value);
  sine->tangent = rate * cosine->value;
  cosine->tangent = -rate * sine->value;
}

// Takes whole turns off an angle in half turns.
__device__ __forceinline__ void ReduceHalfTurns(double* angle) {
  *angle -= 2 * rint(*angle / 2);  // exact, so that a float is as good as the double
}
__device__ __forceinline__ void ReduceHalfTurns(Dual<double>* angle) {
  ReduceHalfTurns(&angle->value);
}

__device__ __forceinline__ void AddAtomically(double* to, double value) { atomicAdd(to, value); }
__device__ __forceinline__ void AddAtomically(Dual<double>* to, Dual<double> value) {
  atomicAdd(&to->value, value.value);
  atomicAdd(&to->tangent, value.tangent);
}

}  // namespace device
}  // namespace qfleet

#endif  // QFLEET_CUDA_DUAL_H_
