"""Paths of the native libraries.

A wheel contains the core and the XLA handlers in `lib/`. In a checkout `python -m qfleet.native`
builds the core, the TensorFlow ops, the guards of worker processes and the XLA handlers into
`built/`, and `python -m qfleet.native.cuda` the device libraries. There, a name contains a digest
of everything that the library depends on, so that a library of other sources, another framework or
another processor is never loaded.
"""

import functools
import hashlib
import importlib.metadata
import platform
from collections.abc import Iterable
from pathlib import Path

SOURCE_DIR = Path(__file__).parent
BUILT = SOURCE_DIR / "built"
PROCESSORS = ("x86_64", "aarch64", "arm64")  # arm64: the name of aarch64 on macOS
_PACKAGED_CORE = SOURCE_DIR / "lib" / "libqfleet.so"
_PACKAGED_JAX = SOURCE_DIR / "lib" / "libqfleet_jax.so"
_PACKAGED_PROCESS = SOURCE_DIR / "lib" / "libqfleet_process.so"
_PACKAGED_CUDA = SOURCE_DIR / "lib" / "libqfleet_cuda.so"  # in the image for GPUs
_BUILD_FILES = (SOURCE_DIR / "CMakeLists.txt", SOURCE_DIR / "exports.map")
_CUDA = SOURCE_DIR / "cuda"


def core_is_packaged() -> bool:
    """Return True if this installation came with a built core: a wheel."""
    return _PACKAGED_CORE.is_file()


def core_folders() -> list[str]:
    """Return the folders of the core, the lowest first."""
    text = _BUILD_FILES[0].read_text(encoding="utf-8")
    return text.partition("set(core_folders ")[2].partition(")")[0].split()


def core_path() -> Path:
    """Return the path of the core library; the file may not exist."""
    if core_is_packaged():
        return _PACKAGED_CORE
    sources = [*SOURCE_DIR.glob("qfleet*.h"), *_BUILD_FILES]
    for folder in core_folders():
        sources += [*(SOURCE_DIR / folder).glob("*.cc"), *(SOURCE_DIR / folder).glob("*.h")]
    sources += _CUDA.glob("device_interface.h")
    return BUILT / f"libqfleet-{_digest(sources, platform.machine())}.so"


def tensorflow_version() -> str | None:
    """Return the version of the installed TensorFlow; None without TensorFlow."""
    return _version("tensorflow") or _version("tensorflow-cpu")


def jax_version() -> str | None:
    """Return the version of the installed jaxlib; None without it."""
    return _version("jaxlib")


def _version(distribution: str) -> str | None:
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return None


def packaged_tensorflows() -> list[str]:
    """Return the versions of TensorFlow that this installation came with operations for."""
    prefix = "libqfleet_tensorflow-"
    found = (SOURCE_DIR / "lib").glob(f"{prefix}*.so")
    return sorted(path.stem.removeprefix(prefix) for path in found)


def tensorflow_path() -> Path:
    """Return the path of the ops for the installed TensorFlow; the file may not exist."""
    packaged = SOURCE_DIR / "lib" / f"libqfleet_tensorflow-{tensorflow_version()}.so"
    if packaged.is_file():
        return packaged
    folder = SOURCE_DIR / "tensorflow"
    sources = [*folder.glob("*.cc"), *folder.glob("*.h"), *SOURCE_DIR.glob("qfleet*.h")]
    version = str(tensorflow_version())
    digest = _digest([*sources, *_BUILD_FILES], version, core_path().name)
    return BUILT / f"libqfleet_tensorflow-{version}-{digest}.so"


def process_path() -> Path:
    """Return the path of the guards of worker processes; the file may not exist."""
    if _PACKAGED_PROCESS.is_file():
        return _PACKAGED_PROCESS
    sources = [*(SOURCE_DIR / "process").glob("*.cc"), SOURCE_DIR / "CMakeLists.txt"]
    return BUILT / f"libqfleet_process-{_digest(sources, platform.machine())}.so"


def jax_path() -> Path:
    """Return the path of the XLA handlers; the file may not exist."""
    if _PACKAGED_JAX.is_file():
        return _PACKAGED_JAX
    jax = SOURCE_DIR / "jax"
    sources = [*jax.glob("*.cc"), *jax.glob("*.h"), SOURCE_DIR / "qfleet.h"]
    version = str(jax_version())
    digest = _digest([*sources, *_BUILD_FILES], version, core_path().name)
    return BUILT / f"libqfleet_jax-{version}-{digest}.so"


def cuda_path() -> Path:
    """Return the path of the device library for Nvidia GPUs; the file may not exist."""
    if _PACKAGED_CUDA.is_file():
        return _PACKAGED_CUDA
    return BUILT / f"libqfleet_cuda-{_cuda_digest()}.so"


def host_path() -> Path:
    """Return the path of the device library for the host executor; the file may not exist."""
    return BUILT / f"libqfleet_host-{_cuda_digest()}.so"


def cuda_sources() -> list[Path]:
    """Return the sources that a device library is compiled from; none in a wheel."""
    return sorted(_CUDA.glob("*.cu"))


@functools.cache  # a path is asked for by each program
def _cuda_digest() -> str:
    sources = [*cuda_sources(), *_CUDA.glob("*.h"), *_CUDA.glob("*.cc")]
    return _digest([*sources, *_CUDA.glob("__main__.py")], platform.machine())


def _digest(files: Iterable[Path], *words: str) -> str:
    digest = hashlib.sha256()
    for file in sorted(files):
        digest.update(file.read_bytes())
    for word in words:
        digest.update(word.encode())
    return digest.hexdigest()[:16]
