"""Studies: varied settings, searches, budgets and tables."""

import dataclasses
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest

from common import runs
from common.errors import NO_SPACE, DataError, RunError, SettingsError, SimulationError, StorageFull
from common.settings import Settings
from studies import __main__ as program
from studies.axes import parse_axis
from studies.budget import Budget
from studies.definition import StudyDefinition
from studies.folder import Clock, StudyFolder, Trial
from studies.forecast import StudyForecast
from studies.hparams import write_hparams
from studies.proposals import proposer_for
from studies.pruning import TrialPruner
from studies.results import write_results
from studies.runner import StudyRunner
from studies.tables import make_tables, mean_interval, write_tables
from studies.trial_checks import check_trials
from studies.trial_launcher import TrialOutcome
from tests.support.devices import write_device

TWO_TRANSMONS = Path(__file__).parents[2] / "examples" / "tasks" / "two_transmons.yaml"

DEFINITIONS = Path(__file__).resolve().parents[2] / "benchmarks" / "studies"


def define(*args: str) -> StudyDefinition:
    name = [] if "NAME=" in args else ["NAME=s"]
    return StudyDefinition.from_args([*name, *args])


def test_grid_has_all_combinations_and_seeds() -> None:
    study = define("SEEDS=0..2", "QUBITS=8,12", "MODEL=qcnn,hybrid", "EPOCHS=20")
    assert study.trial_count == 12
    assert study.seeds == (0, 1, 2)
    assert study.combinations[1] == {"qubits": "8", "model": "hybrid"}
    settings = study.trial_settings(4, study.combinations[1])
    assert (settings.model.qubits, settings.data.seed, settings.job.run) == (8, 1, "s-0004")


def test_study_takes_names_and_values_as_two_words() -> None:
    study = StudyDefinition.from_args(["--name", "w", "--qubits", "4,8", "--reproducible"])
    assert (study.name, study.trial_count) == ("w", 2)
    assert study.settings.training.reproducible
    with pytest.raises(SettingsError, match="--qubits needs a value"):
        StudyDefinition.from_args(["NAME=w", "--qubits"])


def test_trial_has_one_worker_and_thread_unless_set() -> None:
    assert {"--workers=1", "--threads=1", "--seed=0"} <= set(define().trial_args(0, {}))
    args = define("WORKERS=2", "PARALLELISM=3").trial_args(0, {})
    assert "--workers=2" in args
    assert "--study=s" in args  # recorded with the run
    assert not any(arg.startswith("--parallelism") for arg in args)


def test_file_with_lists_and_ranges_defines_a_study(tmp_path, monkeypatch) -> None:
    file = tmp_path / "study.yaml"
    file.write_text("study: f\nseed: 0..2\nqubits: 8,12\nlayers: 1,2\nepochs: 20\nbatch: 8,16\n")
    monkeypatch.setenv("QFLEET_LAYERS", "1")
    study = StudyDefinition.from_args([f"CONFIG={file}", "BATCH=32"])
    assert (study.name, study.seeds) == ("f", (0, 1, 2))
    assert [axis.name for axis in study.axes] == ["qubits"]
    settings = study.trial_settings(4, study.combinations[1])
    assert (settings.model.qubits, settings.training.batch, settings.data.seed) == (12, 32, 1)


def test_file_with_a_range_is_searched_as_it_says(tmp_path) -> None:
    file = tmp_path / "study.yaml"
    file.write_text("search: random\ntrials: 3\nlearning_rate: 0.01..0.3\n")
    assert define(f"CONFIG={file}").combination_count == 3


@pytest.mark.parametrize("file", sorted(DEFINITIONS.glob("*.yaml")), ids=lambda file: file.stem)
def test_definition_of_a_measured_study_is_valid(file: Path, tmp_path, monkeypatch) -> None:
    made_up = write_device(tmp_path / "calibrations")
    for name in ("ibm_belem", "ibm_santiago", "ibm_yorktown"):
        (made_up.parent / f"{name}.yaml").write_text(made_up.read_text())
    monkeypatch.chdir(tmp_path)
    assert StudyDefinition.from_args([f"CONFIG={file}"]).trial_count > 1


