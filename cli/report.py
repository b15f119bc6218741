"""`qfleet report`: open a report, or save its figures."""

import importlib
import sys
import webbrowser
from pathlib import Path

from common import runs, storage
from common.commands import command
from common.errors import RunError, SettingsError
from common.settings import Settings
from common.settings.options import ReportOptions
from common.storage import STUDIES, StoragePath


def main() -> int:
    """Open the report of STUDY, of RUN or of the latest finished run, or save its figures.

    A run without a report predicts first, unless its figures are saved.

    Returns:
        The exit code.

    Raises:
        RunError: There is no finished run, RUN is none, or there is no report.
        SettingsError: FIGURES can't be written.
    """
    settings, options = Settings.with_options(sys.argv[1:], "report", ReportOptions)
    root = storage.path(settings.job.storage)
    if settings.job.study:
        page = root / STUDIES / settings.job.study / "report.html"
        writer = f"{command('study')} NAME={settings.job.study}"
    else:
        run = runs.resolve(root, settings.job.run)
        page = run.predictions / "report.html"
        writer = f"{command('infer')} {run.arguments}"
    if not storage.is_file(page):
        if settings.job.study or options.figures:
            raise RunError(f"there is no report {page}: `{writer}` writes it")
        print(f"Run {run.name} has no report yet: inference writes it now", flush=True)
        code: int = importlib.import_module("inference.__main__").main()
        if code:
            return code
    if options.figures:
        return _save_figures(page, options.figures, writer)
    print(f"Report: {page}")
    if isinstance(page, Path) and sys.stdout.isatty():
        webbrowser.open(page.resolve().as_uri())
    return 0


def _save_figures(page: StoragePath, given: str, writer: str) -> int:
    from inference import figures  # matplotlib and the renderer

    found = figures.extract_figures(storage.read_bytes(page).decode())
    if not found:
        raise RunError(f"{page} has no figures that can be saved: `{writer}` writes it again")
    folder = storage.path(given)
    if not isinstance(folder, Path):
        raise SettingsError(f"FIGURES={folder} is in a bucket: give a folder of this machine")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, svg in found.items():
            (folder / f"{name}.svg").write_text(svg, encoding="utf-8")
            (folder / f"{name}.png").write_bytes(figures.to_png(svg))
    except OSError as error:
        raise SettingsError(
            f"FIGURES={folder} can't be written ({error.strerror}): give a folder of yours"
        ) from None
    print(f"Figures, as SVG and PNG: {', '.join(found)} in {folder}")
    return 0
