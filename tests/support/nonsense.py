"""Values that no argument of the library takes, but for functions."""

import cirq
import numpy as np

NONSENSE = (object(), np.eye(3) * 1j, b"bytes", lambda: None, [[1, 2], [3]], -7.5, cirq.CX)
