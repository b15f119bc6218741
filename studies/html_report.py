"""report.html of a study: one self-contained page, in the style of a run's report."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from common.metrics import is_higher_better, number
from common.text import plural
from inference.html_text import page
from studies import plots
from studies.console import interval, metric_cell
from studies.definition import StudyDefinition
from studies.folder import StudyFolder, Trial
from studies.forecast import duration
from studies.pruning import describe
from studies.tables import StudyTables, label

TEMPLATE = Path(__file__).with_name("study_report.html")
MAX_ROWS = 100


def render(folder: StudyFolder, definition: StudyDefinition, tables: StudyTables) -> str:
    """Return the page.

    Args:
        folder: The study's folder.
        definition: The study.
        tables: Its tables.
    """
    trials = list(folder.trials().values())
    failed = [trial for trial in trials if trial.state == "failed"]
    pruned = [trial for trial in trials if trial.state == "pruned"]
    finished = _finished(trials)
    differences = tables.differences.to_dict("records")
    return page(
        TEMPLATE,
        heading=f"Study {folder.name}",
        lead=(
            f"{plural(len(tables.summary), 'combination')} of settings, trained with"
            f" {plural(len(definition.seeds), 'seed')}"
        ),
        warnings=failed and [f"{plural(len(failed), 'trial')} failed; see the end of the page."],
        cards=_headline(folder, definition, tables, trials),
        footer=f"Created by qfleet from {folder.path}",
        tables=tables,
        facts=_facts(folder.read(), definition),
        summary=_summary(tables),
        differences=[
            [row["from"], row["to"], row["seeds"],
             interval(tables.metric, row["difference"], row["low"], row["high"])]
            for row in differences
        ],
        clear=[i for i, row in enumerate(differences) if row["low"] > 0 or row["high"] < 0],
        metric_plots=_metric_plots(definition, tables),
        combinations=len(finished),
        curves=_curves(folder, tables, finished),
        learning_curves=plots.learning_curves,
        pruned=[[one.run, label(one.combination), one.seed, describe(one)] for one in pruned],
        failed=[[one.run, label(one.combination), one.exit_code, one.error] for one in failed],
        most=MAX_ROWS,
    )  # fmt: skip


def _headline(
    folder: StudyFolder, definition: StudyDefinition, tables: StudyTables, trials: Sequence[Trial]
) -> list[tuple[str, str, str]]:
    finished = sum(trial.state == "finished" for trial in trials)
    pruned = sum(trial.state == "pruned" for trial in trials)
    clock, forecast = folder.clock(), folder.forecast()
    price = definition.options.price_per_worker_hour
    planned = f"predicted {duration(forecast.wall)}" if forecast else "not predicted"
    hours = clock.worker / 3600
    cards = [
        (
            "finished trials",
            str(finished),
            f"of {definition.trial_count}" + (f", {pruned} pruned" if pruned else ""),
        ),
        ("wall time", duration(clock.wall), planned),
        ("hours of workers", f"{hours:.3g}", f"cost {hours * price:.2f}" if price else "no price"),
    ]
    if tables.best is not None:
        row = tables.summary.astype(object).iloc[tables.best]
        name = f"test {tables.metric}"
        mean = float(row[f"{name} mean"])
        cards.insert(1, (f"{name}, best by validation", number(tables.metric, mean), _label(row)))
    return cards


def _label(row: Any) -> str:
    """Return the settings of a row of the summary, which are before the number of trials."""
    names = list(row.keys())
    return label({name: str(row[name]) for name in names[: names.index("trials")]})


def _facts(
    study: dict[str, Any], definition: StudyDefinition
) -> list[tuple[str, list[tuple[str, Any]]]]:
    """Return titled lists of facts; a fact whose value is None is left out."""
    lineage = study.get("lineage", {})
    axes = [(axis.name.upper(), ", ".join(axis.ends)) for axis in definition.axes]
    fixed = [(name.upper(), value) for name, value in study.get("fixed", {}).items()]
    seeds = ", ".join(map(str, definition.seeds))
    pruner = [
        (name, study[name])
        for name in ("early_stopping", "reduction_factor", "min_epochs")
        if name in study
    ]
    return [
        ("Varied", [*axes, ("SEED", seeds), ("search", definition.search), *pruner]),
        ("Equal for all", fixed or [("settings", "defaults")]),
        ("Origin", [("started", study.get("created")), *lineage.items()]),
    ]


def _summary(tables: StudyTables) -> tuple[list[str], list[list[str]]]:
    """Return headings and rows of the means."""
    frame = tables.summary
    if not len(frame):
        return [], []
    settings = list(frame.columns[: list(frame.columns).index("trials")])
    metrics = [
        name.removesuffix(" mean")
        for name in frame.columns
        if name.startswith("test ") and name.endswith(" mean")
    ]
    names = [f"test {tables.metric}", f"validation {tables.metric}"]
    metrics = [*metrics, *(name for name in names if name not in metrics)]
    metrics = [name for name in metrics if f"{name} mean" in frame.columns]
    rows = [
        [*(str(row[name]) for name in settings), *(metric_cell(row, name) for name in metrics)]
        for row in frame.to_dict("records")
    ]
    return [*(name.upper() for name in settings), *metrics], rows


def _metric_plots(definition: StudyDefinition, tables: StudyTables) -> list[str]:
    metric = f"test {tables.metric}"
    if metric not in tables.trials.columns:
        return []
    return [
        plots.metric_over_setting(tables.trials, axis.name, metric)
        for axis in definition.axes
        if tables.trials.loc[tables.trials[metric].notna(), axis.name].nunique() > 1
    ]


def _finished(trials: Sequence[Trial]) -> dict[str, list[Trial]]:
    """Return the finished trials by the name of their combination."""
    groups: dict[str, list[Trial]] = {}
    for trial in trials:
        if trial.state == "finished":
            groups.setdefault(label(trial.combination), []).append(trial)
    return groups


def _curves(
    folder: StudyFolder, tables: StudyTables, groups: Mapping[str, list[Trial]]
) -> dict[str, list[list[float]]]:
    """Return the learning curves of the best combinations by validation, one for each seed."""
    column = f"val_{tables.metric}"
    curves: dict[str, list[list[float]]] = {}
    for name in _ranked(list(groups), tables)[: plots.MAX_CURVES]:
        rows = [folder.run(trial).metrics() for trial in groups[name]]
        seeds = [[float(row[column]) for row in one if row.get(column) is not None] for one in rows]
        if all(seeds):
            curves[name] = seeds
    return curves


def _ranked(names: list[str], tables: StudyTables) -> list[str]:
    """Return the names of the summary's rows, the best by validation first."""

    column = f"validation {tables.metric} mean"
    if column not in tables.summary.columns:
        return names
    means = tables.summary[column].to_numpy(float)
    sign = -1.0 if is_higher_better(tables.metric) else 1.0
    means = means[: len(names)]  # then there are combinations whose trials were all pruned
    order = np.argsort(np.where(np.isnan(means), np.inf, sign * means), kind="stable")
    return [names[i] for i in order]
