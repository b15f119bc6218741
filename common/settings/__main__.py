"""`python -m common.settings` prints the table of settings, or checks or writes a file's copy."""

import sys
from collections.abc import Sequence
from pathlib import Path

from common.errors import SettingsError, run_main
from common.settings import Settings
from common.settings.options import OPTIONS, option_fields
from common.settings.schema import markdown_table

BEGIN, END = "<!-- settings: begin (make settings-table) -->", "<!-- settings: end -->"


def main(args: Sequence[str] = ()) -> int:
    """Print the table of settings, or check or write its copy in docs/configuration.md.

    Args:
        args: Empty to print, `--check FILE` to compare, or `--write FILE` to update; default: the
            arguments of the process.

    Returns:
        The exit code.

    Raises:
        SettingsError: FILE has no place for the table, or its table is out of date.
    """
    args = args or sys.argv[1:]
    options = [field for program in OPTIONS for field in option_fields(program).values()]
    table = markdown_table([*Settings.fields().values(), *options])
    if len(args) != 2 or args[0] not in ("--check", "--write"):
        print(table)
        return 0
    path = Path(args[1])
    text = path.read_text(encoding="utf-8")
    if text.count(BEGIN) != 1 or text.count(END) != 1:
        raise SettingsError(f"{path} has no place for the table of settings: {BEGIN} ... {END}")
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    updated = f"{before}{BEGIN}\n{table}\n{END}{after}"
    if args[0] == "--write":
        path.write_text(updated, encoding="utf-8")
    elif text != updated:
        raise SettingsError(
            f"the table of settings in {path} is out of date: `make settings-table`"
        )
    return 0


if __name__ == "__main__":
    sys.exit(run_main(main))
