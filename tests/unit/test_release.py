"""The release tool: what it writes, and what it refuses."""

import datetime
import hashlib
import subprocess
from pathlib import Path

import pytest

from tools import release
from tools.release import ReleaseError

ROOT = Path(__file__).parents[2]
DAY = datetime.date(2027, 1, 31)
CHANGELOG = (
    "# Changelog\n\n## Unreleased\n\n### Added\n\n- A thing.\n\n## 0.5.0 - 2026-11-22\n\n- Old.\n"
)


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    (tmp_path / "CHANGELOG.md").write_text(CHANGELOG)
    (tmp_path / "VERSION").write_text("0.5.0\n")
    (tmp_path / "CITATION.cff").write_text("version: 0.5.0\ntitle: t\n")
    commit(tmp_path)
    return tmp_path


def commit(folder: Path) -> None:
    author = ["-c", "user.name=a", "-c", "user.email=a@b.c", "-c", "commit.gpgsign=false"]
    for words in (["init", "--quiet"], ["add", "--all"], [*author, "commit", "--quiet", "-m", "x"]):
        subprocess.run(["git", *words], cwd=folder, check=True)


def test_cut_dates_the_changes_and_writes_the_version(checkout: Path) -> None:
    release.cut(checkout, "0.6.0", DAY)
    text = (checkout / "CHANGELOG.md").read_text()
    assert "## Unreleased\n\n## 0.6.0 - 2027-01-31\n\n### Added\n\n- A thing.\n" in text
    assert (checkout / "VERSION").read_text() == "0.6.0\n"
    assert (checkout / "CITATION.cff").read_text() == "version: 0.6.0\ntitle: t\n"
    commit(checkout)
    assert release.require_ready(checkout) == "0.6.0"


@pytest.mark.parametrize(
    ("version", "part"),
    [("0.5.0", "not newer"), ("0.4.9", "not newer"), ("six", "three numbers"), ("0.6", "three")],
)
def test_cut_of_a_wrong_version_is_refused(checkout: Path, version: str, part: str) -> None:
    with pytest.raises(ReleaseError, match=part):
        release.cut(checkout, version, DAY)
    assert (checkout / "CHANGELOG.md").read_text() == CHANGELOG


def test_second_cut_without_changes_is_refused(checkout: Path) -> None:
    release.cut(checkout, "0.6.0", DAY)
    with pytest.raises(ReleaseError, match="nothing below"):
        release.cut(checkout, "0.7.0", DAY)


def test_unreleased_changes_are_refused(checkout: Path) -> None:
    with pytest.raises(ReleaseError, match="make release CUT="):
        release.require_ready(checkout)


def test_uncommitted_files_are_refused(checkout: Path) -> None:
    release.cut(checkout, "0.6.0", DAY)
    with pytest.raises(ReleaseError, match=r"3 files are not committed, such as CHANGELOG\.md"):
        release.require_ready(checkout)


def test_bill_of_materials_has_each_locked_package_with_hashes(tmp_path: Path) -> None:
    wheel = tmp_path / "qfleet.whl"
    wheel.write_bytes(b"content")
    content = release.sbom("0.6.0", [wheel])
    components = content["components"]
    assert isinstance(components, list)
    names = {one["name"] for one in components}
    assert {
        "tensorflow-cpu",
        "cirq-core",
        "kubernetes",
        "optuna",
        "mlflow-skinny",
        "xprof",
    } <= names
    assert all(one["hashes"] for one in components)
    digest = hashlib.sha256(b"content").hexdigest()
    assert digest in str(content["metadata"])


def test_existing_release_is_not_overwritten(tmp_path: Path) -> None:
    with pytest.raises(ReleaseError, match="exists: delete it"):
        release.build("0.6.0", ["linux-x86_64"], tmp_path)
    with pytest.raises(ReleaseError, match="is not a platform"):
        release.build("0.6.0", ["windows"], tmp_path / "new")


def test_failed_release_leaves_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail_late(_platform: object, out: Path) -> Path:
        (out / "part.whl").write_bytes(b"half")
        raise SystemExit("the compiler failed")

    monkeypatch.setattr(release.wheel, "build", fail_late)
    with pytest.raises(SystemExit, match="compiler"):
        release.build("0.6.0", ["linux-x86_64"], tmp_path / "0.6.0")
    assert not list(tmp_path.iterdir())