@pytest.mark.parametrize(
    ("args", "name"),
    [
        (["QUBIT=4,5"], "QUBIT"),
        (["QUBITS=4,1"], "QUBITS"),
        (["QUBITS=8,8"], "QUBITS"),
        (["QUBITS=9..4"], "QUBITS"),
        (["MODEL=1..4"], "MODEL"),
        (["LEARNING_RATE=0.1..0.2"], "LEARNING_RATE"),
        (["SEEDS=0..20000"], "SEEDS=0..20000"),
        (["SEEDS=0,x"], "SEEDS=x is not allowed: SEEDS"),
        (["SEEDS=0,-5"], "SEEDS=-5"),
        (["SEED=0,-5"], "SEED=-5"),
        (["MODEL=qcnn,hybrid", "LAYERS=0,2"], "LAYERS"),
        (["TRIALS=4"], "TRIALS"),
        (["SEARCH=random", "QUBITS=4..6"], "TRIALS"),
        (["SEARCH=random", "QUBITS=4..6", "TRIALS=4"], "TRIALS"),
        (["SEARCH=random", "TRIALS=4"], "SEARCH"),
        (["RUN=mine"], "RUN"),
        (["TARGET=k8s", "DRY_RUN=1"], "DRY_RUN"),
        (["WORKERS=auto"], "WORKERS"),
        (["BUDGET=soon"], "BUDGET"),
        (["NAME="], "NAME"),
        (["verbose"], "verbose"),
        (["MIN_EPOCHS=2", "QUBITS=4,6"], "MIN_EPOCHS"),
        (["EARLY_STOPPING=halving"], "EARLY_STOPPING"),
        (["EARLY_STOPPING=halving", "QUBITS=4,6", "MIN_EPOCHS=20", "EPOCHS=20"], "MIN_EPOCHS"),
        (["EARLY_STOPPING=halving", "LOSS=huber,log_cosh"], "METRIC"),
        (["SEARCH=tpe", "TRIALS=2", "LOSS=huber,log_cosh"], "METRIC"),
    ],
)
def test_definition_with_a_mistake_names_the_setting(args: list[str], name: str) -> None:
    with pytest.raises(SettingsError, match=name) as caught:
        define(*args)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("word", ["NAME", "STUDY"])
def test_wrong_name_is_named_as_it_was_written(word: str) -> None:
    with pytest.raises(SettingsError, match=f"^{word}=a/b is not allowed: {word} is"):
        StudyDefinition.from_args([f"{word}=a/b"])


def test_values_with_commas_are_separated_by_semicolons() -> None:
    field = Settings.fields()["classes"]
    assert parse_axis(field, "1,8", search="grid") == "1,8"
    assert parse_axis(field, "1,8;3,5", search="grid").ends == ("1,8", "3,5")  # type: ignore[union-attr]


def test_random_search_continues_its_sequence_with_more_trials() -> None:
    args = ["SEARCH=random", "LEARNING_RATE=0.001..0.1", "QUBITS=4..9"]
    few, many = define(*args, "TRIALS=5"), define(*args, "TRIALS=50")
    assert many.combinations[:5] == few.combinations
    rates = [float(one["learning_rate"]) for one in many.combinations]
    assert all(0.001 <= rate <= 0.1 for rate in rates)
    assert np.median(rates) < 0.02  # 0.05 on a linear scale
    assert {int(one["qubits"]) for one in many.combinations} == set(range(4, 10))


def test_random_search_draws_each_combination_once() -> None:
    study = define("SEARCH=random", "QUBITS=4..6", "LAYERS=0,1", "TRIALS=6")
    assert len({tuple(one.items()) for one in study.combinations}) == 6


