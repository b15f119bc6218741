"""Prepares a release: make release, or `python -m tools.release [--cut VERSION]`.

`--cut` turns the changelog's section "Unreleased" into that of the version, and writes VERSION and
CITATION.cff, for a commit. Without it, the wheels of the last commit are built into dist/VERSION/,
checked and hashed, with a software bill of materials (CycloneDX 1.6). Nothing is uploaded.
"""

import argparse
import datetime
import hashlib
import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from tools import cuda_wheel, wheel
from tools.locks import Pin, read_lock

ROOT = Path(__file__).parents[1]
PLATFORMS = (*wheel.PLATFORMS, wheel.CUDA)
UNRELEASED = "## Unreleased\n"
LOCKS = ("worker", "studies", "mlflow", "launch", "tensorboard", "devices")
"""Locks of the extras: the tested versions of what a wheel installs."""


class ReleaseError(Exception):
    """The release can't be made; the message is one sentence."""


def main(args: Sequence[str] | None = None) -> int:
    """Cut the changelog, or build the release; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tools.release", description=__doc__)
    parser.add_argument("--cut", metavar="VERSION", help="write the version into the files")
    parser.add_argument("--platforms", default=",".join(PLATFORMS), help="wheels to build")
    parser.add_argument("--out", type=Path, default=ROOT / "dist", help="folder of the release")
    given = parser.parse_args(args)
    try:
        if given.cut:
            cut(ROOT, given.cut, datetime.date.today())
            print("Next steps:\n  make manifests, which writes the version of the images")
            print(f"  git commit --all -m 'Release {given.cut}'\n  make release")
            return 0
        version = require_ready(ROOT)
        folder = build(version, given.platforms.split(","), given.out / version)
    except ReleaseError as error:
        print(f"qfleet: {error}", file=sys.stderr)
        return 2
    print(f"\n{folder} is complete. A maintainer then runs:\n\n{steps(version, folder)}")
    return 0


def cut(root: Path, version: str, day: datetime.date) -> None:
    """Date the unreleased changes, and write the version into VERSION and CITATION.cff.

    Raises:
        ReleaseError: The version is not a newer one, or there are no changes.
    """
    if not re.fullmatch(r"\d+\.\d+\.\d+", version):
        raise ReleaseError(f"{version} is not a version: give three numbers, such as 0.6.0")
    current = (root / "VERSION").read_text(encoding="utf-8").strip()
    if _numbers(version) <= _numbers(current):
        raise ReleaseError(f"{version} is not newer than {current}: give a newer version")
    file = root / "CHANGELOG.md"
    before, found, after = file.read_text(encoding="utf-8").partition(UNRELEASED)
    if not found or not after.partition("\n## ")[0].strip():
        raise ReleaseError(f"CHANGELOG.md has nothing below {UNRELEASED.strip()!r} to release")
    title = f"{UNRELEASED}\n## {version} - {day.isoformat()}\n"
    file.write_text(before + title + after, encoding="utf-8")
    (root / "VERSION").write_text(f"{version}\n", encoding="utf-8")
    citation = root / "CITATION.cff"
    text = citation.read_text(encoding="utf-8")
    text = re.sub(r"^version: .*$", f"version: {version}", text, flags=re.M)
    text = re.sub(r"^date-released: .*$", f"date-released: {day.isoformat()}", text, flags=re.M)
    citation.write_text(text, encoding="utf-8")


def require_ready(root: Path) -> str:
    """Return the version of a checkout that can be released.

    Raises:
        ReleaseError: Files are changed, or the changelog has no section of the version.
    """
    status = subprocess.run(
        ["git", "status", "--porcelain"], cwd=root, check=True, capture_output=True, text=True
    ).stdout
    if status:
        changed = status.splitlines()
        raise ReleaseError(f"{len(changed)} files are not committed, such as {changed[0][3:]}")
    version = (root / "VERSION").read_text(encoding="utf-8").strip()
    text = (root / "CHANGELOG.md").read_text(encoding="utf-8")
    unreleased = text.partition(UNRELEASED)[2].partition("\n## ")[0].strip()
    if unreleased or not re.search(rf"^## {re.escape(version)} - \d{{4}}-", text, re.M):
        raise ReleaseError(
            "CHANGELOG.md has changes that no version has: run `make release CUT=` with the next"
            " version, and commit"
        )
    return version


def build(version: str, platforms: Sequence[str], folder: Path) -> Path:
    """Build and check the wheels, and write sbom.cdx.json and SHA256SUMS next to them.

    The folder appears when it is complete: what fails leaves nothing behind.

    Raises:
        ReleaseError: A platform is unknown, or a wheel's description is rejected.
    """
    for name in platforms:
        if name not in PLATFORMS:
            raise ReleaseError(f"{name} is not a platform: {', '.join(PLATFORMS)}")
    if folder.exists():
        raise ReleaseError(f"{folder} exists: delete it")
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=f".{version}-") as part:
        complete = Path(part) / version
        complete.mkdir()
        _build_into(complete, version, platforms)
        complete.rename(folder)
    return folder


def _build_into(folder: Path, version: str, platforms: Sequence[str]) -> None:
    own = [wheel.build(wheel.PLATFORMS[name], folder) for name in platforms if name != wheel.CUDA]
    extra = [cuda_wheel.build_wheel(folder)] if wheel.CUDA in platforms else []
    wheels = [*own, *extra]
    check = [sys.executable, "-m", "twine", "check", "--strict", *map(str, wheels)]
    if subprocess.run(check).returncode:
        raise ReleaseError("twine rejects the description of a wheel, as printed above")
    content = json.dumps(sbom(version, wheels), indent=1, sort_keys=True)
    (folder / "sbom.cdx.json").write_text(f"{content}\n", encoding="utf-8")
    files = sorted(path for path in folder.iterdir() if path.is_file())
    sums = "".join(f"{_sha256(path)}  {path.name}\n" for path in files)
    (folder / "SHA256SUMS").write_text(sums, encoding="utf-8")


def sbom(version: str, wheels: Sequence[Path]) -> Mapping[str, object]:
    """Return the bill of materials: the wheels, and the locked versions of what extras install."""
    locks = [ROOT / "requirements" / f"{lock}.txt" for lock in LOCKS]
    pins = {(pin.package, pin.version): pin for lock in locks for pin in read_lock(lock)}
    own = {
        "type": "library",
        "name": "qfleet",
        "version": version,
        "purl": f"pkg:pypi/qfleet@{version}",
        "licenses": [{"license": {"id": "Apache-2.0"}}],
        "hashes": [{"alg": "SHA-256", "content": _sha256(path)} for path in wheels],
    }
    return {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {"component": own},
        "components": [_component(pins[key]) for key in sorted(pins)],
    }


def _component(pin: Pin) -> dict[str, object]:
    purl = f"pkg:pypi/{pin.package}@{pin.version}"
    hashes = [{"alg": "SHA-256", "content": digest} for digest in sorted(pin.hashes)]
    return {
        "type": "library",
        "bom-ref": purl,
        "name": pin.package,
        "version": pin.version,
        "purl": purl,
        "hashes": hashes,
    }


def steps(version: str, folder: Path) -> str:
    """Return the commands that publish a release."""
    return "\n".join(
        [
            f"git tag --sign v{version} --message 'qfleet {version}'",
            f"git push origin v{version}",
            f"(cd {folder} && sha256sum --check SHA256SUMS)",
            f".venv-wheel/bin/python -m twine upload {folder}/*.whl",
            f"attach {folder}/SHA256SUMS and sbom.cdx.json to the release of the tag",
        ]
    )


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")))


def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


if __name__ == "__main__":
    sys.exit(main())
