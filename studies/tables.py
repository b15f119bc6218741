"""Tables of a study: its trials, the mean of each combination, and differences between them.

Intervals are 95 % t intervals of the mean over seeds. A difference is paired: it uses the seeds
that both combinations have.
"""

import contextlib
import io
import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from common import storage
from common.errors import SettingsError
from common.metrics import is_higher_better
from common.storage import StoragePath
from common.text import did_you_mean
from studies.axes import Combination
from studies.folder import Trial

MAX_PAIRS_OF = 20
"""Combinations up to which all pairs are compared; of more, each is compared with the best one."""

CONFIDENCE = 0.95
SPLITS = ("test", "validation")


@dataclass(frozen=True)
class Interval:
    """The mean of some numbers, and its 95 % interval.

    The interval is NaN for fewer than two numbers and for equal ones, which show no spread.
    """

    count: int
    mean: float
    low: float
    high: float


@dataclass(frozen=True)
class StudyTables:
    """The result of a study.

    Attributes:
        metric: The metric of differences and plots.
        trials: One row per recorded trial.
        summary: One row per combination with finished trials, then those with pruned trials only;
            means are over finished trials.
        differences: One row per pair of combinations, of the test split's metric.
        best: Row number of the combination that is best by the validation split, of those with the
            fewest pruned trials; None without one.
    """

    metric: str
    trials: pd.DataFrame
    summary: pd.DataFrame
    differences: pd.DataFrame
    best: int | None


def mean_interval(values: Sequence[float]) -> Interval:
    """Return the mean with its t interval, which is right for few numbers, too."""
    numbers = np.asarray(values, float)
    count = len(numbers)
    mean = float(numbers.mean()) if count else np.nan
    if count < 2 or np.allclose(numbers, numbers[0], rtol=1e-9, atol=1e-12):
        return Interval(count, mean, np.nan, np.nan)
    from scipy import special

    quantile = special.stdtrit(count - 1, (1 + CONFIDENCE) / 2)
    half = float(quantile * numbers.std(ddof=1) / np.sqrt(count))
    return Interval(count, mean, mean - half, mean + half)


def make_tables(trials: Iterable[Trial], metric: str = "") -> StudyTables:
    """Compute all tables.

    Args:
        trials: All recorded trials.
        metric: METRIC; the loss if empty.

    Raises:
        SettingsError: The trials have no such metric.
    """
    ordered = sorted(trials, key=lambda trial: trial.number)
    finished = [trial for trial in ordered if trial.state == "finished"]
    metric = _metric(finished, metric)
    groups, pruned = _grouped(finished), _grouped(one for one in ordered if one.state == "pruned")
    members = list(groups.values())
    best = _best(members, [len(pruned.get(key, ())) for key in groups], metric)
    rows, combinations = [], []
    for key in [*groups, *(key for key in pruned if key not in groups)]:
        combinations.append((groups.get(key) or pruned[key])[0].combination)
        counts = {"trials": len(groups.get(key, ()))}
        if pruned:
            counts["pruned"] = len(pruned.get(key, ()))
        rows.append({**combinations[-1], **counts, **_means(groups.get(key, ()))})
    pairs = _pairs(len(members), best)
    differences = [_difference_row(members[i], members[j], metric) for i, j in pairs]
    return StudyTables(
        metric,
        _frame([_trial_row(trial) for trial in ordered], [one.combination for one in ordered]),
        _frame(rows, combinations),
        pd.DataFrame(differences),
        best,
    )


def write_tables(tables: StudyTables, folder: StoragePath) -> None:
    """Write each table as CSV and as Parquet."""
    for name in ("trials", "summary", "differences"):
        table: pd.DataFrame = getattr(tables, name)
        content = io.BytesIO()
        table.to_parquet(content, index=False)
        storage.write_atomic(folder / f"{name}.parquet", content.getvalue())
        storage.write_atomic(folder / f"{name}.csv", table.to_csv(index=False))