def test_folder_of_another_study_is_refused(tmp_path) -> None:
    folder = StudyFolder(tmp_path, "s")
    folder.open(define("QUBITS=4,6", "EPOCHS=20"))
    folder.open(define("QUBITS=4,6", "EPOCHS=20", "BUDGET=2h", "PARALLELISM=2", "METRIC=accuracy"))
    for args in (["QUBITS=4,8", "EPOCHS=20"], ["QUBITS=4,6", "EPOCHS=30"], ["SEEDS=1,2"]):
        with pytest.raises(RunError, match="another NAME"):
            folder.require_same(define(*args))


def test_damaged_trial_is_refused_in_one_sentence(tmp_path) -> None:
    folder = StudyFolder(tmp_path, "s")
    folder.write(Trial(0, {}, 0, "s-0000"))
    assert folder.trials() == {0: Trial(0, {}, 0, "s-0000")}
    (folder.path / "trials" / "0000.json").write_text('{"number": "x"}')
    with pytest.raises(RunError, match=r"0000\.json") as caught:
        folder.trials()
    assert "\n" not in str(caught.value)


def test_budget_counts_wall_time_workers_or_money() -> None:
    clock = Clock(wall=100.0, worker=3601.0)
    for text, used_up in (("99s", True), ("2min", False), ("1wh", True), ("2wh", False)):
        budget = Budget.parse(text, price=0)
        assert budget.is_used_up(clock) == used_up, text
    assert not Budget().is_used_up(clock)
    assert Budget.parse("0.5money", price=0.5).is_used_up(clock)
    both = Budget.parse("0.5h,80evaluations", price=0)
    assert (both.seconds, both.evaluations) == (1800, 80)
    with pytest.raises(SettingsError, match="PRICE_PER_WORKER_HOUR"):
        Budget.parse("1money", price=0)


def test_budget_smaller_than_one_trial_is_refused() -> None:
    budget = Budget.parse("10s", price=0)
    budget.require_one_trial(9.0, 4)
    with pytest.raises(SettingsError, match="BUDGET"):
        budget.require_one_trial(20.0, 1)


def trial(number: int, model: str, seed: int, mse: float, validation: float) -> Trial:
    metrics: dict[str, dict[str, float | None]] = {
        "test": {"mse": mse, "accuracy": 1 - mse},
        "validation": {"mse": validation},
    }
    return Trial(number, {"model": model}, seed, f"s-{number}", "finished", metrics, 2, 1.0)


def test_tables_have_intervals_and_paired_differences(tmp_path) -> None:
    base = [0.3, 0.1, 0.4, 0.2]
    trials = [trial(i, "qcnn", i, mse, mse) for i, mse in enumerate(base)]
    trials += [trial(4 + i, "hybrid", i, mse - 0.05, mse - 0.05) for i, mse in enumerate(base[:3])]
    trials.append(dataclasses.replace(trials[0], number=7, state="failed", error="no"))
    tables = make_tables(trials)
    assert tables.metric == "mse"
    qcnn, hybrid = tables.summary.to_dict("records")
    assert qcnn["test mse mean"] == pytest.approx(0.25)
    assert qcnn["test mse low"] == pytest.approx(0.25 - 3.1824 * 0.1291 / 2, abs=1e-4)
    assert qcnn["test mse high"] == pytest.approx(0.25 + 3.1824 * 0.1291 / 2, abs=1e-4)
    assert (qcnn["trials"], hybrid["trials"], tables.best) == (4, 3, 1)
    (difference,) = tables.differences.to_dict("records")
    assert difference["seeds"] == 3
    assert difference["difference"] == pytest.approx(-0.05)
    assert np.isnan(difference["low"])  # three equal numbers
    write_tables(tables, tmp_path)
    assert len((tmp_path / "trials.csv").read_text().splitlines()) == 9
    assert (tmp_path / "summary.parquet").stat().st_size > 0


