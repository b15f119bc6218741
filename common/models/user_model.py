"""The user's own model, module:factory, and errors in its code."""

import importlib
import inspect
import linecache
import logging
import re
import sysconfig
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from common import user_code
from common.data.target import Target
from common.errors import SettingsError, as_qfleet_error
from common.settings import Settings
from common.text import plural
from qfleet.tensorflow.runtime import keras, tf

log = logging.getLogger("qfleet")

MAX_MESSAGE = 500
"""Most characters of an error of the user's code."""

MAX_FRAMES = 20
"""Most frames of a traceback that VERBOSE shows."""

Factory = Callable[..., object]
"""Of (features, settings), (features, settings, outputs), or (qubits, settings) for an ansatz."""

_ROOT = Path(__file__).resolve().parents[2]
_OWN_CODE = tuple(f"{_ROOT / name}/" for name in ("qfleet", "common", "training", "inference"))
_LIBRARIES = (
    "<",  # no file
    *(f"{sysconfig.get_path(name)}/" for name in ("stdlib", "platstdlib", "purelib", "platlib")),
)
_GENERATED = "__autograph_generated_file"
_NODE = re.compile(r"\{\{\w+ [^{}]*\}\} ?")  # TensorFlow puts it before its messages
_KERAS_CALL = re.compile(
    r'Exception encountered when calling layer "?(?P<layer>[^\s"]*)"? \(type \w+\)\.\s*'
    r"(?P<text>.*?)\s*Call arguments received by.*",
    re.DOTALL,
)
_TRACE = re.compile(r"in user code:.*\n\s+\w+: ", re.DOTALL)  # AutoGraph's, before the error
_KERAS_3 = re.compile(r"<KerasTensor shape=|A KerasTensor (is symbolic|cannot)")
_KERAS_ADVICE = (
    "Keras 3 does not work here: write `from qfleet.tensorflow.runtime import keras` in place of"
    " `import keras`, and qfleet.tensorflow.layers in place of qfleet.keras"
)
_INVALID_ARGUMENT = (ValueError, TypeError, tf.errors.InvalidArgumentError)

Frame = tuple[str, int]  # file and line


def build_user_model(features: int, settings: Settings, target: Target) -> keras.Model:
    """Return the model of the user's factory(features, settings) or (features, settings, outputs).

    The model is called here as in training, eagerly and (once per process) in a graph. So errors in
    it appear before the workers start. The caller is responsible for the right to import the
    module; see `common.user_code`.

    Raises:
        SettingsError: The factory can't be imported, is not a function of these arguments, fails,
            returns no Keras model, one that fails when it is called, one with other outputs than
            the target has, or one without weights to train.
    """
    name, verbose = settings.model.model, settings.job.verbose
    model = call_factory(settings, features, target.outputs)
    if not isinstance(model, keras.Model):
        if any(one.__module__.partition(".")[0] == "keras" for one in type(model).__mro__):
            raise SettingsError(f"MODEL={name} returned a model of Keras 3: {_KERAS_ADVICE}")
        raise SettingsError(
            f"MODEL={name} returned an object of type {type(model).__name__}: the factory must"
            " return a Keras model (from qfleet.tensorflow.runtime import keras)"
        )
    with report_user_errors(f"MODEL={name}", verbose=verbose):
        try:
            predictions = model(tf.zeros([2, features]))
        except ValueError:
            _check_inputs(name, model, features)
            raise
        if name not in _traced:
            _trace(model, features)
            _traced.add(name)
    _check_outputs(name, predictions, target)
    if not model.trainable_weights:
        raise SettingsError(
            f"MODEL={name} returned a model without trainable weights: give it a layer with some"
        )
    return model


def call_factory(settings: Settings, size: int, outputs: int | None = None) -> object:
    """Return the result of the user's factory.

    Args:
        settings: Settings of the run; MODEL names the factory.
        size: First argument: features, or the qubits of an ansatz.
        outputs: Third argument, if the factory has one of this name.

    Raises:
        SettingsError: The factory can't be imported or called, or fails.
    """
    name, verbose = settings.model.model, settings.job.verbose
    factory = import_factory(f"MODEL={name}", ("features", "settings"), verbose=verbose)
    with report_user_errors(f"MODEL={name}", verbose=verbose):
        third = (outputs,) if outputs and _takes_outputs(factory) else ()
        return factory(size, settings, *third)


_traced: set[str] = set()  # a trace takes a second, and each initialization builds the model


def _trace(model: keras.Model, features: int) -> None:
    @tf.function
    def call(angles: tf.Tensor) -> tf.Tensor:
        return tf.distribute.get_strategy().run(model, (angles,), {"training": True})

    call.get_concrete_function(tf.TensorSpec([None, features]))


def import_factory(title: str, parameters: Sequence[str], *, verbose: bool) -> Factory:
    """Import a user's function.

    Args:
        title: A setting with its value, such as MODEL=module:factory.
        parameters: Names of the function's parameters, for messages.
        verbose: As for `report_user_errors`.

    Raises:
        SettingsError: It can't be imported, or is not a function of these parameters.
    """
    module, _, attribute = title.partition("=")[2].partition(":")
    user_code.add_current_folder()
    try:
        with report_user_errors(title, verbose=verbose):
            found = importlib.import_module(module)
    except ModuleNotFoundError as error:
        raise SettingsError(
            f"{title}: module {error.name!r} is not in this folder or on PYTHONPATH"
        ) from None
    if not hasattr(found, attribute):
        raise SettingsError(f"{title}: module {module!r} has no {attribute!r}")
    factory = getattr(found, attribute)
    _check_factory(title, factory, parameters)
    checked: Factory = factory
    return checked


