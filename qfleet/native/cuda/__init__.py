"""The engine on Nvidia GPUs: CUDA sources, and the build of the device libraries from them."""