def label(combination: Mapping[str, str]) -> str:
    """Return a combination as text, such as `MODEL=qcnn QUBITS=8`."""
    text = " ".join(f"{name.upper()}={value}" for name, value in combination.items())
    return text or "all trials"


def value_of(trial: Trial, split: str, metric: str) -> float:
    """Return a metric of a trial; NaN if it has none."""
    value = trial.metrics.get(split, {}).get(metric)
    return float("nan") if value is None else float(value)


def _metric(finished: Sequence[Trial], wanted: str) -> str:
    known = list(dict.fromkeys(name for one in finished for name in one.metrics.get("test", {})))
    if wanted and known and wanted not in known:
        raise SettingsError(
            f"METRIC={wanted} is not a metric of these trials: set one of {', '.join(known)}, and"
            " run the same command again" + did_you_mean(wanted, known)
        )
    return wanted or (known[0] if known else "loss")


def _names(trials: Sequence[Trial], split: str) -> list[str]:
    return list(dict.fromkeys(name for one in trials for name in one.metrics.get(split, {})))


def _trial_row(trial: Trial) -> dict[str, object]:
    metrics = {
        f"{split} {name}": value_of(trial, split, name)
        for split in SPLITS
        for name in trial.metrics.get(split, {})
    }
    return {
        "trial": trial.number, "run": trial.run, "state": trial.state, **trial.combination,
        "seed": trial.seed, **metrics, "trained epochs": trial.epochs, "seconds": trial.seconds,
        "error": trial.error,
    }  # fmt: skip


def _grouped(trials: Iterable[Trial]) -> dict[tuple[str, ...], list[Trial]]:
    groups: dict[tuple[str, ...], list[Trial]] = {}
    for trial in trials:
        groups.setdefault(tuple(trial.combination.values()), []).append(trial)
    return groups


def _means(group: Sequence[Trial]) -> dict[str, object]:
    row: dict[str, object] = {}
    for split in SPLITS:
        for name in _names(group, split):
            values = [v for one in group if np.isfinite(v := value_of(one, split, name))]
            found = mean_interval(values)
            column = f"{split} {name}"
            row |= {
                f"{column} mean": found.mean,
                f"{column} low": found.low,
                f"{column} high": found.high,
            }
    return row


def _difference_row(
    left: Sequence[Trial], right: Sequence[Trial], metric: str
) -> dict[str, object]:
    """Return the difference right - left over their common seeds."""
    values: list[dict[int, float]] = [
        {one.seed: value_of(one, "test", metric) for one in group} for group in (left, right)
    ]
    paired = [values[1][seed] - number for seed, number in values[0].items() if seed in values[1]]
    found = mean_interval([number for number in paired if np.isfinite(number)])
    return {
        "from": label(left[0].combination),
        "to": label(right[0].combination),
        "metric": f"test {metric}",
        "seeds": found.count,
        "difference": found.mean,
        "low": found.low,
        "high": found.high,
    }


def _best(members: Sequence[Sequence[Trial]], pruned: Sequence[int], metric: str) -> int | None:
    """Return the number of the best one; seeds that were not pruned are no random choice."""
    means = [np.mean([value_of(one, "validation", metric) for one in group]) for group in members]
    known = [number for number, mean in enumerate(means) if np.isfinite(mean)]
    sign = -1 if is_higher_better(metric) else 1
    return min(known, key=lambda number: (pruned[number], sign * means[number]), default=None)


def _pairs(count: int, best: int | None) -> list[tuple[int, int]]:
    if count <= MAX_PAIRS_OF:
        return list(itertools.combinations(range(count), 2))
    return [(best, other) for other in range(count) if other != best] if best is not None else []


def _frame(
    rows: Sequence[Mapping[str, object]], combinations: Sequence[Combination]
) -> pd.DataFrame:
    """Return a table; a column of a varied setting has numbers if all its values are numbers."""
    table = pd.DataFrame(rows)
    for name in combinations[0] if combinations else ():
        with contextlib.suppress(ValueError):
            table[name] = pd.to_numeric(table[name])
    return table
