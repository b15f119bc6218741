"""Files of DATA that hold Hamiltonians or target states."""

from common.data.formats import read_bytes
from common.settings.groups.experiment import GATE, PROBLEM_FILES, DataSettings

_CONTENTS = {"energy": "a Hamiltonian", "state": "target states", GATE: "a gate"}
_MAX_FILE_MIB = 64


def read_problem(data: DataSettings) -> bytes:
    """Return the content of the file DATA.

    Raises:
        DataError: It is missing, unreadable or too large.
    """
    kind = f"{_CONTENTS[data.task]} ({', '.join(PROBLEM_FILES[data.task])})"
    return read_bytes(data.data, min(data.data_memory, _MAX_FILE_MIB), kind)
