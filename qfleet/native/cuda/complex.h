// Complex numbers and small matrices on a device.
#ifndef QFLEET_CUDA_COMPLEX_H_
#define QFLEET_CUDA_COMPLEX_H_

#include "dual.h"

namespace qfleet {
namespace device {

template <class T>
struct alignas(sizeof(T) < 8 ? 2 * sizeof(T) : 16) Complex {
  T re, im;
};

// sum += a b
template <class T>
__device__ __forceinline__ void AddProduct(Complex<T> a, Complex<T> b, Complex<T>* sum) {
  sum->re += a.re * b.re;
  sum->re -= a.im * b.im;
  sum->im += a.re * b.im;
  sum->im += a.im * b.re;
}

// sum += conj(a) b
template <class T>
__device__ __forceinline__ void AddConjugateProduct(Complex<T> a, Complex<T> b, Complex<T>* sum) {
  sum->re += a.re * b.re;
  sum->re += a.im * b.im;
  sum->im += a.re * b.im;
  sum->im -= a.im * b.re;
}

// The products with tangents, without a sum between multiplication and addition.
template <class R>
__device__ __forceinline__ void AddProduct(Complex<Dual<R>> a, Complex<Dual<R>> b,
                                           Complex<Dual<R>>* sum) {
  sum->re.value += a.re.value * b.re.value;
  sum->re.value -= a.im.value * b.im.value;
  sum->im.value += a.re.value * b.im.value;
  sum->im.value += a.im.value * b.re.value;
  sum->re.tangent += a.re.value * b.re.tangent;
  sum->re.tangent -= a.im.value * b.im.tangent;
  sum->im.tangent += a.re.value * b.im.tangent;
  sum->im.tangent += a.im.value * b.re.tangent;
  sum->re.tangent += a.re.tangent * b.re.value;
  sum->re.tangent -= a.im.tangent * b.im.value;
  sum->im.tangent += a.re.tangent * b.im.value;
  sum->im.tangent += a.im.tangent * b.re.value;
}

template <class R>
__device__ __forceinline__ void AddConjugateProduct(Complex<Dual<R>> a, Complex<Dual<R>> b,
                                                    Complex<Dual<R>>* sum) {
  AddProduct({a.re, -a.im}, b, sum);
}

// Loads COUNT numbers from an address that is aligned to 16 bytes, which all threads share.
template <int COUNT, class T>
__device__ __forceinline__ void LoadMatrix(const Complex<T>* from, Complex<T>* to) {
  if constexpr (sizeof(T) == 16) {  // a real is a vector
#pragma unroll
    for (int i = 0; i < COUNT; ++i) to[i] = from[i];
  } else {
    struct alignas(16) Vector {
      T reals[16 / sizeof(T)];
    };
    constexpr int kReals = 16 / sizeof(T);
#pragma unroll
    for (int i = 0; i < 2 * COUNT / kReals; ++i) {
      const Vector vector = reinterpret_cast<const Vector*>(from)[i];
#pragma unroll
      for (int part = 0; part < kReals; part += 2)
        to[(i * kReals + part) / 2] = {vector.reals[part], vector.reals[part + 1]};
    }
  }
}

// out = a b, or a^dagger b; row by row.
template <int SIZE, bool ADJOINT, class T>
__device__ __forceinline__ void MultiplyMatrices(const Complex<T>* a, const Complex<T>* b,
                                                 Complex<T>* out) {
#pragma unroll
  for (int i = 0; i < SIZE; ++i)
#pragma unroll
    for (int j = 0; j < SIZE; ++j) {
      Complex<T> sum = {0, 0};
#pragma unroll
      for (int m = 0; m < SIZE; ++m)
        if (ADJOINT)
          AddConjugateProduct(a[m * SIZE + i], b[m * SIZE + j], &sum);
        else
          AddProduct(a[i * SIZE + m], b[m * SIZE + j], &sum);
      out[i * SIZE + j] = sum;
    }
}

}  // namespace device
}  // namespace qfleet

#endif  // QFLEET_CUDA_COMPLEX_H_
