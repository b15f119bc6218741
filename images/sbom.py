"""Write the software bill of materials of an image: CycloneDX 1.6, as JSON.

    sbom.py STAGE LOCK... OUTPUT     in a build stage of the Dockerfile, after `environment.sh slim`

It lists the Python packages that are installed in /opt/venv, each of which a LOCK must pin, the
Debian packages of the base image, and Python. It needs Python's standard library only. The same
content gives the same file: there is no time in it.
"""

import email.parser
import json
import platform
import re
import sys
import uuid
from collections.abc import Iterator, Mapping, Sequence
from importlib.metadata import distributions
from pathlib import Path
from typing import Any
from urllib.parse import quote

SITE = Path("/opt/venv/lib")
DEBIAN = Path("/var/lib/dpkg/status.base")
"""The status file of the runtime stage, which has no build tools."""

SCHEMA = "http://cyclonedx.org/schema/bom-1.6.schema.json"
NAMESPACE = uuid.UUID("6d0b8d3e-31d1-4f6e-9d0e-4f8a2f1d3c55")
MAX_LICENSE_CHARACTERS = 200

Component = dict[str, Any]


class UnpinnedPackage(Exception):
    """An installed package is in none of the locks."""


def python_packages(site: Path, locks: str) -> Iterator[Component]:
    """Yield the packages that are installed in a folder.

    Raises:
        UnpinnedPackage: The locks have no such version.
    """
    pinned = {
        (_normal(name), version)
        for name, version in re.findall(r"^([\w.-]+)(?:\[[^]]*\])?==([^\s;\\]+)", locks, re.M)
    }
    found = {}
    for one in distributions(path=[str(site)]):
        name, version = _normal(one.metadata["Name"]), one.version
        if (name, version) not in pinned:
            raise UnpinnedPackage(f"{name} {version} is installed, but no lock pins it")
        found[name] = _component(name, version, f"pkg:pypi/{name}@{version}", one.metadata)
    for name in sorted(found):
        yield found[name]


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def debian_packages(status: str) -> Iterator[Component]:
    """Yield the installed packages in the text of dpkg's status file."""
    for paragraph in status.split("\n\n"):
        fields = email.parser.HeaderParser().parsestr(paragraph)
        if fields["Status"] != "install ok installed":
            continue
        name, version = fields["Package"], fields["Version"]
        path = f"{quote(name, safe='')}@{quote(version, safe='')}"
        query = f"?arch={fields['Architecture']}&distro=debian"
        yield _component(name, version, f"pkg:deb/debian/{path}{query}", {})


def _component(name: str, version: str, purl: str, metadata: Any) -> Component:
    component: Component = {
        "type": "library", "bom-ref": purl, "name": name, "version": version, "purl": purl,
    }  # fmt: skip
    if licenses := _licenses(metadata):
        component["licenses"] = licenses
    return component


def _licenses(metadata: Any) -> list[Component]:
    if expression := metadata.get("License-Expression"):
        return [{"expression": expression}]
    classifiers = metadata.get_all("Classifier", []) if metadata else []
    names = [one.rpartition(" :: ")[2] for one in classifiers if one.startswith("License :: ")]
    text = metadata.get("License") or ""
    if not names and text:
        names = [text.strip().splitlines()[0]]
    return [{"license": {"name": name[:MAX_LICENSE_CHARACTERS]}} for name in names]


def bill(stage: str, version: str, components: Sequence[Component]) -> Mapping[str, Any]:
    """Return the bill of an image.

    Args:
        stage: The stage of the Dockerfile: worker, worker-gpu, tensorboard or storage.
        version: The version of qfleet.
        components: What the image contains, in addition to qfleet.
    """
    image = {"type": "container", "bom-ref": f"qfleet-{stage}", "name": f"qfleet-{stage}",
             "version": version}  # fmt: skip
    own = _component("qfleet", version, f"pkg:pypi/qfleet@{version}", {})
    own["type"] = "application"
    contained = [own, *components]
    digest = uuid.uuid5(NAMESPACE, json.dumps([image, contained], sort_keys=True))
    return {
        "$schema": SCHEMA,
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{digest}",
        "version": 1,
        "metadata": {"component": image},
        "components": contained,
        "dependencies": [
            {"ref": image["bom-ref"], "dependsOn": [one["bom-ref"] for one in contained]}
        ],
    }


def main() -> None:
    """Write the bill of one image."""
    stage, *locks, output = sys.argv[1:]
    (site,) = SITE.glob("python3.*/site-packages")
    python = platform.python_version()
    components = [
        _component("python", python, f"pkg:generic/python@{python}", {}),
        *python_packages(site, "".join(Path(lock).read_text(encoding="utf-8") for lock in locks)),
        *debian_packages(DEBIAN.read_text(encoding="utf-8")),
    ]
    version = Path("VERSION").read_text(encoding="utf-8").strip()
    text = json.dumps(bill(stage, version, components), indent=1) + "\n"
    Path(output).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    try:
        main()
    except UnpinnedPackage as error:
        sys.exit(f"qfleet: {error}")
