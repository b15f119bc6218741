"""The public surface of qfleet as text: `python -m tools.public_surface [--check]`.

docs/public-surface.txt has the names and signatures of the public modules (docs/api.md), settings
and options with their defaults, exit codes, the files of a run, and the functions of qfleet.h. A
change of the surface is so seen in review. Modules are read by griffe, without being imported.
"""

import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import griffe

from common import errors
from common.errors import SettingsError, run_main
from common.settings import Settings
from common.settings.fields import SettingField
from common.settings.options import OPTIONS, option_fields

ROOT = Path(__file__).parents[1]
FILE = ROOT / "docs" / "public-surface.txt"
MODULES = (
    "qfleet",
    "qfleet.cirq",
    "qfleet.circuits",
    "qfleet.devices",
    "qfleet.jax",
    "qfleet.keras",
    "qfleet.kernels",
    "qfleet.kernels.estimators",
    "qfleet.pennylane",
    "qfleet.problems",
    "qfleet.pulses",
    "qfleet.search",
    "qfleet.service",
    "qfleet.tensorflow.layers",
    "qfleet.torch",
    "common.runs",
)


def main(args: Sequence[str] | None = None) -> int:
    """Write the file, or with --check compare it.

    Raises:
        SettingsError: The file is out of date.
    """
    text = "\n".join(surface()) + "\n"
    if "--check" not in (sys.argv[1:] if args is None else args):
        FILE.write_text(text, encoding="utf-8")
    elif FILE.read_text(encoding="utf-8") != text:
        raise SettingsError(
            f"the public surface differs from {FILE.name}: name what breaks in"
            " CHANGELOG.md, then run `.venv/bin/python -m tools.public_surface`"
        )
    return 0


def surface() -> Iterator[str]:
    """Yield the lines of the file."""
    loader = griffe.GriffeLoader(search_paths=[ROOT])
    for name in MODULES:
        loader.load(name.partition(".")[0])
    loader.resolve_aliases(external=False)
    for name in MODULES:
        yield f"module {name}"
        for export in sorted(str(one) for one in loader.modules_collection[name].exports or ()):
            item = loader.modules_collection[f"{name}.{export}"]
            yield from _lines(item[export] if item.is_module else item, export)
    yield from _settings("settings", Settings.fields().values())
    for program in OPTIONS:
        yield from _settings(f"options of {program}", option_fields(program).values())
    yield "exit codes"
    yield from sorted(_exit_codes())
    yield "files of a run"
    layout = (ROOT / "docs" / "run-layout.md").read_text(encoding="utf-8")
    table = layout.partition("\n\n`lease")[0]
    yield from (f"    {path}" for path in re.findall(r"^\| `([^`]+)`", table, re.MULTILINE))
    yield "functions of qfleet.h"
    header = (ROOT / "qfleet" / "native" / "qfleet.h").read_text(encoding="utf-8")
    for declaration in re.findall(r"^QFLEET_API ([^;]+);", header, re.MULTILINE):
        yield "    " + " ".join(declaration.split())


def _lines(item: griffe.Object | griffe.Alias, name: str) -> Iterator[str]:
    """Yield a name with its signature, and the public members of a class."""
    item = item.final_target if isinstance(item, griffe.Alias) else item
    if item.is_function:
        yield f"    {_signature(item, name)}"
    elif isinstance(item, griffe.Class):
        bases = ", ".join(map(str, item.bases))
        yield f"    class {name}({bases})" if bases else f"    class {name}"
        for member_name, member in sorted(item.all_members.items()):
            if member_name != "__init__" and member_name.startswith("_"):
                continue
            shown = _signature(member, member_name) if member.is_function else member_name
            yield f"        {shown}"
    else:
        yield f"    {name}"


def _signature(item: griffe.Object | griffe.Alias, name: str) -> str:
    function = item.final_target if isinstance(item, griffe.Alias) else item
    assert isinstance(function, griffe.Function)
    return " ".join(function.signature(name=name).split())


def _settings(title: str, fields: Iterable[SettingField]) -> Iterator[str]:
    yield title
    yield from (f"    {one.name.upper()} = {one.default!r}" for one in fields)


def _exit_codes() -> Iterator[str]:
    for name, item in vars(errors).items():
        if name.startswith("EXIT_") and isinstance(item, int):
            yield f"    {item:3} {name}"
        elif isinstance(item, type) and "exit_code" in vars(item):
            yield f"    {vars(item)['exit_code']:3} {name}"


if __name__ == "__main__":
    sys.exit(run_main(main))
