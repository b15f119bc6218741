"""The folder of a search: its layout.

STORAGE/searches/NAME/
  search.json               written first: what all starts have in common, code version
  lease.json                the process that searches now (common/lease)
  seed-0.jsonl              history of a seed: a line of JSON for each circuit that was trained
  seed-0.pruned-2.jsonl     the same, without gates of the circuit that has two gates of the space
  seed-0.json               seconds of each history, for BUDGET
  front.json, report.html   the Pareto front of all seeds
  circuits/                 each circuit of the front: Cirq JSON, OpenQASM, a drawing, and for MODEL
"""

from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from common import safe_json, storage
from common.commands import command
from common.errors import RunError
from common.settings import Settings
from common.storage import SEARCHES, StoragePath
from qfleet.devices.calibration import short_name
from studies import definition_file
from studies.search.definition import OPTIONAL, SearchDefinition

_SECONDS = TypeAdapter(dict[str, float])


class SearchFolder:
    """The files of a search.

    Args:
        root: STORAGE.
        name: Name of the search.
    """

    def __init__(self, root: StoragePath, name: str) -> None:
        self.name = name
        self.path = root / SEARCHES / name
        self.circuits = self.path / "circuits"

    @property
    def models(self) -> Path:
        """The folder with the files for MODEL: that of a bucket has a copy on this machine."""
        if isinstance(self.circuits, Path):
            return self.circuits
        here = str(Settings.fields()["storage"].default)
        return Path(here, SEARCHES, self.name, self.circuits.name)

    def open(self, definition: SearchDefinition) -> None:
        """Write search.json, unless there is a history already.

        Args:
            definition: The search of this start.

        Raises:
            RunError: The folder holds another search, or search.json is damaged.
        """
        data = definition_file.encode({"search": self.name}, definition.to_json())
        if self._has_history():
            self.require_same(definition)
        else:
            storage.write_atomic(self.path / "search.json", data)

    def require_same(self, definition: SearchDefinition) -> None:
        """Check that search.json has the same definition, if there is a history.

        Args:
            definition: The search of this start.

        Raises:
            RunError: The folder holds another search, or search.json is damaged.
        """
        if not self._has_history():
            return
        found, wanted = self.read(), definition.to_json()
        names = dict.fromkeys((*wanted, *OPTIONAL))
        changed = [name for name in names if found.get(name) != wanted.get(name)]
        if changed:
            before, now = (_setting(changed[0], one.get(changed[0])) for one in (found, wanted))
            raise RunError(
                f"{self.path} holds a search with {before} (now {now}): use the same settings to"
                " continue it, or choose another NAME"
            )

    def read(self) -> dict[str, Any]:
        """Return the content of search.json.

        Raises:
            RunError: It is missing or damaged.
        """
        path = self.path / "search.json"
        start = f"`{command('search')} NAME={self.name}`"
        return definition_file.read(path, f"there is no {path}: start the search with {start}")

    def history(self, seed: int, stage: str) -> StoragePath:
        """Return the file of the history of a seed and one of its stages."""
        return self.path / f"seed-{seed}{'.' * bool(stage)}{stage}.jsonl"

    def seconds(self, seed: int) -> dict[str, float]:
        """Return the seconds of a seed that earlier starts used, by stage.

        Raises:
            RunError: The file is damaged.
        """
        path = self._clock(seed)
        try:
            return safe_json.check(storage.read_json(path), _SECONDS)
        except FileNotFoundError:
            return {}
        except ValueError as error:
            raise RunError(f"{path} is damaged: {error}; delete it to count from 0") from None

    def write_seconds(self, seed: int, seconds: dict[str, float]) -> None:
        """Write the seconds that a seed used, by stage."""
        storage.write_json(self._clock(seed), seconds)

    def _has_history(self) -> bool:
        """Return True if a circuit was trained; a search that was refused has none."""
        return any(path.name.endswith(".jsonl") for path in storage.children(self.path))

    def _clock(self, seed: int) -> StoragePath:
        return self.path / f"seed-{seed}.json"


def _setting(name: str, value: object) -> str:
    """Return a key of search.json as the setting that is written."""
    if name == "reduction_factor":
        early = f"EARLY_STOPPING=halving and REDUCTION_FACTOR={value}"
        return early if value else "EARLY_STOPPING=none"
    if not value:
        return f"no {name.upper()}"
    text = short_name(str(value)) if name == "noise" else str(value)
    return f"{name.upper()}={text[:80]}"