def test_tables_of_mixed_or_missing_values_are_written(tmp_path) -> None:
    trials = [dataclasses.replace(trial(0, "a", 0, 0.1, 0.1), combination={"shots": "none"})]
    trials += [Trial(1, {"shots": "100"}, 0, "s-1")]
    write_tables(make_tables(trials), tmp_path)
    write_tables(make_tables([]), tmp_path)
    with pytest.raises(SettingsError, match="METRIC"):
        make_tables(trials, "f1")


@pytest.mark.parametrize("seeds", [2, 3, 5, 10])
@pytest.mark.parametrize("examples", [0, 50])
def test_intervals_of_equal_models_rarely_exclude_0(seeds: int, examples: int) -> None:
    """At most 6 % of differences between two models of equal quality are marked."""
    random = np.random.default_rng(0)
    shape = (4000, seeds)
    numbers = random.normal(size=shape)
    if examples:  # accuracies have steps, so that differences are often equal
        left, right = random.binomial(examples, 0.9, (2, *shape)) / examples
        numbers = left - right
    found = [mean_interval(row) for row in numbers.tolist()]
    marked = np.mean([one.low > 0 or one.high < 0 for one in found])
    assert marked <= 0.06
    if not examples:
        assert marked >= 0.04


def test_interval_of_a_clear_difference_excludes_0() -> None:
    assert mean_interval([1.0, 1.1, 0.9]).low > 0


