"""report.html of a study: one self-contained page, in the style of a run's report."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from common.metrics import is_higher_better, number
from common.text import plural
from inference.html_text import card, definitions, escape, note, page, section
from studies import plots
from studies.console import interval, metric_cell
from studies.definition import StudyDefinition
from studies.folder import StudyFolder, Trial
from studies.forecast import duration
from studies.pruning import describe
from studies.tables import StudyTables, label

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
    study = folder.read()
    warnings = (
        [f"{plural(len(failed), 'trial')} failed; see the end of the page."] if failed else []
    )
    parts = [
        _facts(study, definition),
        _summary(tables),
        _differences(tables),
        _metric_plots(definition, tables),
        _curves(folder, tables, trials),
        _pruned(trials),
        _failures(failed),
    ]
    return page(
        title=escape(f"Study {folder.name}"),
        lead=escape(
            f"{plural(len(tables.summary), 'combination')} of settings, trained with"
            f" {plural(len(definition.seeds), 'seed')}"
        ),
        warnings="\n".join(f'<p class="warning">{escape(text)}</p>' for text in warnings),
        cards="\n".join(card(*one) for one in _headline(folder, definition, tables, trials)),
        sections="\n".join(filter(None, parts)),
        footer=escape(f"Created by qfleet from {folder.path}"),
    )


def _headline(
    folder: StudyFolder, definition: StudyDefinition, tables: StudyTables, trials: Sequence[Trial]
) -> list[tuple[str, str, str]]:
    finished = sum(trial.state == "finished" for trial in trials)
    pruned = sum(trial.state == "pruned" for trial in trials)
    clock, forecast = folder.clock(), folder.forecast()
    price = definition.settings.planning.price_per_worker_hour
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


def _facts(study: dict[str, Any], definition: StudyDefinition) -> str:
    lineage = study.get("lineage", {})
    axes = [(axis.name.upper(), ", ".join(axis.ends)) for axis in definition.axes]
    fixed = [(name.upper(), value) for name, value in study.get("fixed", {}).items()]
    seeds = ", ".join(map(str, definition.seeds))
    pruner = [
        (name, study[name])
        for name in ("pruner", "reduction_factor", "min_epochs")
        if name in study
    ]
    return section(
        "Study",
        '<div class="facts">',
        definitions("Varied", [*axes, ("SEED", seeds), ("search", definition.search), *pruner]),
        definitions("Equal for all", fixed or [("settings", "defaults")]),
        definitions("Origin", [("started", study.get("created")), *lineage.items()]),
        "</div>",
    )


def _summary(tables: StudyTables) -> str:
    frame = tables.summary
    if not len(frame):
        return ""
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
        (
            [*(str(row[name]) for name in settings), *(metric_cell(row, name) for name in metrics)],
            index == tables.best,
        )
        for index, row in enumerate(frame.to_dict("records"))
    ]
    return section(
        "Means",
        note("Mean over the seeds, with its 95 % t interval. The row with the best"
             " validation mean is bold."),
        _table([*(name.upper() for name in settings), *metrics], rows),
    )  # fmt: skip


def _differences(tables: StudyTables) -> str:
    frame = tables.differences
    if not len(frame):
        return ""
    rows = [
        ([row["from"], row["to"], str(row["seeds"]), interval(
            tables.metric, row["difference"], row["low"], row["high"])],
         bool(row["low"] > 0 or row["high"] < 0))
        for row in frame.to_dict("records")
    ]  # fmt: skip
    return section(
        "Differences",
        note(f"Test {escape(tables.metric)} of the second combination minus that of the first, over"
             " equal seeds. Bold: the 95 % t interval does not contain 0."),
        _table(["from", "to", "seeds", "difference"], rows),
    )  # fmt: skip


def _metric_plots(definition: StudyDefinition, tables: StudyTables) -> str:
    metric = f"test {tables.metric}"
    if metric not in tables.trials.columns:
        return ""
    drawn = [
        plots.metric_over_setting(tables.trials, axis.name, metric)
        for axis in definition.axes
        if tables.trials.loc[tables.trials[metric].notna(), axis.name].nunique() > 1
    ]
    if not drawn:
        return ""
    text = "Each dot is a trial; the mean over all other settings has its 95 % interval."
    return section("Metric over settings", note(text), *drawn)


def _curves(folder: StudyFolder, tables: StudyTables, trials: Sequence[Trial]) -> str:
    """Return the learning curves of the best combinations by validation."""
    column = f"val_{tables.metric}"
    groups: dict[str, list[Trial]] = {}
    for trial in trials:
        if trial.state == "finished":
            groups.setdefault(label(trial.combination), []).append(trial)
    curves: dict[str, list[list[float]]] = {}
    for name in _ranked(list(groups), tables)[: plots.MAX_CURVES]:
        rows = [folder.run(trial).metrics() for trial in groups[name]]
        seeds = [[float(row[column]) for row in one if row.get(column) is not None] for one in rows]
        if all(seeds):
            curves[name] = seeds
    if not curves:
        return ""
    text = "Mean over the seeds; the band is the range of the seeds."
    if len(groups) > len(curves):
        text += f" The best {len(curves)} of {len(groups)} combinations are shown."
    return section("Learning curves", note(text), plots.learning_curves(curves, tables.metric))


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


def _pruned(trials: Sequence[Trial]) -> str:
    pruned = [trial for trial in trials if trial.state == "pruned"]
    if not pruned:
        return ""
    rows = [
        ([one.run, label(one.combination), str(one.seed), describe(one)], False) for one in pruned
    ]
    return section(
        "Pruned trials",
        note("They were worse than others after the same number of epochs; means do not include"
             " them. The metrics are the best ones until that epoch."),
        _table(["run", "settings", "seed", "end"], rows),
    )  # fmt: skip


def _failures(failed: Sequence[Trial]) -> str:
    if not failed:
        return ""
    rows = [
        ([one.run, label(one.combination), str(one.exit_code), one.error], False) for one in failed
    ]
    return section("Failed trials", _table(["run", "settings", "exit code", "error"], rows))


def _table(head: Sequence[str], rows: Sequence[tuple[Sequence[str], bool]]) -> str:
    """Return a table of the first rows, each (cells, whether it is bold)."""
    titles = "".join(f"<th>{escape(name)}</th>" for name in head)
    lines = [
        f"<tr{' class=highlight' if bold else ''}>"
        + "".join(f"<td>{escape(str(cell))}</td>" for cell in cells)
        + "</tr>"
        for cells, bold in rows[:MAX_ROWS]
    ]
    rest = len(rows) - MAX_ROWS
    more = note(f"{rest:,} more rows are in the CSV file.") if rest > 0 else ""
    body = "\n".join(lines)
    return (
        f'<div class="wide"><table><thead><tr>{titles}</tr></thead>\n'
        f"<tbody>{body}</tbody></table></div>\n{more}"
    )
