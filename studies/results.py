"""The results of a study: tables, report and HParams of TensorBoard, in its folder."""

from common import storage
from studies.definition import StudyDefinition
from studies.folder import StudyFolder
from studies.hparams import write_hparams
from studies.html_report import render
from studies.tables import StudyTables, make_tables, write_tables


def write_results(folder: StudyFolder, definition: StudyDefinition) -> StudyTables:
    """Write the results of all trials that are recorded so far.

    Args:
        folder: The study's folder.
        definition: The study; METRIC is used.

    Returns:
        The tables.

    Raises:
        SettingsError: The trials have no such metric.
    """
    trials = folder.trials()
    tables = make_tables(trials.values(), definition.options.metric)
    write_tables(tables, folder.path)
    write_hparams(folder.path / "logs", trials.values())
    storage.write_atomic(folder.path / "report.html", render(folder, definition, tables))
    return tables