def _takes_outputs(factory: Callable[..., object]) -> bool:
    """Return True if a factory has a third parameter, the number of outputs."""
    return "outputs" in inspect.signature(factory).parameters


def _check_inputs(name: str, model: keras.Model, features: int) -> None:
    """Raise if a model that failed declares other inputs than the angles of an example.

    Raises:
        SettingsError: It does.
    """
    shapes = [one.shape[1:].as_list() for one in model.inputs or ()]
    if shapes and shapes != [[features]]:
        raise SettingsError(
            f"MODEL={name} has inputs of the shape {', '.join(map(str, shapes))} per example, but"
            f" an example has {plural(features, 'angle')}: give the model one input,"
            " `keras.Input((features,))`"
        )


def _check_outputs(name: str, predictions: object, target: Target) -> None:
    """Raise if a model returns another number of outputs than its target has.

    Raises:
        SettingsError: It does.
    """
    if isinstance(predictions, list | tuple | dict):
        raise SettingsError(
            f"MODEL={name} returned {len(predictions)} arrays, but needs one: give the Keras model"
            " one output"
        )
    shape = getattr(predictions, "shape", None)
    width = 1 if shape is not None and len(shape) == 1 else shape[-1] if shape else None
    if width != target.outputs:
        what = {
            "classes": f"one per class, for {len(target.classes)} classes",
            "signs": "one, whose sign is the class",
        }.get(target.kind, f"one, for TASK={target.task}")
        raise SettingsError(
            f"MODEL={name} returned {plural(width or 0, 'number')} per example, but needs"
            f" {target.outputs} ({what}): end the model with a layer of that width"
        )


def _check_factory(title: str, factory: object, parameters: Sequence[str]) -> None:
    """Raise if a factory is not a Python function of the parameters."""
    expected = f"({', '.join(parameters)})"
    if not inspect.isfunction(factory):
        kind = "class" if inspect.isclass(factory) else type(factory).__name__
        raise SettingsError(
            f"{title} is a {kind}: it must be a function, defined as `def build{expected}:`"
        )
    signature = inspect.signature(factory)
    try:
        signature.bind(*parameters, *([1] if _takes_outputs(factory) else []))
    except TypeError:
        code = inspect.unwrap(factory).__code__
        raise SettingsError(
            f"{title} can't be called with {expected}, since it is defined as"
            f" `def {factory.__name__}{signature}` at {code.co_filename}:{code.co_firstlineno}:"
            f" change its parameters to {expected}"
        ) from None


@contextmanager
def report_user_errors(title: str, *, verbose: bool = False) -> Iterator[None]:
    """Convert errors in the user's code to one sentence; a bug of qfleet keeps its traceback.

    Args:
        title: A setting with its value, such as MODEL=module:factory.
        verbose: Log the frames of the traceback that are in the user's code.

    Raises:
        SettingsError: Names the error, and the file and line in the user's code.
    """
    try:
        yield
    except (Exception, SystemExit) as error:
        for cause in reversed(_chain(error)):
            frames = [frame for frame in _frames(cause) if not _is_library(frame)]
            user_frames = [frame for frame in frames if not frame[0].startswith(_OWN_CODE)]
            expected = (
                isinstance(cause, _INVALID_ARGUMENT)
                or as_qfleet_error(cause)
                or isinstance(getattr(cause, "obj", None), Settings)  # an unknown setting
            )
            if frames and frames[-1] not in user_frames and not expected:
                raise  # a bug of qfleet: its own code failed, and not because of an argument
            if not user_frames:
                continue
            message = _KERAS_ADVICE if _is_of_keras_3(cause) else _message(cause)
            file, line = user_frames[-1]
            if verbose:
                log.warning(_user_traceback(user_frames, message))
            raise SettingsError(f"{title} failed: {message} at {file}:{line}") from error
        raise


def _is_of_keras_3(error: BaseException) -> bool:
    """Return True if the user's code imports Keras 3, or mixes it with the Keras of TensorFlow."""
    if isinstance(error, ModuleNotFoundError):
        return (error.name or "").partition(".")[0] == "keras"
    return isinstance(error, _INVALID_ARGUMENT) and bool(_KERAS_3.search(str(error)))


def _message(error: BaseException) -> str:
    """Return type and text of an error in one line."""
    try:
        text = str(error)
    except Exception:  # an exception of the user may fail here as well
        text = "(its text can't be shown)"
    while found := _KERAS_CALL.fullmatch(text):
        text = f"in layer {found['layer']!r}: {_TRACE.sub('', found['text'])}"
    message = " ".join(_NODE.sub("", f"{type(error).__name__}: {text}").split())
    return message if len(message) <= MAX_MESSAGE else message[:MAX_MESSAGE] + "..."


def _user_traceback(frames: Sequence[Frame], message: str) -> str:
    lines = ["Traceback in the user's code (most recent call last):"]
    for file, line in frames[-MAX_FRAMES:]:
        lines += [f"  {file}:{line}", f"    {linecache.getline(file, line).strip()}"]
    return "\n".join([*lines, message])


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