@pytest.fixture
def finished(tmp_path) -> StudyFolder:
    """A study of two models with three seeds, one trial of which failed."""
    folder = StudyFolder(tmp_path, "s")
    folder.open(define("SEEDS=0..2", "MODEL=qcnn,hybrid"))
    for number in range(6):
        model = ("qcnn", "hybrid")[number // 3]
        one = trial(number, model, number % 3, 0.1 + number / 50, 0.2 - number / 50)
        folder.write(one if number < 5 else dataclasses.replace(one, state="failed", error="<no>"))
        run = folder.run(one).path
        run.mkdir()
        rows = [json.dumps({"epoch": i, "mse": 1 / i, "val_mse": 2 / i}) for i in (1, 2, 3)]
        (run / "metrics.jsonl").write_text("\n".join(rows))
    return folder


def test_report_has_tables_curves_and_failures(finished: StudyFolder) -> None:
    tables = write_results(finished, define("SEEDS=0..2", "MODEL=qcnn,hybrid"))
    assert tables.best == 1
    page = (finished.path / "report.html").read_text()
    assert page.count("<svg") == 2
    assert "&lt;no&gt;" in page
    assert 'http-equiv="Content-Security-Policy"' in page
    assert "1 trial failed" in page


def test_results_without_ended_trials_are_written(tmp_path) -> None:
    folder = StudyFolder(tmp_path, "s")
    folder.open(define("QUBITS=4,6"))
    folder.write(Trial(0, {"qubits": "4"}, 0, "s-0000"))
    assert write_results(folder, define("QUBITS=4,6")).best is None
    assert "of 2" in (folder.path / "report.html").read_text()


def test_report_names_the_best_whole_number(tmp_path) -> None:
    folder, definition = StudyFolder(tmp_path, "s"), define("QUBITS=4,6")
    folder.open(definition)
    one = dataclasses.replace(trial(0, "a", 0, 0.1, 0.1), combination={"qubits": "4"})
    folder.write(one)
    folder.run(one).path.mkdir()
    write_results(folder, definition)
    assert ">QUBITS=4<" in (folder.path / "report.html").read_text()


def read_events(file: Path) -> Iterator[Any]:
    """Yield the events of a file: records of their length, 4 bytes, the event, and 4 bytes."""
    from tensorboard.compat.proto.event_pb2 import Event

    data = file.read_bytes()
    while data:
        size = int.from_bytes(data[:8], "little")
        yield Event.FromString(data[12 : 12 + size])
        data = data[16 + size :]


def test_hparams_have_a_session_per_ended_trial(finished: StudyFolder) -> None:
    from tensorboard.plugins.hparams import metadata

    write_hparams(finished.path / "logs", finished.trials().values())
    folders = {path.name: path for path in (finished.path / "logs").iterdir()}
    assert set(folders) == {"study", *(f"s-{number}" for number in range(6))}
    (file,) = folders["s-4"].iterdir()
    values = [value for event in read_events(file) for value in event.summary.value]
    start = metadata.parse_session_start_info_plugin_data(values[0].metadata.plugin_data.content)
    assert start.hparams["model"].string_value == "hybrid"
    assert start.hparams["seed"].number_value == 1
    assert [value.tag for value in values][1:4] == ["test/mse", "test/accuracy", "validation/mse"]


def test_trials_of_a_study_are_listed_alone(tmp_path) -> None:
    for name in ("s-0000", "s-0001", "s-extra", "other"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "run.json").touch()
    assert [run.name for run in runs.list_runs(tmp_path, "s")] == ["s-0000", "s-0001"]
    assert len(runs.list_runs(tmp_path)) == 4


def tpe_study(rebuilds: int) -> list[str]:
    """Return the rates that TPE proposes; the sampler is rebuilt for each one."""
    from studies.tpe import TpeProposer

    args = ("SEARCH=tpe", "TRIALS=30", "LEARNING_RATE=0.001..1", "ENCODER=angle,pca", "SEEDS=0,1")
    study, recorded = define(*args), []
    propose = TpeProposer(study)
    for index in range(study.combination_count):
        if index % rebuilds == 0:
            propose = TpeProposer(study)
        combination = propose(index, recorded)
        # The best rate is 0.1.
        error = abs(np.log10(float(combination["learning_rate"])) + 1) + 0.1
        for seed in range(2):
            metrics: dict[str, dict[str, float | None]] = {"validation": {"mse": float(error)}}
            number = 2 * index + seed
            recorded.append(
                Trial(number, combination, seed, study.run_name(number), "finished", metrics)
            )
    return [one.combination["learning_rate"] for one in recorded[::2]]


def test_tpe_depends_on_the_recorded_trials_only() -> None:
    pytest.importorskip("optuna")
    rates = tpe_study(rebuilds=1)
    assert rates == tpe_study(rebuilds=100)
    assert len(set(rates)) == 30
    assert all(0.001 <= float(rate) <= 1 for rate in rates)
    late = [abs(np.log10(float(rate)) + 1) for rate in rates[15:]]
    assert np.median(late) < 0.4  # of random ones: 1


def test_tpe_repeats_no_running_or_failed_combination() -> None:
    pytest.importorskip("optuna")
    from studies.tpe import TpeProposer

    study = define("SEARCH=tpe", "TRIALS=6", "QUBITS=4..6", "LAYERS=0,1")
    recorded: list[Trial] = []
    for index in range(6):
        combination = TpeProposer(study)(index, recorded)
        assert combination not in [one.combination for one in recorded]
        state = "failed" if index % 2 else "proposed"
        recorded.append(Trial(index, combination, 0, study.run_name(index), state))


def test_tpe_without_optuna_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "optuna", None)
    with pytest.raises(SettingsError, match="SEARCH=tpe"):
        proposer_for(define("SEARCH=tpe", "TRIALS=2", "QUBITS=4..6"))


