"""The images of `make images`: contents, behaviour in confined containers, and pushes."""

import io
import json
import os
import re
import shutil
import subprocess
import tarfile
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.kube import ROOT
from tests.e2e.registry import Registry
from tests.support.patience import seconds

VERSION = (ROOT / "VERSION").read_text().strip()
# Megabytes, including the base of 130. The worker has 1,957: 1,677 with TensorFlow
# 2.21, and 280 for openfermion, pyscf and what they need.
AT_MOST = {"storage": 180, "tensorboard": 600, "worker": 2050}
IMAGES = tuple(AT_MOST)
# As pods run them.
CONFINED = ("--read-only", "--tmpfs=/tmp:mode=1777", "--cap-drop=ALL", "--network=none",
            "--security-opt=no-new-privileges")  # fmt: skip


def docker(*words: str, check: bool = True) -> subprocess.CompletedProcess[str]:
    """Run docker; it must succeed, unless `check` is false."""
    done = subprocess.run(
        ["docker", *words], capture_output=True, text=True, timeout=seconds(300), check=False
    )
    assert not check or done.returncode == 0, f"docker {' '.join(words)}: {done.stderr}"
    return done


@pytest.fixture(scope="module")
def engine() -> None:
    """A docker daemon."""
    if shutil.which("docker") is None or docker("info", check=False).returncode:
        pytest.skip("no docker daemon answers here")


@pytest.fixture(params=IMAGES)
def image(engine: None, request: pytest.FixtureRequest) -> str:
    """The name of each image in turn."""
    return built(request.param)


@pytest.fixture
def worker(engine: None) -> str:
    return built("worker")


def built(stage: str) -> str:
    """The image of a stage, which must be there."""
    name = f"qfleet-{stage}:{VERSION}"
    if docker("image", "inspect", name, check=False).returncode:
        pytest.skip(f"there is no image {name}: `make images` builds it")
    return name


def in_container(image: str, program: str, *options: str) -> str:
    """Return the output of a Python program in a confined container."""
    return docker("run", "--rm", *CONFINED, *options, image, "python", "-c", program).stdout


def test_image_has_labels_and_unprivileged_user(image: str) -> None:
    found = json.loads(docker("image", "inspect", image).stdout)[0]
    assert found["Config"]["User"] == "65532:65532"
    assert found["Config"]["WorkingDir"] == "/qfleet"
    assert not found["Config"]["Entrypoint"]
    labels = found["Config"]["Labels"]
    assert labels["org.opencontainers.image.version"] == VERSION
    assert re.fullmatch(r"[0-9a-f]{40}(-dirty)?", labels["org.opencontainers.image.revision"])


LIST = """
import importlib.metadata, json, re, subprocess
normal = lambda name: re.sub(r"[-_.]+", "-", name).lower()
found = {normal(one.metadata["Name"]): one.version for one in importlib.metadata.distributions()}
command = ["dpkg-query", "--show", "--showformat=${Package} ${Status}\\n"]
lines = subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()
debian = [line.split()[0] for line in lines if line.endswith(" install ok installed")]
print(json.dumps([found, debian, json.load(open("/opt/venv/sbom.cdx.json", encoding="utf-8"))]))
"""


def test_image_holds_its_bill_of_materials(image: str) -> None:
    installed, debian, bill = json.loads(in_container(image, LIST))
    assert (bill["bomFormat"], bill["specVersion"]) == ("CycloneDX", "1.6")
    listed = {one["purl"]: one for one in bill["components"]}
    assert len(listed) == len(bill["components"])
    for name, version in installed.items():
        assert f"pkg:pypi/{name}@{version}" in listed
    names = {one["name"] for purl, one in listed.items() if purl.startswith("pkg:deb/")}
    assert names == set(debian)
    assert names > {"libc6", "libssl3"}
    assert "g++" not in names
    assert f"pkg:pypi/qfleet@{VERSION}" in listed
    assert installed["qfleet"] == VERSION


def test_image_size_is_limited(image: str) -> None:
    size = int(docker("image", "inspect", "--format={{.Size}}", image).stdout) / 1e6
    print(f"{image}: {size:,.0f} MB")
    assert size <= AT_MOST[image.partition(":")[0].removeprefix("qfleet-")]


def test_image_contains_no_secret_and_no_build_host(image: str) -> None:
    history = docker("history", "--no-trunc", "--format={{.CreatedBy}}", image).stdout.lower()
    settings = "\n".join(json.loads(docker("image", "inspect", image).stdout)[0]["Config"]["Env"])
    for text in (history, settings.lower()):
        for word in ("proxy", "index_url", "index-url", "extra-index", "mirror", "password", "@"):
            assert word not in re.sub(r"@sha256:\w+", "", text)
    settings = in_container(
        image,
        "import pathlib; p = pathlib.Path('/etc/pip.conf'); print(p.exists() and p.read_text())",
    )
    assert "://" not in settings


