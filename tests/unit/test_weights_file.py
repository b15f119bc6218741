"""Weights of another user: only the file is read, and no declared size is believed."""

import hashlib
import json
import shutil
from collections.abc import Callable
from pathlib import Path

import h5py
import numpy as np
import pytest

from common import runs, weights_file
from common.errors import WeightsError
from common.settings import Settings
from inference import model_source
from tests.support.finished_run import finish, model_folder

SHAPES = [[2, 3], [3]]
SECRET = b"0123456789abcdef" * 16


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    path = tmp_path / "secret"
    path.write_bytes(SECRET)
    return path


def _external(file: h5py.File, secret: Path) -> None:
    del file["group/a"]
    file["group"].create_dataset("a", (2, 3), "f4", external=[(str(secret), 0, 24)])


def _virtual(file: h5py.File, secret: Path) -> None:
    with h5py.File(secret.with_name("other.h5"), "w") as other:
        other["x"] = np.zeros((2, 3), "f4")
    layout = h5py.VirtualLayout((2, 3), "f4")
    layout[:] = h5py.VirtualSource(str(secret.with_name("other.h5")), "x", (2, 3))
    del file["group/a"]
    file["group"].create_virtual_dataset("a", layout)


def _external_link(file: h5py.File, secret: Path) -> None:
    file["group/linked"] = h5py.ExternalLink(str(secret.with_name("other.h5")), "/x")


def _nested_soft_link(file: h5py.File, secret: Path) -> None:
    file["group"].create_group("deep").create_group("er")["soft"] = h5py.SoftLink("/group/a")


def _reference(file: h5py.File, secret: Path) -> None:
    file["ref"] = file["group/a"].ref


def _reference_attribute(file: h5py.File, secret: Path) -> None:
    file["group"].attrs["ref"] = file["group/a"].ref


def _cycle(file: h5py.File, secret: Path) -> None:
    file["group/again"] = file["group"]


def _twice(file: h5py.File, secret: Path) -> None:
    file["group/b2"] = file["group/b"]


def _chunked(file: h5py.File, secret: Path) -> None:
    del file["group/b"]
    file["group"].create_dataset("b", (3,), "f4", chunks=(3,), compression="gzip")


def _named_type(file: h5py.File, secret: Path) -> None:
    file["type"] = np.dtype("f8")


def _text(file: h5py.File, secret: Path) -> None:
    file["group"].create_dataset("t", data="text")


def _compound(file: h5py.File, secret: Path) -> None:
    file["group"].create_dataset("t", (1,), np.dtype([("a", "f4"), ("b", "f4")]))


def _large_attribute(file: h5py.File, secret: Path) -> None:
    file.attrs.create("many", np.zeros(0, "f8"), shape=(0,))
    file.create_group("dense", track_order=True)
    file["dense"].attrs.create("names", np.zeros(3_000_000, "S8"))


def _bomb(file: h5py.File, secret: Path) -> None:
    del file["group/b"]
    properties = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    properties.set_alloc_time(h5py.h5d.ALLOC_TIME_LATE)
    space = h5py.h5s.create_simple((2**40,))
    h5py.h5d.create(file["group"].id, b"b", h5py.h5t.IEEE_F32LE, space, properties)


CASES: dict[str, tuple[Callable[[h5py.File, Path], None], str]] = {
    "external storage": (_external, "its content in another file"),
    "virtual": (_virtual, "virtual or chunked"),
    "external link": (_external_link, "soft or external link"),
    "soft link": (_nested_soft_link, "soft or external link"),
    "reference": (_reference, "not an array of numbers"),
    "reference in an attribute": (_reference_attribute, "reference or a list"),
    "cycle": (_cycle, "linked twice"),
    "linked twice": (_twice, "linked twice"),
    "compressed": (_chunked, "virtual or chunked"),
    "named type": (_named_type, "named type"),
    "text": (_text, "not an array of numbers"),
    "compound": (_compound, "not an array of numbers"),
    "shape bomb": (_bomb, "contains arrays of shapes"),
    "large attribute": (_large_attribute, "is large"),
}


def write(path: Path, change: Callable[[h5py.File, Path], None], secret: Path) -> Path:
    with h5py.File(path, "w", libver="latest") as file:
        group = file.create_group("group")
        group.attrs["weight_names"] = np.array([b"a", b"b"])
        group["a"], group["b"] = np.zeros((2, 3), "f4"), np.zeros(3, "f4")
        change(file, secret)
    return path


@pytest.mark.parametrize("case", CASES)
def test_unsafe_weights_are_refused(case: str, tmp_path: Path, secret: Path) -> None:
    change, words = CASES[case]
    path = write(tmp_path / "weights.h5", change, secret)
    with pytest.raises(WeightsError, match=words):
        weights_file.verify_content(path, path, SHAPES, "model")


def test_plain_weights_are_accepted(tmp_path: Path, secret: Path) -> None:
    path = write(tmp_path / "weights.h5", lambda file, secret: None, secret)
    weights_file.verify_content(path, path, SHAPES, "model")
    with pytest.raises(WeightsError, match="2x3, 3, but"):
        weights_file.verify_content(path, path, [[3], [3, 2]], "model")


@pytest.mark.parametrize("content", [b"", b"text", b"\x89HDF\r\n\x1a\n", b"\x89HDF\r\n\x1a\n" * 99])
def test_other_content_is_refused(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "w.h5").write_bytes(content)
    with pytest.raises(WeightsError, match="not an HDF5 file"):
        weights_file.verify_content(tmp_path / "w.h5", tmp_path / "w.h5", SHAPES, "model")


def test_huge_file_is_refused_unread(tmp_path: Path) -> None:
    with (tmp_path / "w.h5").open("wb") as file:
        file.truncate(30 * 2**30)
    with (
        pytest.raises(WeightsError, match="more than 8192 MiB"),
        weights_file.local_copy(tmp_path / "w.h5"),
    ):
        pass


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("runs")
    finish(root, "received", "MODEL=qcnn", "QUBITS=3")
    return root


def test_external_weights_are_refused_on_every_way(
    finished: Path, tmp_path: Path, secret: Path
) -> None:
    """The digests of the run are right, since its author can compute them."""
    root = Path(shutil.copytree(finished, tmp_path / "runs"))
    run = root / "received"
    weights = model_folder(run) / "weights.h5"
    with h5py.File(weights, "r+") as file:
        (shape,) = (d.shape for d in [file["circuit_0/circuit_0/angles:0"]])
        del file["circuit_0/circuit_0/angles:0"]
        file["circuit_0/circuit_0"].create_dataset(
            "angles:0", shape, "f4", external=[(str(secret), 0, 4 * shape[0])]
        )
    result = json.loads((run / "result.json").read_text())
    result["weights"]["sha256"] = hashlib.sha256(weights.read_bytes()).hexdigest()
    (run / "result.json").write_text(json.dumps(result))
    shutil.copytree(model_folder(run), tmp_path / "bare")
    for args in (
        [f"STORAGE={root}"],
        [f"WEIGHTS={weights}"],
        [f"WEIGHTS={tmp_path / 'bare'}"],
    ):
        source = model_source.choose_model(Settings.from_args(args))
        with pytest.raises(WeightsError, match="another file"), source.local_weights():
            pass
    with pytest.raises(WeightsError, match="another file"):
        runs.load(str(run))
    from common import models

    described = json.loads((model_folder(run) / "model.json").read_text())
    with pytest.raises(WeightsError, match="another file"):
        models.rebuild(described, weights)
