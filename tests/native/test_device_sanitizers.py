"""The tests of the device, with the engine and the host executor built for sanitizers."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from qfleet.native.cuda.__main__ import Toolchain, build, checked_sources, host_toolchain
from tests.native.test_native_builds import (
    build_target,
    needs_compiler,
    run,
    without_address_randomization,
)
from tests.support.installed import ROOT

RUN = """
import sys
from pathlib import Path
import pytest
from qfleet.engine import devices, library
library.core_path = lambda: Path(sys.argv[1])
devices.host_path = lambda: Path(sys.argv[2])
sys.exit(pytest.main(sys.argv[3:]))
"""
# A sanitizer's report is written to the process's output, and ends the process.
PYTEST = ("--capture=no", "--quiet", "-c", os.devnull, f"--rootdir={ROOT}", "--noconftest")
PYTEST += ("-p", "no:cacheprovider", "-p", "no:faulthandler", "--exitfirst")

SANITIZERS = (
    ("address,undefined", "libasan.so", ""),
    ("thread", "libtsan.so", "threads"),  # the other tests call from one thread
)
"""Names that g++ takes, the library of their run time, and the words of pytest's option -k."""


def build_host_executor(path: Path, sanitizers: str) -> None:
    """Build the device library for the host executor."""
    flags = ("-Og", f"-fsanitize={sanitizers}", "-fno-sanitize-recover=all")
    tools = host_toolchain()
    build(path, checked_sources(), Toolchain((*tools.compile, *flags), (*tools.link, *flags)))


def library_of_compiler(name: str) -> str:
    """Return the path of a library that g++ links."""
    command = [str(shutil.which("g++")), f"-print-file-name={name}"]
    return subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout.strip()


@pytest.mark.nightly
@needs_compiler
@pytest.mark.timeout(1800)
@pytest.mark.parametrize(("sanitizers", "runtime", "words"), SANITIZERS, ids=["address", "thread"])
def test_device_under_sanitizers_passes(
    sanitizers: str, runtime: str, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    core, path = tmp_path / "libqfleet.so", tmp_path / "libqfleet_host.so"
    build_target("qfleet", tmp_path, QFLEET_SANITIZE=sanitizers, QFLEET_WIDEST="baseline")
    build_host_executor(path, sanitizers)
    # Python is not linked with the run time, which must be loaded before all else.
    names = (runtime, "libstdc++.so.6")
    preload = " ".join(library_of_compiler(name) for name in names)
    monkeypatch.chdir(ROOT)
    monkeypatch.setenv("ASAN_OPTIONS", "detect_leaks=0")  # Python keeps memory until it ends
    tests = sorted(Path(__file__).parent.glob("test_device_[deil]*.py"))
    command = ("env", f"LD_PRELOAD={preload}", sys.executable, "-c", RUN, core, path, *PYTEST)
    run(*without_address_randomization(), *command, *tests, "-k", words)
