"""The person's own model, module:factory, and whose mistake it is when something fails."""

import importlib
import re
import sys
import sysconfig
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from common.errors import QfleetError, SettingsError
from common.settings import Settings
from qfleet.tensorflow.runtime import keras, tf

Factory = Callable[[int, Settings], keras.Model]

_ROOT = Path(__file__).resolve().parents[2]
_OURS = tuple(f"{_ROOT / room}/" for room in ("common", "training", "inference"))
_OTHERS = (
    "<",  # no file
    *(f"{sysconfig.get_path(name)}/" for name in ("stdlib", "platstdlib", "purelib", "platlib")),
)
_NODE = re.compile(r"\{\{\w+ [^{}]*\}\} ?")  # what TensorFlow puts before its sentences
_GENERATED = "__autograph_generated_file"
# What our code says of arguments that it can't take; anything else that it raises is a bug of ours.
_SAID = (QfleetError, ValueError, TypeError, tf.errors.InvalidArgumentError)


def build_user_model(features: int, settings: Settings) -> keras.Model:
    """What the person's factory(features, settings) makes.

    It is called here, eagerly and once a process in a graph, as training calls it: so what is wrong
    with it is said before the gang is at work.

    Raises:
        SettingsError: The factory can't be imported, fails, makes no model, or one that fails when
            it is called.
    """
    name = settings.model.model
    factory = _imported(name)
    with report_user_errors(name):
        model = factory(features, settings)
    if not isinstance(model, keras.Model):
        raise SettingsError(
            f"MODEL={name} made a {type(model).__name__}: the factory must return a"
            " Keras model (from qfleet.tensorflow.runtime import keras)"
        )
    with report_user_errors(name):
        model(tf.zeros([2, features]))
        if name not in _traced:
            _trace(model, features)
            _traced.add(name)
    return model


_traced: set[str] = set()  # a trace takes a second, and several starts make as many models


def _trace(model: keras.Model, features: int) -> None:
    @tf.function
    def call(angles: tf.Tensor) -> tf.Tensor:
        return tf.distribute.get_strategy().run(model, (angles,), {"training": True})

    call.get_concrete_function(tf.TensorSpec([None, features]))


def _imported(name: str) -> Factory:
    module, _, attribute = name.partition(":")
    if "" not in sys.path:
        sys.path.insert(0, "")
    try:
        with report_user_errors(name):
            found = importlib.import_module(module)
    except ModuleNotFoundError as error:
        raise SettingsError(
            f"MODEL={name}: there is no module {error.name!r} in this folder or on PYTHONPATH"
        ) from None
    if not hasattr(found, attribute):
        raise SettingsError(f"MODEL={name}: module {module!r} has no {attribute!r}")
    return getattr(found, attribute)


@contextmanager
def report_user_errors(name: str) -> Iterator[None]:
    """Turn what fails in the person's code into one sentence; a bug of ours keeps its traceback.

    Args:
        name: What MODEL was set to.
    """
    try:
        yield
    except Exception as error:
        found = _mistake(error)
        if found is None:
            raise
        cause, place = found
        text = _NODE.sub("", f"{type(cause).__name__}: {cause}")
        reason = " ".join(text.split())
        raise SettingsError(
            f"MODEL={name} failed: {reason} at {place.file}:{place.line}"
        ) from error


class _Place(NamedTuple):
    file: str
    line: int

    @property
    def is_others(self) -> bool:
        return _GENERATED in self.file or self.file.startswith(_OTHERS)

    @property
    def is_ours(self) -> bool:
        return not self.is_others and self.file.startswith(_OURS)


def _mistake(error: BaseException) -> tuple[BaseException, _Place] | None:
    """The first exception of a chain that passed through the person's code, and where it did.

    None where it passed through none, or came from a bug of ours.
    """
    chain: list[BaseException] = []
    ahead: BaseException | None = error
    while ahead is not None and ahead not in chain:
        chain.append(ahead)
        ahead = ahead.__cause__ or ahead.__context__
    for one in reversed(chain):
        places = [place for place in _places(one) if not place.is_others]
        if places and places[-1].is_ours and not isinstance(one, _SAID):
            return None
        theirs = [place for place in places if not place.is_ours]
        if theirs:
            return one, theirs[-1]
    return None


def _places(error: BaseException) -> list[_Place]:
    """Where an exception passed, the innermost last."""
    if isinstance(error, SyntaxError) and error.filename:
        return [_Place(error.filename, error.lineno or 0)]
    converted: Any = getattr(error, "ag_error_metadata", None)
    if converted is not None:  # AutoGraph knows which lines its own came from
        return [_Place(f.filename, f.lineno) for f in reversed(converted.translated_stack)]
    return [_Place(f.filename, f.lineno or 0) for f in traceback.extract_tb(error.__traceback__)]
