"""Contents of the files of a run, and checks of files that another user may have written.

The types name the fields that programs read. Other fields are allowed.
"""

from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, NotRequired

from annotated_types import Ge, Gt, Le, MaxLen, MinLen
from pydantic import AfterValidator, StringConstraints, TypeAdapter
from typing_extensions import TypedDict  # pydantic needs it before Python 3.12

from common import safe_json
from common.settings import Settings

MAX_TEXT = 1 << 15
"""Most characters of a recorded setting or name."""

CLOCK_TOLERANCE = timedelta(days=1)
"""Largest difference between the clocks of two machines."""

_TIME_FORMAT = "%Y-%m-%dT%H:%M:%SZ"


def _require_scalar(value: object) -> object:
    if value is not None and not isinstance(value, str | int | float):
        raise ValueError("a text, a number, true, false or null")
    if isinstance(value, str) and len(value) > MAX_TEXT:
        raise ValueError(f"a text of at most {MAX_TEXT} characters")
    return value


_Text = Annotated[str, MaxLen(MAX_TEXT)]
_Value = Annotated[object, AfterValidator(_require_scalar)]
_Values = Annotated[dict[_Text, _Value], MaxLen(1000)]
_Count = Annotated[int, Ge(0), Le(10**12)]
_Metric = Annotated[float, Ge(-1e30), Le(1e30)] | None
_SplitMetrics = Annotated[dict[_Text, _Metric], MaxLen(100)]  # the loss is the first
_Pair = Annotated[list[_Count], MinLen(2), MaxLen(2)]
_Sha256 = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
_Names = Annotated[list[_Text], MaxLen(1_000_000)]


class RunRecord(TypedDict):
    """run.json."""

    format: int
    settings: _Values
    other: _Values
    fingerprint: _Text
    data: _Text
    created: _Text
    versions: NotRequired[Annotated[dict[_Text, _Text], MaxLen(1000)]]


class WeightsRecord(TypedDict):
    """Digest of weights.h5."""

    sha256: _Sha256


class BestRecord(WeightsRecord):
    """The weights of the best epoch."""

    epoch: _Count
    step: _Count
    validation_loss: _Metric


class PrunedRecord(TypedDict):
    """Angles that pruning dropped, of all trained angles."""

    dropped: _Count
    angles: _Count


class RunResult(TypedDict):
    """result.json."""

    metrics: Annotated[dict[_Text, _SplitMetrics], MaxLen(100)]
    epochs: _Count
    seconds: NotRequired[_Metric]
    device: NotRequired[_Text]
    weights: WeightsRecord
    best: NotRequired[BestRecord]
    pruned: NotRequired[PrunedRecord]
    finished: _Text


class WeightsResult(TypedDict):
    """result.json next to weights outside of a run."""

    weights: WeightsRecord
    metrics: NotRequired[Annotated[dict[_Text, _SplitMetrics], MaxLen(100)]]
    pruned: NotRequired[PrunedRecord]


class CircuitRecord(TypedDict):
    """A circuit in model.json."""

    name: _Text
    circuit: str | None
    inputs: _Names
    parameters: _Names
    readouts: Annotated[list[str], MaxLen(1_000_000)]
    trained: dict[str, Annotated[float, Ge(-1e30), Le(1e30)]]


class EncodingRecord(TypedDict):
    """The encoding in model.json; `Encoding.from_json` checks the rest."""

    placement: _Text


class ModelRecord(TypedDict):
    """model.json."""

    settings: _Values
    features: Annotated[int, Ge(1), Le(1_000_000)]
    encoding: EncodingRecord
    weights: list[Annotated[list[_Count], MaxLen(32)]]
    bandwidth: NotRequired[Annotated[float, Gt(0), Le(1e3)]]
    contraction_paths: NotRequired[dict[_Sha256, list[_Pair]]]
    circuits: Annotated[list[CircuitRecord], MaxLen(10_000)]
    source: Annotated[dict[_Text, _Sha256 | None], MaxLen(32)] | None


_RECORD = TypeAdapter(RunRecord)
_RESULT = TypeAdapter(RunResult)
_ROW = TypeAdapter(_Values)
_NUMBER = TypeAdapter(_Metric)
_EPOCH = TypeAdapter(Annotated[int, Ge(0), Le(10**7)])
_MODEL = TypeAdapter(ModelRecord)
_DIGEST = TypeAdapter(WeightsResult)


def check_record(content: object) -> None:
    """Check run.json.

    Raises:
        ValueError: A field is missing or wrong; the end of a sentence, as `safe_json.check`.
    """
    settings_of(safe_json.check(content, _RECORD)["settings"])


def check_result(content: object) -> None:
    """Check result.json; raises like `check_record`."""
    result = safe_json.check(content, _RESULT)
    finish_time(result)


def check_weights_result(content: object) -> None:
    """Check a result.json next to weights outside of a run; raises like `check_record`."""
    safe_json.check(content, _DIGEST)


def check_row(content: object) -> None:
    """Check a line of metrics.jsonl: the epoch, and numbers; raises like `check_record`."""
    row = safe_json.check(content, _ROW)
    for value in row.values():
        if isinstance(value, int | float):
            safe_json.check(value, _NUMBER)
    if "epoch" in row:
        safe_json.check(row["epoch"], _EPOCH)


def check_model(content: object) -> None:
    """Check model.json; raises like `check_record`."""
    settings = safe_json.check(content, _MODEL)["settings"]
    if missing := {"model", "qubits", "data"} - settings.keys():
        raise ValueError(f"it lacks settings.{min(missing)}")
    settings_of(settings)


def settings_of(recorded: Mapping[str, object]) -> Settings:
    """Return recorded settings as such.

    Raises:
        ValueError: A setting has a value or a type that it can't have.
    """
    try:
        settings = Settings.from_record(recorded)
    except ValueError as error:
        details: Callable[[], list[Any]] = getattr(error, "errors", list)
        names = [str(part) for one in details() for part in one["loc"]][:1]
        raise ValueError(
            f"its setting {names[0]} has a value that is not allowed"
            if names
            else f"its settings contradict each other ({error})"
        ) from None
    for name in sorted(Settings.fields().keys() & recorded.keys()):
        found, allowed = recorded[name], settings.get(name)
        same = type(found) is type(allowed) or (type(found), type(allowed)) == (int, float)
        if not same and not (name == "initialization_epochs" and found == 0):
            raise ValueError(f"its setting {name} has a value of a wrong type")
    return settings


def finish_time(result: Mapping[str, Any]) -> datetime:
    """Return the time when a run finished.

    Raises:
        ValueError: It is not a time, or in the future.
    """
    return time_of(result["finished"], "finished")


def time_of(text: str, name: str) -> datetime:
    """Return a recorded time.

    Args:
        text: UTC, ISO 8601.
        name: Name of the field, for the message.

    Raises:
        ValueError: It is not a time, or in the future.
    """
    try:
        when = datetime.strptime(text, _TIME_FORMAT).replace(tzinfo=UTC)
    except ValueError:
        raise ValueError(f"{name} is not a time such as 2026-01-31T12:00:00Z") from None
    if when > datetime.now(UTC) + CLOCK_TOLERANCE:
        raise ValueError(f"{name} is a time in the future")
    return when
