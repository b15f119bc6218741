"""XLA's handlers for arrays of a GPU, with a driver whose device memory is the host's."""

import subprocess
from pathlib import Path

import jaxlib
import pytest

from qfleet.native.libraries import SOURCE_DIR

SOURCES = Path(__file__).parent / "jax_cuda"


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of the program and of the driver."""
    folder = tmp_path_factory.mktemp("jax_cuda")
    headers = Path(jaxlib.__file__).parent / "include"
    flags = ["-std=c++17", "-Wall", f"-I{SOURCE_DIR}", "-isystem", str(headers)]
    driver, program = folder / "libcuda.so.1", folder / "test"
    shared = ["-shared", "-fPIC", "-Wl,-soname,libcuda.so.1", "-o", str(driver)]
    subprocess.run(["g++", *shared, SOURCES / "driver.cc"], check=True)
    source = SOURCES / "cuda_arrays_test.cc"
    subprocess.run(["g++", *flags, source, "-o", str(program), "-ldl"], check=True)
    return folder


@pytest.mark.parametrize("with_driver", [False, True])
def test_cuda_handler_copies_operands_and_results(built: Path, with_driver: bool) -> None:
    command = [built / "test", *([built / "libcuda.so.1"] if with_driver else [])]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 0, done.stdout
