"""`python -m common.settings` prints the table of settings, compares or renews a file's copy."""

import sys
from collections.abc import Sequence
from pathlib import Path

from common.errors import SettingsError, run_main
from common.settings import Settings
from common.settings.schema import markdown_table

BEGIN, END = "<!-- settings: begin (make settings-table) -->", "<!-- settings: end -->"


def main(args: Sequence[str] = ()) -> int:
    """Print the table; `--check FILE` compares FILE's copy of it, `--write FILE` renews it."""
    args = args or sys.argv[1:]
    table = markdown_table(Settings.model_fields)
    if len(args) != 2 or args[0] not in ("--check", "--write"):
        print(table)
        return 0
    path = Path(args[1])
    text = path.read_text(encoding="utf-8")
    if text.count(BEGIN) != 1 or text.count(END) != 1:
        raise SettingsError(f"{path} has no place for the table of settings: {BEGIN} ... {END}")
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    renewed = f"{before}{BEGIN}\n{table}\n{END}{after}"
    if args[0] == "--write":
        path.write_text(renewed, encoding="utf-8")
    elif text != renewed:
        raise SettingsError(f"the table of settings in {path} is stale: `make settings-table`")
    return 0


if __name__ == "__main__":
    sys.exit(run_main(main))
