"""The command line of a study or of a search, and the names that the user gave on it."""

from collections.abc import Sequence

from common.settings import Settings
from common.settings.options import SYNONYMS, all_options
from common.settings.sources import require_one_value, split_args


def read_words(args: Sequence[str], program: str) -> tuple[dict[str, str], dict[str, str]]:
    """Return the texts of settings, and which were given by another name.

    Args:
        args: `NAME=value` or `--name=value`.
        program: `study` or `search`.

    Returns:
        The text by setting, such as `seed`; and the word of the user by variable, such as `SEEDS`
        by `SEED`.

    Raises:
        SettingsError: A name is unknown, or a setting has two values.
    """
    names = SYNONYMS[program]
    fields = {**all_options(), **Settings.fields()}  # options are refused with what uses them
    given: dict[str, str] = {}
    shown: dict[str, str] = {}
    words: dict[str, str] = {}
    for word, field, text in split_args(args, fields, names):
        last = f"{word.upper()}={text}"
        require_one_value(last, shown.setdefault(field.name, last))
        given[field.name] = text
        if word in names:
            words[field.variable] = word.upper()
    return given, words
