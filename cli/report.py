"""`qfleet report`: open the report of a run, which inference writes."""

import importlib
import sys
import webbrowser
from pathlib import Path

from common import runs, storage
from common.settings import Settings


def main() -> int:
    """Open the report of RUN or of the latest finished run, or predict first if it has none.

    Returns:
        The exit code.

    Raises:
        RunError: There is no finished run, or RUN is none.
    """
    settings = Settings.from_args(sys.argv[1:], "infer")
    run = runs.resolve(storage.path(settings.job.storage), settings.job.run)
    page = run.predictions / "report.html"
    if not storage.is_file(page):
        print(f"Run {run.name} has no report yet: inference writes it now", flush=True)
        code: int = importlib.import_module("inference.__main__").main()
        if code:
            return code
    print(f"Report: {page}")
    if isinstance(page, Path) and sys.stdout.isatty():
        webbrowser.open(page.resolve().as_uri())
    return 0
