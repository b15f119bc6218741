"""The folder of a study: its layout, and the records of its trials.

STORAGE/studies/NAME/
  study.json            written first: what all starts of the study have in common, code version
  lease.json            the process that runs the study now (common/lease)
  trials/0000.json      one file per trial: written when it is proposed, and when it ends
  forecast.json         the planner's prediction, if it made one
  clock.json            seconds used by all starts, for BUDGET
  trials.csv, summary.csv, differences.csv, each also as .parquet; report.html; logs/
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from pydantic import TypeAdapter, ValidationError

from common import storage
from common.commands import command
from common.errors import RunError
from common.runs import Run
from common.storage import STUDIES, StoragePath
from studies import definition_file
from studies.axes import Combination
from studies.definition import StudyDefinition
from studies.forecast import StudyForecast

TrialState = Literal["proposed", "finished", "pruned", "failed"]


@dataclass(frozen=True)
class Trial:
    """The record of a trial.

    Attributes:
        number: From 0.
        combination: Values of the varied settings, as text.
        seed: SEED.
        run: Name of its run.
        state: proposed (it waits, runs or was interrupted), finished, pruned, or failed.
        metrics: Metrics by split and name; those of a pruned trial are its best ones until then.
        epochs: Epochs of a finished trial; those of a pruned one until it was compared.
        seconds: Training time of these epochs, for a finished trial without earlier attempts.
        rung_values: Values of METRIC by rung, which EARLY_STOPPING compared; None for NaN.
        exit_code: That of a failed trial.
        error: Why it failed.
    """

    number: int
    combination: Combination
    seed: int
    run: str
    state: TrialState = "proposed"
    metrics: dict[str, dict[str, float | None]] = field(default_factory=dict)
    epochs: int = 0
    seconds: float | None = None
    exit_code: int = 0
    error: str = ""
    rung_values: tuple[float | None, ...] = ()


@dataclass
class Clock:
    """Seconds that all starts of a study used.

    Attributes:
        wall: Wall time.
        worker: Time of workers, summed over all of them.
    """

    wall: float = 0.0
    worker: float = 0.0


_TRIAL = TypeAdapter(Trial)
_CLOCK = TypeAdapter(Clock)
_FORECAST = TypeAdapter(StudyForecast)


class StudyFolder:
    """The files of a study.

    Args:
        root: STORAGE.
        name: Name of the study.
    """

    def __init__(self, root: StoragePath, name: str) -> None:
        self.root, self.name = root, name
        self.path = root / STUDIES / name

    def exists(self) -> bool:
        """Return True if the study was started."""
        return storage.is_file(self.path / "study.json")

    def open(self, definition: StudyDefinition) -> None:
        """Write study.json, unless it exists.

        Args:
            definition: The study of this start.

        Raises:
            RunError: The folder holds another study, or study.json is damaged.
        """
        data = definition_file.encode({"study": self.name}, definition.to_json())
        if not self.exists() and storage.create_exclusive(self.path / "study.json", data):
            return
        self.require_same(definition)

    def require_same(self, definition: StudyDefinition) -> None:
        """Check that study.json has the same definition, if it exists.

        Args:
            definition: The study of this start.

        Raises:
            RunError: The folder holds another study, or study.json is damaged.
        """
        if not self.exists():
            return
        wanted, found = definition.to_json(), self.read()
        if found.get("format") != wanted["format"]:
            raise RunError(
                f"study {self.name} has format {str(found.get('format'))[:20]} and this version of"
                f" qfleet reads format {wanted['format']}: choose another NAME"
            )
        changed = _differences(found, wanted)
        if changed:
            raise RunError(
                f"{self.path} holds a study with {changed}: use the same settings to continue it,"
                " or choose another NAME"
            )

    def read(self) -> dict[str, Any]:
        """Return the content of study.json.

        Raises:
            RunError: The study does not exist, or the file is damaged.
        """
        missing = (
            f"there is no study {self.name} in {self.root}: start it with"
            f" `{command('study')} NAME={self.name}`"
        )
        return definition_file.read(self.path / "study.json", missing)

    def trials(self) -> dict[int, Trial]:
        """Return all recorded trials by number.

        Raises:
            RunError: A record is damaged.
        """
        found = {}
        for path in storage.children(self.path / "trials"):
            trial = self._load(path, _TRIAL)
            found[trial.number] = trial
        return dict(sorted(found.items()))

    def write(self, trial: Trial) -> None:
        """Write the record of a trial."""
        storage.write_json(self.path / "trials" / f"{trial.number:04d}.json", asdict(trial))

    def clock(self) -> Clock:
        """Return the used time."""
        try:
            return self._load(self.path / "clock.json", _CLOCK)
        except FileNotFoundError:
            return Clock()

    def write_clock(self, clock: Clock) -> None:
        """Write the used time."""
        storage.write_json(self.path / "clock.json", asdict(clock))

    def forecast(self) -> StudyForecast | None:
        """Return the planner's prediction that the first start recorded, if it made one."""
        try:
            forecast: StudyForecast = self._load(self.path / "forecast.json", _FORECAST)
        except FileNotFoundError:
            return None
        return forecast

    def write_forecast(self, forecast: StudyForecast) -> None:
        """Write the planner's prediction."""
        storage.write_json(self.path / "forecast.json", asdict(forecast))

    def run(self, trial: Trial) -> Run:
        """Return the run of a trial."""
        return Run.at(self.root, trial.run)

    def _load(self, path: StoragePath, adapter: TypeAdapter[Any]) -> Any:
        try:
            content = storage.read_json(path)
            return adapter.validate_python(content)
        except ValidationError as error:
            place = ".".join(map(str, error.errors()[0]["loc"])) or "its content"
            reason = f"{place} has a value that is not allowed"
        except ValueError as error:
            reason = str(error)
        raise RunError(f"{path} is damaged: {reason}; delete the file to repeat what it records")


def _differences(found: Mapping[str, Any], wanted: Mapping[str, Any]) -> str:
    """Return what differs between two definitions, as text; empty if nothing does."""
    changes = [
        f"{name.upper()}={_shown(found.get(name))} (now {_shown(wanted.get(name))})"
        for name in (
            "search",
            "seeds",
            "metric",
            "early_stopping",
            "reduction_factor",
            "min_epochs",
        )
        if found.get(name) != wanted.get(name)
    ]
    for part in ("axes", "fixed"):
        before, now = found.get(part) or {}, wanted[part]
        changes += [
            f"{name.upper()}={_shown(before.get(name))} (now {_shown(now.get(name))})"
            for name in sorted({*before, *now})
            if before.get(name) != now.get(name)
        ]
    return ", ".join(changes)


def _shown(value: Any) -> str:
    if isinstance(value, dict):
        return _shown(value.get("values", [f"{value.get('low')}..{value.get('high')}"]))
    if isinstance(value, list):
        return ",".join(map(str, value))[:100]
    return "unset" if value is None else str(value)[:100]
