"""Write two interleaved half circles as CSV: moons.csv with labels, new.csv without.

    python3 examples/custom_table/make_tables.py FOLDER

It needs the standard library only. A table has a header, numeric columns, and one label column
with two classes.
"""

import csv
import math
import random
import sys
from pathlib import Path

NOISE = 0.1


def moon(label: str) -> list[float]:
    """Return a random point [x, y] of the upper or the lower half circle."""
    t = random.uniform(0, math.pi)
    x, y = (math.cos(t), math.sin(t)) if label == "upper" else (1 - math.cos(t), 0.5 - math.sin(t))
    return [round(value + random.gauss(0, NOISE), 4) for value in (x, y)]


def main() -> None:
    folder = Path(sys.argv[1])
    random.seed(7)
    with open(folder / "moons.csv", "w", newline="") as file:
        table = csv.writer(file)
        table.writerow(["x", "y", "moon"])
        for _ in range(300):
            table.writerows([*moon(label), label] for label in ("upper", "lower"))
    with open(folder / "new.csv", "w", newline="") as file:
        table = csv.writer(file)
        table.writerow(["x", "y"])
        table.writerows(moon(random.choice(("upper", "lower"))) for _ in range(100))


if __name__ == "__main__":
    main()
