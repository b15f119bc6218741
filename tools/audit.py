"""Compare the locks with the reviewed advisories, and with an advisory service if one is reached.

Usage:
    python -m tools.audit                 compare with requirements/advisories.yaml
    python -m tools.audit --service       print the URL of an advisory service that answers, if any
    python -m tools.audit --pip-audit PROGRAM URL
                                          run pip-audit with that service, once per lock
Exit status: 0 without findings, 1 with findings, 2 on wrong usage or a damaged list.
"""

import argparse
import json
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import yaml
from packaging.version import InvalidVersion, Version

from tools.locks import Pin, read_locks

ROOT = Path(__file__).resolve().parents[1]
LOCKS = ROOT / "requirements"
REVIEWED = LOCKS / "advisories.yaml"

SERVICE = "https://api.osv.dev/v1/query"
SERVICE_SECONDS = 5.0
LOCK_SECONDS = 180.0


class DamagedList(Exception):
    """The list of reviewed advisories can't be used."""


@dataclass(frozen=True)
class Advisory:
    """An entry of requirements/advisories.yaml, where its fields are described."""

    id: tuple[str, ...]
    packages: tuple[str, ...]
    fixed: str = ""
    first: str = ""
    harmless: str = ""
    guard: str = ""

    @property
    def name(self) -> str:
        """The names of the advisory."""
        return ", ".join(self.id)

    def affects(self, pin: Pin) -> bool:
        """Return True if a pinned version has it."""
        if pin.package not in self.packages:
            return False
        version = Version(pin.version)
        if self.fixed and version >= Version(self.fixed):
            return False
        return not self.first or version >= Version(self.first)


def read_reviewed(path: Path = REVIEWED, root: Path = ROOT) -> list[Advisory]:
    """Return the reviewed advisories.

    Raises:
        DamagedList: An entry has an unknown field, lacks one, or names a guard that does not exist.
    """
    try:
        entries = yaml.safe_load(path.read_text(encoding="utf-8"))["advisories"]
        return [_entry(entry, root) for entry in entries]
    except (yaml.YAMLError, TypeError, KeyError, OSError) as error:
        raise DamagedList(f"{path} can't be read: {error}") from None


def _entry(entry: Mapping[str, Any], root: Path) -> Advisory:
    label = f"{entry.get('id')} of {entry.get('packages')}"
    lists = {key: entry.get(key) for key in ("id", "packages")}
    unknown = entry.keys() - {field.name for field in fields(Advisory)}
    if unknown or not all(isinstance(value, list) and value for value in lists.values()):
        raise DamagedList(f"{label}: unknown fields {sorted(unknown)}, or no id or packages")
    texts = {key: str(value) for key, value in entry.items() if key not in lists}
    found = Advisory(
        id=tuple(map(str, entry["id"])), packages=tuple(map(str, entry["packages"])), **texts
    )
    if not found.fixed and not found.harmless:
        raise DamagedList(f"{label}: has neither a fixed version nor a reason why it is harmless")
    if found.guard and not (root / found.guard).is_file():
        raise DamagedList(f"{label}: its guard {found.guard} does not exist")
    try:
        for version in (found.fixed, found.first):
            Version(version or "0")
    except InvalidVersion as error:
        raise DamagedList(f"{label}: {error}") from None
    return found


def compare(pins: Sequence[Pin], advisories: Iterable[Advisory]) -> tuple[list[str], list[str]]:
    """Return the findings, and the advisories that affect pins harmlessly, each as a sentence."""
    findings, harmless = [], []
    for advisory in advisories:
        affected = [pin for pin in pins if advisory.affects(pin)]
        if affected and advisory.harmless:
            versions = ", ".join(sorted({f"{pin.package}=={pin.version}" for pin in affected}))
            guard = f" Guard: {advisory.guard}" if advisory.guard else ""
            harmless.append(f"{advisory.name} in {versions}: {advisory.harmless}{guard}")
            continue
        findings += [
            f"{pin} has {advisory.name}: pin {advisory.fixed} or newer, or add the reason why it is"
            f" harmless to {REVIEWED.name}"
            for pin in affected
        ]
    return findings, harmless


def find_service(url: str = SERVICE) -> str:
    """Return the URL of the advisory service if it answers a query within SERVICE_SECONDS."""
    query = {"package": {"name": "pip", "ecosystem": "PyPI"}, "version": "26.3"}
    request = urllib.request.Request(  # noqa: S310 - SERVICE, or a test's own
        url, data=json.dumps(query).encode(), headers={"Content-Type": "application/json"}
    )
    try:
        with urllib.request.urlopen(request, timeout=SERVICE_SECONDS) as answer:  # noqa: S310
            json.load(answer)
            return url
    except (OSError, ValueError) as error:
        cause = getattr(error, "reason", None) or error
        print(
            f"audit: the advisory service {url} can't be reached ({cause}); the locks are compared"
            " with the reviewed list only",
            file=sys.stderr,
        )
        return ""


def run_pip_audit(program: str, url: str, advisories: Sequence[Advisory]) -> int:
    """Run pip-audit for each lock, without the advisories that are reviewed as harmless.

    Returns:
        1 if it found another one, else 0.
    """
    ignored = [word for one in advisories if one.harmless for name in one.id
               for word in ("--ignore-vuln", name)]  # fmt: skip
    status = 0
    for lock in sorted(LOCKS.glob("*.txt")):
        command = [program, "--requirement", str(lock), "--disable-pip", "--require-hashes",
                   "--vulnerability-service", "osv", "--osv-url", url,
                   "--timeout", "15", "--progress-spinner", "off", *ignored]  # fmt: skip
        try:
            done = subprocess.run(
                command, capture_output=True, text=True, timeout=LOCK_SECONDS, check=False
            )
        except subprocess.TimeoutExpired:
            print(f"audit: pip-audit gave no answer for {lock.name} in {LOCK_SECONDS:.0f} s")
            return 1
        if done.returncode:
            status = 1
            print(f"{lock.name}:\n{done.stdout}{done.stderr}")
        else:
            print(f"{lock.name}: pip-audit found nothing new")
    return status


def main(args: Sequence[str] | None = None) -> int:
    """Run the audit and return its exit status."""
    parser = argparse.ArgumentParser(prog="python -m tools.audit", description=__doc__)
    parser.add_argument("--service", action="store_true")
    parser.add_argument("--pip-audit", nargs=2, metavar=("PROGRAM", "URL"))
    options = parser.parse_args(args)
    if options.service:
        if url := find_service():
            print(url)
        return 0
    try:
        advisories = read_reviewed()
    except DamagedList as error:
        print(f"audit: {error}", file=sys.stderr)
        return 2
    if options.pip_audit:
        return run_pip_audit(*options.pip_audit, advisories)
    pins = read_locks(LOCKS)
    findings, harmless = compare(pins, advisories)
    for text in harmless:
        print(f"harmless: {text}")
    for text in findings:
        print(text)
    print(
        f"audit: {len(pins)} pins, {len(advisories)} reviewed advisories, of which {len(harmless)}"
        f" are present and harmless; {len(findings)} findings"
    )
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
