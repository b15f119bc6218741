"""The user's own model, module:factory, and errors in its code."""

import importlib
import re
import sys
import sysconfig
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from common.errors import SettingsError, as_qfleet_error
from common.settings import Settings
from qfleet.tensorflow.runtime import keras, tf

Factory = Callable[[int, Settings], keras.Model]

_ROOT = Path(__file__).resolve().parents[2]
_OWN_CODE = tuple(f"{_ROOT / name}/" for name in ("qfleet", "common", "training", "inference"))
_LIBRARIES = (
    "<",  # no file
    *(f"{sysconfig.get_path(name)}/" for name in ("stdlib", "platstdlib", "purelib", "platlib")),
)
_GENERATED = "__autograph_generated_file"
_NODE = re.compile(r"\{\{\w+ [^{}]*\}\} ?")  # TensorFlow puts it before its messages
_INVALID_ARGUMENT = (ValueError, TypeError, tf.errors.InvalidArgumentError)

Frame = tuple[str, int]  # file and line


def build_user_model(features: int, settings: Settings) -> keras.Model:
    """Return the model of the user's factory(features, settings).

    The model is called here as in training, eagerly and (once per process) in a graph. So errors in
    it appear before the workers start.

    Raises:
        SettingsError: The factory can't be imported, fails, returns no Keras model, or one that
            fails when it is called.
    """
    name = settings.model.model
    factory = _import_factory(name)
    with report_user_errors(name):
        model = factory(features, settings)
    if not isinstance(model, keras.Model):
        raise SettingsError(
            f"MODEL={name} returned a {type(model).__name__}: the factory must return a"
            " Keras model (from qfleet.tensorflow.runtime import keras)"
        )
    with report_user_errors(name):
        model(tf.zeros([2, features]))
        if name not in _traced:
            _trace(model, features)
            _traced.add(name)
    return model


_traced: set[str] = set()  # a trace takes a second, and each initialization builds the model


def _trace(model: keras.Model, features: int) -> None:
    @tf.function
    def call(angles: tf.Tensor) -> tf.Tensor:
        return tf.distribute.get_strategy().run(model, (angles,), {"training": True})

    call.get_concrete_function(tf.TensorSpec([None, features]))


def _import_factory(name: str) -> Factory:
    module, _, attribute = name.partition(":")
    if "" not in sys.path:
        sys.path.insert(0, "")
    try:
        with report_user_errors(name):
            found = importlib.import_module(module)
    except ModuleNotFoundError as error:
        raise SettingsError(
            f"MODEL={name}: module {error.name!r} is not in this folder or on PYTHONPATH"
        ) from None
    if not hasattr(found, attribute):
        raise SettingsError(f"MODEL={name}: module {module!r} has no {attribute!r}")
    factory: Factory = getattr(found, attribute)
    return factory


@contextmanager
def report_user_errors(name: str) -> Iterator[None]:
    """Convert errors in the user's code to one sentence; a bug of qfleet keeps its traceback.

    Args:
        name: MODEL.

    Raises:
        SettingsError: Names the error, and the file and line in the user's code.
    """
    try:
        yield
    except Exception as error:
        for cause in reversed(_chain(error)):
            frames = [frame for frame in _frames(cause) if not _is_library(frame)]
            user_frames = [frame for frame in frames if not frame[0].startswith(_OWN_CODE)]
            expected = isinstance(cause, _INVALID_ARGUMENT) or as_qfleet_error(cause)
            if frames and frames[-1] not in user_frames and not expected:
                raise  # a bug of qfleet: its own code failed, and not because of an argument
            if not user_frames:
                continue
            message = " ".join(_NODE.sub("", f"{type(cause).__name__}: {cause}").split())
            file, line = user_frames[-1]
            raise SettingsError(f"MODEL={name} failed: {message} at {file}:{line}") from error
        raise


def _chain(error: BaseException) -> list[BaseException]:
    """Return the error and its causes, the innermost last."""
    chain: list[BaseException] = []
    following: BaseException | None = error
    while following is not None and following not in chain:
        chain.append(following)
        following = following.__cause__ or following.__context__
    return chain


def _frames(error: BaseException) -> list[Frame]:
    """Return the frames of an exception, the innermost last."""
    if isinstance(error, SyntaxError) and error.filename:
        return [(error.filename, error.lineno or 0)]
    converted = getattr(error, "ag_error_metadata", None)
    if converted is not None:  # AutoGraph maps generated code to its source
        return [(f.filename, f.lineno) for f in reversed(converted.translated_stack)]
    return [(f.filename, f.lineno or 0) for f in traceback.extract_tb(error.__traceback__)]


def _is_library(frame: Frame) -> bool:
    return _GENERATED in frame[0] or frame[0].startswith(_LIBRARIES)
