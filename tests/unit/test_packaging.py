"""The wheel's extras against the dependency groups that checkouts and images have."""

import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
EXTRAS = PROJECT["project"]["optional-dependencies"]
GROUPS = PROJECT["dependency-groups"]
BUILD = {"cmake", "ninja"}
"""Packages that build the native libraries, which the wheel has."""
INDIRECT = {"cotengra", "cotengrust", "openfermion", "pyscf"}
"""Packages of the worker that extras of the library name, with lower bounds."""
OTHER_DISTRIBUTION = {"tensorflow"}
"""Packages of the extra for platforms that the group's locks do not have."""


def name_of(requirement: str) -> str:
    return re.split(r"[^A-Za-z0-9_.-]", requirement)[0].lower()


def by_name(requirements: list[object]) -> dict[str, str]:
    return {name_of(one): one for one in requirements if isinstance(one, str)}


@pytest.mark.parametrize(
    ("extra", "group"),
    [("train", "worker"), ("cluster", "launch"), ("tensorboard", "tensorboard"),
     ("devices", "devices"), ("studies", "studies"), ("mlflow", "mlflow")],
)  # fmt: skip
def test_extra_has_the_packages_and_versions_of_its_group(extra: str, group: str) -> None:
    found, wanted = by_name(EXTRAS[extra]), by_name(GROUPS[group])
    # Bounds that serve another group only, and packages that come with others.
    kept = {name: one for name, one in wanted.items() if name not in BUILD | INDIRECT}
    kept = {name: one for name, one in kept.items() if "<" not in one}
    assert kept.items() <= found.items()
    others = found.keys() - wanted.keys() - OTHER_DISTRIBUTION - {"qfleet", "click", "rich"}
    assert not others


def test_extras_of_the_library_serve_the_service() -> None:
    named = {name_of(one) for extra in ("chemistry", "network") for one in EXTRAS[extra]}
    assert named == INDIRECT
    assert "qfleet[chemistry,network]" in EXTRAS["train"]


def test_each_folder_of_the_service_is_in_the_wheel() -> None:
    packages = dict(PROJECT["tool"]["scikit-build"]["wheel"]["packages"])
    del packages["qfleet"]
    assert packages == {f"qfleet/_service/{place}": place for place in packages.values()}
    roots = {"chaos", "tests", "tools", "qfleet"}
    folders = {path.parent.name for path in ROOT.glob("*/__init__.py")} - roots
    assert folders | {"k8s"} == set(packages.values())
