"""The public surface in docs/public-surface.txt."""

from pathlib import Path

import pytest

from common.errors import SettingsError
from tools import public_surface


@pytest.mark.parametrize(
    "line",
    [
        "    class CompiledCircuit(",
        "    qcnn(qubits: int, ",
        "    BATCH = ",
        "    PROMOTE = ",
        "    138 PeerLost",
        "    checkpoints/",
        "    qfleet_status qfleet_state(",
    ],
)
def test_surface_has_a_name_of_each_kind(line: str) -> None:
    assert line in public_surface.FILE.read_text(encoding="utf-8")


def test_changed_surface_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # `make verify` passes an equal surface.
    file = tmp_path / "surface.txt"
    monkeypatch.setattr(public_surface, "FILE", file)
    monkeypatch.setattr(public_surface, "surface", lambda: iter(["    BATCH = 32"]))
    public_surface.main([])
    public_surface.main(["--check"])
    file.write_text("    BATCHES = 32\n", encoding="utf-8")
    with pytest.raises(SettingsError):
        public_surface.main(["--check"])
