// Complex numbers and small matrices on a device.
#ifndef QFLEET_CUDA_COMPLEX_H_
#define QFLEET_CUDA_COMPLEX_H_

#include "runtime.h"

namespace qfleet {
namespace device {

template <class T>
struct alignas(2 * sizeof(T)) Complex {
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

__device__ __forceinline__ void SineCosinePi(float x, float* sine, float* cosine) {
  sincospif(x, sine, cosine);
}
__device__ __forceinline__ void SineCosinePi(double x, double* sine, double* cosine) {
  sincospi(x, sine, cosine);
}

// Loads COUNT numbers from an address that is aligned to 16 bytes, which all threads share.
template <int COUNT, class T>
__device__ __forceinline__ void LoadMatrix(const Complex<T>* from, Complex<T>* to) {
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