def test_start_with_too_small_a_budget_leaves_nothing(tmp_path, monkeypatch) -> None:
    forecast = StudyForecast(20.0, 30.0, 100.0, 100.0, 1)
    monkeypatch.setattr(program, "predict", lambda *args, **options: forecast)
    monkeypatch.setattr("sys.argv", ["studies", "NAME=s", f"STORAGE={tmp_path}", "BUDGET=5s"])
    with pytest.raises(SettingsError, match="BUDGET"):
        program.main(("false",))
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(("wall", "measures"), [(71.0, False), (1.0, True)])
def test_used_up_budget_is_not_measured_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wall: float, measures: bool
) -> None:
    predict = Mock(return_value=None)
    monkeypatch.setattr(program, "predict", predict)
    monkeypatch.setattr("sys.argv", ["studies", "NAME=s", f"STORAGE={tmp_path}", "BUDGET=20s"])
    monkeypatch.setattr(program, "_run", lambda *_: 0)
    monkeypatch.setattr(StudyFolder, "clock", lambda self: Clock(wall, wall))
    assert program.main(("false",)) == 0
    assert predict.call_args.kwargs == {"may_measure": measures}


PRUNED = ("EARLY_STOPPING=halving", "REDUCTION_FACTOR=2", "LAYERS=0,1,2", "EPOCHS=12")


def judged(pruner: TrialPruner, folder: StudyFolder, number: int, values: list[float]) -> Trial:
    """Return the decision about a trial with these validation losses by epoch."""
    run = folder.run(Trial(number, {}, 0, f"s-{number:04d}"))
    run.path.mkdir(exist_ok=True)
    rows = [json.dumps({"epoch": i, "val_mse": value}) for i, value in enumerate(values, 1)]
    (run.path / "metrics.jsonl").write_text("\n".join(rows))
    known = folder.trials()
    one = known.get(number) or Trial(number, {"layers": str(number)}, 0, run.name)
    one = pruner.judge(one, run, known.values())
    folder.write(one)
    return one


def test_pruner_keeps_the_best_value_at_each_rung(tmp_path) -> None:
    pytest.importorskip("optuna")
    folder, pruner = StudyFolder(tmp_path, "s"), TrialPruner(define(*PRUNED))
    assert judged(pruner, folder, 0, [0.5, 0.4]).rung_values == ()  # the first rung is epoch 3
    assert judged(pruner, folder, 0, [0.5, 0.4, 0.6]).rung_values == (0.4,)
    worse = judged(pruner, folder, 1, [0.5] * 5)
    assert (worse.state, worse.epochs, worse.rung_values) == ("pruned", 3, (0.5,))
    assert worse.metrics == {"validation": {"mse": 0.5}}
    # A new start has the recorded values only.
    better = judged(TrialPruner(define(*PRUNED)), folder, 2, [0.3] * 12)
    assert (better.state, better.rung_values) == ("proposed", (0.3, 0.3))


def test_tables_do_not_average_pruned_trials(finished: StudyFolder) -> None:
    one = finished.trials()[4]
    finished.write(dataclasses.replace(one, state="pruned", metrics={"validation": {"mse": 0.0}}))
    tables = write_results(finished, define("SEEDS=0..2", "MODEL=qcnn,hybrid"))
    assert tables.summary["trials"].tolist() == [3, 1]
    assert tables.summary["pruned"].tolist() == [0, 1]
    assert tables.best == 0  # hybrid has a better mean, of one seed
    assert "Pruned trials" in (finished.path / "report.html").read_text()


def test_tpe_gets_pruned_trials_with_their_rungs() -> None:
    pytest.importorskip("optuna")
    from studies.tpe import TpeProposer

    propose = TpeProposer(define("SEARCH=tpe", "TRIALS=3", "QUBITS=4..6", "SEEDS=0,1"))
    one = Trial(0, {"qubits": "4"}, 0, "s-0000", "pruned", rung_values=(0.4,))
    other = Trial(1, {"qubits": "4"}, 1, "s-0001", rung_values=(0.2, 0.1))
    ((_, value, state, rungs),) = propose._told([one, other], "mse")
    assert (value, state) == (None, "PRUNED")
    assert rungs == pytest.approx([0.3])


