"""HParams of TensorBoard: the settings and metrics of each trial, as events in logs/.

The page reads one folder per trial, with its settings, the end of its session and its metrics.
"""

import tempfile
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from tensorboard.compat.proto.event_pb2 import Event
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.plugins.hparams import metadata
from tensorboard.plugins.hparams.api_pb2 import STATUS_FAILURE, STATUS_SUCCESS, STATUS_UNKNOWN
from tensorboard.plugins.hparams.plugin_data_pb2 import HParamsPluginData, SessionEndInfo
from tensorboard.plugins.hparams.summary_v2 import (
    Discrete,
    HParam,
    Metric,
    RealInterval,
    hparams_config_pb,
    hparams_pb,
)
from tensorboard.plugins.scalar.summary_v2 import scalar_pb
from tensorboard.summary.writer.record_writer import RecordWriter

from common import storage
from common.storage import StoragePath
from studies.folder import Trial

MAX_DISCRETE = 50
"""Different numbers of a setting up to which TensorBoard lists them; it shows others as a range."""

_STATUS = {"finished": STATUS_SUCCESS, "failed": STATUS_FAILURE, "pruned": STATUS_UNKNOWN}
"""Status of a session by the state of its trial; TensorBoard has none for pruned trials."""

_FORMAT = "brain.Event:2"


def write_hparams(folder: StoragePath, trials: Iterable[Trial]) -> None:
    """Write the events of all trials that ended; earlier files are replaced.

    Args:
        folder: Folder of the events, of which TensorBoard shows any parent.
        trials: The recorded trials.
    """
    ended = [trial for trial in trials if trial.state != "proposed"]
    if not ended:
        return
    names = list(dict.fromkeys(name for one in ended for name in one.combination))
    tags = list(dict.fromkeys(tag for one in ended for tag in _scalars(one)))
    columns = {name: _numbers_or_texts([one.combination[name] for one in ended]) for name in names}
    columns["seed"] = [one.seed for one in ended]
    params = [HParam(name, _domain(values)) for name, values in columns.items()]
    _write(folder / "study", [hparams_config_pb(params, [Metric(tag) for tag in tags])])
    for number, trial in enumerate(ended):
        values = {name: column[number] for name, column in columns.items()}
        _write(folder / trial.run, _session(trial, values))


def _numbers_or_texts(texts: list[str]) -> list[Any]:
    try:
        return [float(text) for text in texts]
    except ValueError:
        return list(texts)


def _domain(values: list[Any]) -> Discrete | RealInterval:
    distinct = sorted(set(values))
    if len(distinct) <= MAX_DISCRETE or isinstance(distinct[0], str):
        return Discrete(distinct)
    return RealInterval(float(distinct[0]), float(distinct[-1]))


def _session(trial: Trial, values: dict[str, Any]) -> list[Summary]:
    start = hparams_pb(values, trial_id=trial.run)
    data = HParamsPluginData(session_end_info=SessionEndInfo(status=_STATUS[trial.state]))
    end = Summary()
    end.value.add(
        tag=metadata.SESSION_END_INFO_TAG,
        metadata=metadata.create_summary_metadata(data),
        tensor=metadata.NULL_TENSOR,
    )
    return [start, *(scalar_pb(tag, value) for tag, value in _scalars(trial).items()), end]


def _scalars(trial: Trial) -> dict[str, float]:
    """Return the metrics of the test and the validation split, and the epochs, by tag."""
    epochs = {"epochs": float(trial.epochs)} if trial.epochs else {}
    metrics = {
        f"{split}/{name}": value
        for split in ("test", "validation")
        for name, value in trial.metrics.get(split, {}).items()
        if value is not None
    }
    return metrics | epochs


def _write(folder: StoragePath, summaries: Iterable[Summary]) -> None:
    """Write a file of events; its name has no time, so that it replaces an earlier one."""
    with tempfile.TemporaryDirectory(prefix="qfleet-") as scratch:
        path = Path(scratch, "events")
        with path.open("wb") as file:
            records = RecordWriter(file)
            for event in (
                Event(file_version=_FORMAT),
                *(Event(summary=summary) for summary in summaries),
            ):
                event.wall_time = time.time()
                records.write(event.SerializeToString())
            records.flush()
        name = "events.out.tfevents.0000000000.study"
        storage.write_atomic(folder / name, path.read_bytes())
