"""TensorFlow's connection to its peers, without Python's interpreter lock.

TensorFlow connects all workers in one call of its C interface, which returns when all have arrived.
Its Python binding keeps the interpreter lock meanwhile, so that no thread of this process runs: not
the one that waits for SIGTERM, not the watchdog. ctypes releases the lock.
"""

import ctypes
import importlib
from pathlib import Path

from qfleet.tensorflow.runtime import tf

LIBRARY = "libtensorflow_cc.so.2"
BINDINGS = "tensorflow.python.pywrap_tfe"
FUNCTION = "TFE_EnableCollectiveOps"


def install() -> None:
    """Replace the binding; without the C function, TensorFlow keeps its own."""
    bindings = importlib.import_module(BINDINGS)
    try:
        library = ctypes.CDLL(str(Path(tf.__file__).parent / LIBRARY))
        connect = getattr(library, FUNCTION)
    except (OSError, AttributeError):
        return
    connect.argtypes = (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_size_t, ctypes.c_void_p)
    connect.restype = None
    library.TF_NewStatus.restype = ctypes.c_void_p
    library.TF_Message.restype = ctypes.c_char_p
    for name in ("TF_GetCode", "TF_Message", "TF_DeleteStatus"):
        getattr(library, name).argtypes = (ctypes.c_void_p,)

    def enable_collective_ops(context: object, server: bytes) -> None:
        status = library.TF_NewStatus()
        try:
            connect(_pointer(context), server, len(server), status)
            if code := library.TF_GetCode(status):
                message = library.TF_Message(status).decode("utf-8", "replace")
                raise tf.compat.v1.errors.exception_type_from_error_code(code)(None, None, message)
        finally:
            library.TF_DeleteStatus(status)

    setattr(bindings, FUNCTION, enable_collective_ops)


def _pointer(capsule: object) -> int:
    """Return the pointer in a capsule of Python's C interface."""
    interface = ctypes.pythonapi
    interface.PyCapsule_GetName.restype = ctypes.c_char_p
    interface.PyCapsule_GetName.argtypes = (ctypes.py_object,)
    interface.PyCapsule_GetPointer.restype = ctypes.c_void_p
    interface.PyCapsule_GetPointer.argtypes = (ctypes.py_object, ctypes.c_char_p)
    pointer = interface.PyCapsule_GetPointer(capsule, interface.PyCapsule_GetName(capsule))
    return int(pointer)
