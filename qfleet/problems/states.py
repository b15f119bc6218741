"""Target states: by name, or from a NumPy file."""

import io
import zipfile
from collections.abc import Callable

import numpy as np

from qfleet.argument_checks import TEXT, checked, function, integer, optional
from qfleet.errors import ProblemError

STATES = ("ghz", "w", "dicke:k", "random:seed")
"""Forms of names."""

MAX_QUBITS = 20
NORM_TOLERANCE = 1e-6

MAX_AMPLITUDES = 1 << 24
"""Most amplitudes of all states of a file, which take 256 MiB."""

_MAX_BYTES = 16 * MAX_AMPLITUDES + (1 << 16)  # with the header of the array


@checked(name=TEXT, qubits=integer(0), read=optional(function(1, "a path")))
def target_states(name: str, qubits: int, read: Callable[[str], bytes] | None = None) -> np.ndarray:
    """Return target states, complex128 [states, 2**qubits], with norm 1.

    The first qubit is the most significant bit of an index.

    Args:
        name: One of STATES, or the path of a .npz or .npy file with one array: a state [2**qubits]
            or several [states, 2**qubits].
        qubits: Number of qubits.
        read: Returns the content of a file; by default of a local one.

    Raises:
        ArgumentError: An argument has the wrong type; the message names it.
        ProblemError: The name is unknown, or the file does not contain states of this width.
    """
    if not 1 <= qubits <= MAX_QUBITS:
        raise ProblemError(f"a target state of {qubits} qubits: allowed are 1 to {MAX_QUBITS}")
    if name.lower().endswith((".npz", ".npy")):
        return _from_file(name, qubits, read or _read_local)
    kind, _, value = name.partition(":")
    size = 1 << qubits
    ones = np.bitwise_count(np.arange(size))
    if name == "ghz":
        state = np.isin(np.arange(size), (0, size - 1)).astype(np.complex128)
    elif name == "w":
        state = (ones == 1).astype(np.complex128)
    elif kind == "dicke" and _is_count(value) and int(value) <= qubits:
        state = (ones == int(value)).astype(np.complex128)
    elif kind == "random" and _is_count(value):
        normal = np.random.Generator(np.random.PCG64(int(value))).normal(size=(2, size))
        state = normal[0] + 1j * normal[1]
    else:
        raise ProblemError(
            f"{name} is not a target state of {qubits} qubits: allowed are {', '.join(STATES)} with"
            f" k up to {qubits}, or the path of a .npz or .npy file"
        )
    return (state / np.linalg.norm(state))[None]


def _is_count(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) < 10


def _read_local(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError as error:
        raise ProblemError(f"{path} can't be read: {error.strerror}") from None


def _from_file(path: str, qubits: int, read: Callable[[str], bytes]) -> np.ndarray:
    loaded = _load(path, read(path))
    if loaded.dtype.kind not in "fciu":
        raise ProblemError(f"{path} has an array of type {loaded.dtype}: give complex numbers")
    size = 1 << qubits
    states = loaded[None] if loaded.ndim == 1 else loaded
    if states.ndim != 2 or states.shape[1] != size or not len(states):
        width = loaded.shape[-1] if loaded.ndim else 0
        found = width.bit_length() - 1
        advice = f"give an array of shape [{size}] or [states, {size}]"
        if found > 1 and found != qubits and 1 << found == width:
            advice = f"set QUBITS={found}"
        raise ProblemError(
            f"{path} has an array of shape {list(loaded.shape)}, but a state of {qubits} qubits has"
            f" {size} amplitudes: {advice}"
        )
    if states.size > MAX_AMPLITUDES:
        raise ProblemError(
            f"{path} has {len(states):,} states of {qubits} qubits: allowed are up to"
            f" {MAX_AMPLITUDES // size:,}"
        )
    if not np.isfinite(states).all():
        raise ProblemError(f"{path} has an amplitude that is infinite or NaN: use finite numbers")
    norms = np.linalg.norm(states, axis=1)
    if not norms.all():
        raise ProblemError(f"{path}: all amplitudes of state {norms.argmin() + 1} are 0")
    wrong = np.flatnonzero(np.abs(norms - 1) > NORM_TOLERANCE)
    if len(wrong):
        raise ProblemError(
            f"{path}: state {wrong[0] + 1} has the norm {float(norms[wrong[0]])}: divide its"
            " amplitudes by it, so that it is 1"
        )
    return states.astype(np.complex128)


def _load(path: str, content: bytes) -> np.ndarray:
    try:
        _refuse_bombs(path, content)
        loaded = np.load(io.BytesIO(content), allow_pickle=False)
        if isinstance(loaded, np.ndarray):
            return loaded
        if len(loaded.files) != 1:
            raise ProblemError(
                f"{path} has {len(loaded.files)} arrays: it needs one, the amplitudes"
            )
        found = loaded[loaded.files[0]]
    except ProblemError:
        raise
    except Exception:  # zipfile, zlib and the parser of headers raise anything for damaged files
        raise ProblemError(
            f"{path} is not a NumPy file of numbers: write the amplitudes with numpy.savez"
        ) from None
    if not isinstance(found, np.ndarray):
        raise ProblemError(f"{path} contains no array: write the amplitudes with numpy.savez")
    return found


def _refuse_bombs(path: str, content: bytes) -> None:
    """Refuse a small file that is unpacked to a large array."""
    if not zipfile.is_zipfile(io.BytesIO(content)):
        return
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        unpacked = sum(member.file_size for member in archive.infolist())
    if unpacked > _MAX_BYTES:
        raise ProblemError(
            f"{path} is unpacked to {unpacked:,} bytes: allowed are {MAX_AMPLITUDES:,} complex"
            " amplitudes"
        )
