"""Run the study: `python -m benchmarks.wide_study`, 45 minutes on 2 cores.

Results are written after each cell, so that a run can be ended and continued. The command then
updates the tables of docs/wide-study.md.

    --quick        one seed of the narrowest cells, in a minute; writes into benchmarks/quick
    --seconds N    end after about N seconds
"""

import argparse
import json
import sys
import time
from pathlib import Path

from benchmarks.wide_study import cells, tables

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "benchmarks" / "wide_study.json"
QUICK = ROOT / "benchmarks" / "quick" / "wide_study.json"
PAGE = ROOT / tables.FILE


def main() -> int:
    """Run the cells that have no result, and write the tables."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--seconds", type=float, default=float("inf"))
    options = parser.parse_args()
    results = QUICK if options.quick else RESULTS
    results.parent.mkdir(exist_ok=True)
    rows = json.loads(results.read_text()) if results.exists() else []
    done, begin = {row["cell"] for row in rows}, time.monotonic()
    for cell in cells.all_cells(quick=options.quick):
        if cell.name in done:
            continue
        if time.monotonic() - begin > options.seconds:
            print(f"{cell.name} and later cells have no result yet")
            return 0
        rows += [{"cell": cell.name, **row} for row in cell.run()]
        results.write_text(json.dumps(rows, indent=0) + "\n")
        print(f"{time.monotonic() - begin:6.0f} s: {cell.name}", flush=True)
    if options.quick:
        print(tables.study(rows))
    else:
        PAGE.write_text(tables.updated(PAGE.read_text(), rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
