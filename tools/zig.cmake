# CMake toolchain: Clang and the C library of the target, from the package `ziglang`.
# Environment: ZIG, its program; ZIG_TARGET, such as x86_64-linux-gnu.2.28 or aarch64-macos.12.0.
string(REGEX MATCH "^[^-]+" CMAKE_SYSTEM_PROCESSOR "$ENV{ZIG_TARGET}")
if("$ENV{ZIG_TARGET}" MATCHES "macos")
  set(CMAKE_SYSTEM_NAME Darwin)
else()
  set(CMAKE_SYSTEM_NAME Linux)
endif()
set(CMAKE_CXX_COMPILER "$ENV{ZIG}" c++ -target $ENV{ZIG_TARGET})
# Names of CPUs have no hyphens: these add and remove features.
set(QFLEET_X86_64 x86_64_v CACHE STRING "Prefix of the compiler's names for levels of x86-64")
set(CMAKE_SHARED_LINKER_FLAGS_INIT -s)
