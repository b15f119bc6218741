"""The command line of a study or of a search, and the names that the user gave on it."""

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from common.errors import SettingsError
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


@contextmanager
def settings_named_as_given(words: Mapping[str, str]) -> Iterator[None]:
    """Replace the names of settings in errors of the block by those on the command line.

    Args:
        words: The word of the user by variable, of `read_words`.

    Raises:
        SettingsError: The block raised one; its text is replaced.
    """
    try:
        yield
    except SettingsError as error:
        message = str(error)
        for name, word in words.items():
            message = re.sub(rf"\b{name}\b", word, message)
        raise SettingsError(message) from None