def test_full_disk_ends_a_study_that_can_continue(tmp_path: Path) -> None:
    definition = define("SEEDS=0..9")
    folder = StudyFolder(tmp_path, "s")
    folder.open(definition)
    handle = Mock(is_running=False)
    handle.poll.return_value = TrialOutcome(StorageFull.exit_code, f"{NO_SPACE} to write it.")
    launcher = Mock(slots=1, outlives_study=False, **{"start.return_value": [handle]})
    pruner = Mock(**{"is_due.return_value": False, "judge.return_value": None})
    runner = StudyRunner(definition, folder, lambda index, trials: {}, pruner, launcher)
    runner._judge = lambda trial, handle=None: trial  # type: ignore[method-assign]
    with pytest.raises(StorageFull):
        runner.run(Mock(), Mock(received=None))
    assert launcher.start.call_count == 1
    assert {trial.state for trial in folder.trials().values()} == {"proposed"}


def test_data_of_every_trial_is_checked_before_the_first(tmp_path):
    table = tmp_path / "a.csv"
    table.write_text("x,y,label\n" + "".join(f"{n},{n % 7},{n % 2}\n" for n in range(200)))
    args = ["NAME=s", "QUBITS=2", "EPOCHS=1,2"]
    check_trials(StudyDefinition.from_args([*args, f"DATA={table}"]))
    with pytest.raises(DataError, match="missing"):
        check_trials(StudyDefinition.from_args([*args, f"DATA={table},{tmp_path}/missing.csv"]))


@pytest.mark.parametrize(
    ("fixed", "varied"), [("LAYERS=3", "PRUNE=0,0.5"), ("SEED=0", "LAYERS=3,40")]
)
def test_circuit_of_every_trial_is_checked(fixed: str, varied: str) -> None:
    args = ["NAME=s", "QUBITS=40", "EPOCHS=1", "POOLING=neighbours", fixed]
    check_trials(StudyDefinition.from_args([*args, varied.partition(",")[0]]))
    with pytest.raises((SettingsError, SimulationError)):
        check_trials(StudyDefinition.from_args([*args, varied]))


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["MODEL=kernel", "EPOCHS=1,2"], "EPOCHS"),
        (["MODEL=kernel", "LEARNING_RATE=0.1..0.2", "SEARCH=random", "TRIALS=2"], "LEARNING_RATE"),
        (["MODEL=kernel", "STEPS_PER_CALL=2"], "STEPS_PER_CALL=2"),
        (["MODEL=kernel", "LAYERS=1,2", "EARLY_STOPPING=halving"], "EARLY_STOPPING"),
        (["TASK=gate", "DATA=x", "QUBITS=1", f"NOISE={TWO_TRANSMONS}", "SEEDS=1,2",
          "EPOCHS=10,20", "EARLY_STOPPING=halving"], "EARLY_STOPPING"),
        (["MODEL=hybrid,qcnn", "FILTERS=2,3"], "FILTERS"),
    ],
)  # fmt: skip
def test_setting_that_no_trial_uses_is_refused(args: list[str], words: str) -> None:
    with pytest.raises(SettingsError, match=rf"^{words}\b"):
        StudyDefinition.from_args(["NAME=s", *args])


def test_setting_that_one_trial_uses_is_accepted() -> None:
    args = ["MODEL=kernel,hybrid", "EPOCHS=8", "EARLY_STOPPING=halving", "LEARNING_RATE=0.2"]
    assert len(StudyDefinition.from_args(["NAME=s", *args]).combinations) == 2


def test_ports_of_every_trial_are_checked() -> None:
    args = ["NAME=s", "PROFILER_PORT=65535", "QUBITS=3"]
    check_trials(StudyDefinition.from_args([*args, "WORKERS=1"]))
    check_trials(StudyDefinition.from_args(args))  # a trial has one worker
    with pytest.raises(SettingsError, match="PROFILER_PORT"):
        check_trials(StudyDefinition.from_args([*args, "WORKERS=1,2"]))