# Prints surplus files of an image.
SURPLUS = """
import os, shutil, sys
from pathlib import Path

for tool in "g++ gcc cc ld as strip make cmake ninja pip pip3 git".split():
    if shutil.which(tool):
        print("tool", tool)
try:
    import pip
    print("tool", pip.__file__)
except ImportError:
    pass
native = Path("/opt/qfleet/qfleet/native")
for place in ("/opt/venv/lib", "/opt/qfleet"):
    for folder, folders, files in os.walk(place):
        for name in folders:
            if name in ("tests", "include", ".git"):
                print("folder", folder, name)
        for name in files:
            path = Path(folder, name)
            # A wheel has what another TensorFlow's operations are built from.
            if path.suffix in (".a", ".h", ".o") and native not in path.parents:
                print("file", path)
            if not os.access(path, os.R_OK) or os.access(path, os.W_OK):
                print("rights", path)
for place in ("/var/lib/apt/lists", "/var/cache/apt/archives", "/root/.cache", "/tmp"):
    try:
        found = [p for p in Path(place).rglob("*") if p.is_file() and p.name != "lock"]
    except PermissionError:
        found = []
    print(*(f"cache {p}" for p in found), sep="\\n", end="")
missing = [
    str(path) for path in Path("/opt/qfleet").rglob("*.py")
    if not list((path.parent / "__pycache__").glob(f"{path.stem}.cpython-*.pyc"))
]
print(*(f"bytecode {path}" for path in missing), sep="\\n", end="")
"""


def test_image_has_no_tools_caches_or_writable_files(image: str) -> None:
    assert in_container(image, SURPLUS).split("\n") == [""]


def test_worker_trains_and_predicts_when_read_only(worker: str) -> None:
    # One container for both, with the runs in its /tmp.
    script = (
        "import subprocess, sys\n"
        "for words in (['training.worker', 'QUBITS=2', 'TRAIN_EXAMPLES=100',"
        " 'VALIDATION_EXAMPLES=50', 'TEST_EXAMPLES=50',"
        " 'EPOCHS=2', 'INITIALIZATIONS=1', 'WORKERS=1'], ['inference']):\n"
        "    subprocess.run([sys.executable, '-m', *words, 'STORAGE=/tmp/runs'], check=True)\n"
    )
    done = docker("run", "--rm", *CONFINED, worker, "python", "-c", script)
    output = done.stdout + done.stderr
    assert "epoch 2/2" in output
    assert "report" in output
    assert "Traceback" not in output
    assert "plain TensorFlow" not in output
    assert "Building" not in output


def test_worker_simulates_with_its_native_library(worker: str) -> None:
    program = """
import cirq, sympy, tensorflow as tf
from qfleet.engine import library
from qfleet.native import libraries
from qfleet.tensorflow.backends import build_simulator
qubits = cirq.LineQubit.range(2)
circuit = cirq.Circuit(cirq.rx(sympy.Symbol("x")).on(qubits[0]), cirq.CNOT(*qubits))
simulator = build_simulator(circuit, ["x"], [], [cirq.PauliSum() + cirq.Z(qubits[1])])
print(type(simulator).__name__, libraries.tensorflow_path().parent, library.instruction_set())
"""
    name, place, _ = in_container(worker, program).split(maxsplit=2)
    assert (name, place) == ("NativeSimulator", "/opt/qfleet/qfleet/native/lib")


def answer(image: str, command: tuple[str, ...], url: str) -> str:
    """Return the response of a server in a confined container to a request from inside."""
    name = f"qfleet-test-{uuid.uuid4().hex[:8]}"
    docker("run", "--detach", f"--name={name}", *CONFINED, image, *command)
    ask = (
        f"import urllib.request; print(urllib.request.urlopen({url!r}, timeout=5).read().decode())"
    )
    try:
        end = time.monotonic() + seconds(60)
        while (done := docker("exec", name, "python", "-c", ask, check=False)).returncode:
            state = docker("inspect", "--format={{.State.Running}}", name).stdout.strip()
            if state != "true" or time.monotonic() > end:
                pytest.fail(docker("logs", name).stderr)
            time.sleep(0.3)
        docker("stop", "--time=20", name)
        code = docker("inspect", "--format={{.State.ExitCode}}", name).stdout.strip()
        assert code not in ("137", "1"), docker("logs", name).stderr  # killed, or a traceback
        return done.stdout
    finally:
        docker("rm", "--force", name)


def test_tensorboard_serves(engine: None) -> None:
    command = ("python", "-m", "launch.tensorboard_launcher", "STORAGE=/tmp/runs")
    page = answer(built("tensorboard"), command, "http://127.0.0.1:5001/data/environment")
    assert "window_title" in page


