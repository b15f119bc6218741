"""The table of the slowest tests in tests/README.md: `python -m tools.durations REPORT...`.

A REPORT is a JUnit file, as `pytest --junit-xml` writes it. `make test-durations` calls this.
"""

import datetime
import sys
import xml.etree.ElementTree as ElementTree
from collections import defaultdict
from pathlib import Path

README = Path(__file__).parents[1] / "tests" / "README.md"
BEGIN, END = "<!-- durations:begin -->", "<!-- durations:end -->"
ROWS = 40


def read_durations(reports: list[Path]) -> dict[str, float]:
    """Return the seconds of each test, setup and teardown included, by its name."""
    seconds: defaultdict[str, float] = defaultdict(float)
    for report in reports:
        # The file was written by pytest just before.
        for case in ElementTree.parse(report).iter("testcase"):  # noqa: S314
            module = case.get("classname", "").removeprefix("tests.")
            seconds[f"{module}::{case.get('name')}"] += float(case.get("time", 0))
    return dict(seconds)


def table(seconds: dict[str, float], day: datetime.date) -> str:
    """Return the Markdown table of the slowest tests of a day."""
    slowest = sorted(seconds.items(), key=lambda item: -item[1])[:ROWS]
    total = sum(seconds.values())
    lines = [
        f"{day}: {len(seconds):,} tests, {total:,.0f} s of processor time in all, on two"
        " processes.",
        "",
        "| seconds | test |",
        "|---:|---|",
    ]
    lines += [f"| {time:.1f} | `{name.replace('|', '/')[:110]}` |" for name, time in slowest]
    return "\n".join(lines)


def main() -> int:
    """Replace the block between the markers in tests/README.md."""
    text = README.read_text(encoding="utf-8")
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    written = table(read_durations([Path(name) for name in sys.argv[1:]]), datetime.date.today())
    README.write_text(f"{before}{BEGIN}\n{written}\n{END}{after}", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
