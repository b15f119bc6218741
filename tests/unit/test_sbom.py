"""The bill of materials of an image."""

from pathlib import Path
from typing import Any

import pytest

from images.sbom import UnpinnedPackage, bill, debian_packages, python_packages

LOCK = """
tf-keras==2.18.0 ; python_version < '4' \\
    --hash=sha256:00
google-auth[urllib3]==2.62.2 \\
    --hash=sha256:00
"""
STATUS = """\
Package: libc6
Status: install ok installed
Architecture: amd64
Version: 2.36-9+deb12u10
Description: GNU C Library
 Version: not this one

Package: g++
Status: deinstall ok config-files
Architecture: amd64
Version: 4:12.2.0-3
"""


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """A folder with two installed packages."""
    for name, version, more in (
        ("tf_keras", "2.18.0", "Classifier: License :: OSI Approved :: Apache Software License\n"),
        ("google_auth", "2.62.2", "License-Expression: Apache-2.0\n"),
    ):
        folder = tmp_path / f"{name}-{version}.dist-info"
        folder.mkdir()
        text = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{more}"
        (folder / "METADATA").write_text(text)
    return tmp_path


def test_installed_packages_are_listed_with_licenses(site: Path):
    auth, keras = python_packages(site, LOCK)
    assert auth["purl"] == "pkg:pypi/google-auth@2.62.2"
    assert auth["licenses"] == [{"expression": "Apache-2.0"}]
    assert (keras["name"], keras["version"]) == ("tf-keras", "2.18.0")
    assert keras["licenses"] == [{"license": {"name": "Apache Software License"}}]


def test_package_that_the_lock_does_not_pin_is_refused(site: Path):
    with pytest.raises(UnpinnedPackage, match=r"^tf-keras 2.18.0 "):
        list(python_packages(site, LOCK.replace("2.18.0", "2.18.1")))


def test_installed_debian_packages_are_listed():
    (found,) = debian_packages(STATUS)
    assert found["purl"] == "pkg:deb/debian/libc6@2.36-9%2Bdeb12u10?arch=amd64&distro=debian"


def test_bill_refers_to_each_component_once(site: Path):
    components: list[Any] = [*python_packages(site, LOCK), *debian_packages(STATUS)]
    found = bill("worker", "1.2.3", components)
    references = [one["bom-ref"] for one in found["components"]]
    assert len(set(references)) == len(references) == 4
    (dependency,) = found["dependencies"]
    assert dependency == {"ref": "qfleet-worker", "dependsOn": references}
    assert found == bill("worker", "1.2.3", components)
    assert found["serialNumber"] != bill("worker", "1.2.4", components)["serialNumber"]