def test_emulator_serves(engine: None) -> None:
    command = ("python", "-m", "launch.emulator", "/tmp/data", "9023", "qfleet")
    buckets = answer(built("storage"), command, "http://127.0.0.1:9023/storage/v1/b")
    assert json.loads(buckets)["items"][0]["name"] == "qfleet"


# Pushes, from a separate checkout with tiny images.


@pytest.fixture
def checkout(tmp_path: Path, engine: None) -> Iterator[Path]:
    """A folder that pushes images of a unique version."""
    version = f"0.0.0-test-{uuid.uuid4().hex[:8]}"
    shutil.copytree(ROOT / "images", tmp_path / "images")
    (tmp_path / "VERSION").write_text(version)
    names = [f"qfleet-{stage}:{version}" for stage in IMAGES]
    for name in names:
        content = io.BytesIO()
        with tarfile.open(fileobj=content, mode="w") as archive:
            archive.addfile(tarfile.TarInfo(name.replace(":", "-")))
        subprocess.run(
            ["docker", "import", "-", name], input=content.getvalue(), check=True,
            capture_output=True,
        )  # fmt: skip
    yield tmp_path
    listed = docker("image", "ls", "--format={{.Repository}}:{{.Tag}}").stdout.split()
    docker("image", "rm", "--force", *(name for name in listed if name.endswith(version)))


def script(folder: Path, name: str, *words: str, **environ: str) -> tuple[int, str, str]:
    done = subprocess.run(
        [folder / "images" / name, *words], env={**os.environ, **environ},
        capture_output=True, text=True, timeout=seconds(120), check=False,
    )  # fmt: skip
    return done.returncode, done.stdout, done.stderr


def test_push_writes_digests_for_manifests(checkout: Path) -> None:
    with Registry() as registry:
        image = f"{registry.address}/team/qfleet"
        code, output, errors = script(checkout, "push.sh", f"IMAGE={image}")
        assert code == 0, errors
        pushed = {
            place.partition(":")[0].removeprefix("team/qfleet-"): digest
            for place, digest in registry.manifests.items()
        }
    assert set(pushed) == set(IMAGES)
    kept = json.loads((checkout / ".images.json").read_text())
    assert kept == {stage: f"{image}-{stage}@{digest}" for stage, digest in pushed.items()}
    assert output.splitlines() == [
        *kept.values(), f"Next: make manifests OVERLAY=gke IMAGE={image}"
    ]  # fmt: skip


def test_denied_push_names_the_login_command(checkout: Path) -> None:
    with Registry(denies=True) as registry:
        code, _, errors = script(checkout, "push.sh", f"IMAGE={registry.address}/qfleet")
    assert code == 2
    assert f"docker login {registry.address}" in errors.splitlines()[-1]
    assert not (checkout / ".images.json").exists()
    code, _, errors = script(checkout, "push.sh", f"IMAGE={registry.address}/qfleet")
    assert code == 2
    assert "cannot be reached" in errors.splitlines()[-1]


@pytest.mark.parametrize(
    ("name", "words", "part"),
    [
        ("push.sh", (), "make push needs IMAGE"),
        ("push.sh", ("IMAGE=qfleet",), "IMAGE=qfleet is not registry/name"),
        ("push.sh", ("IMAGE=a.b/c:1.0",), "without a tag"),
        ("push.sh", ("IMAGE=a.b/c", "GPU=1"), "make push takes only IMAGE and ENGINE"),
        ("build.sh", ("IMAGE=a.b/c",), "make images takes no IMAGE"),
        ("build.sh", ("EPOCHS=3",), "there is no setting EPOCHS here"),
        ("build.sh", ("GPU=yes",), "GPU=yes: 1 builds"),
        ("build.sh", ("QUICK=yes",), "QUICK=yes: 1 takes"),
        ("build.sh", ("WHEEL=none.whl",), "WHEEL=none.whl does not exist"),
        ("build.sh", ("ENGINE=nothing",), "there is no nothing on the PATH"),
    ],
)
def test_wrong_argument_is_refused_in_one_line(
    name: str, words: tuple[str, ...], part: str
) -> None:
    code, _, errors = script(ROOT, name, *words)
    assert code == 2
    assert errors.startswith("qfleet: ")
    assert part in errors
    assert errors.count("\n") == 1


def test_missing_image_or_engine_is_one_line(checkout: Path) -> None:
    (checkout / "VERSION").write_text("0.0.0-never-built")
    code, _, errors = script(checkout, "push.sh", "IMAGE=a.b/c")
    assert code == 2
    assert "there is no image qfleet-storage:0.0.0-never-built: `make images` builds it" in errors
    unreachable = {"DOCKER_HOST": "unix:///nonexistent/docker.sock"}
    code, _, errors = script(checkout, "build.sh", **unreachable)
    assert code == 2
    assert "docker does not answer" in errors
