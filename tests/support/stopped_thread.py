"""A call that is stopped at any line of some modules, as SIGSTOP or a pause of a machine stops it.

Tests stop it at each line in turn, let others write, and then let it continue.
"""

import sys
import threading
from collections.abc import Callable
from types import FrameType, ModuleType
from typing import Any

from tests.support.patience import seconds


class StoppedThread:
    """Calls a function in a thread up to its line number `stop`, and then waits for `resume`.

    Args:
        function: The function.
        modules: Lines in these modules count.
        stop: Number of lines before the stop.

    Attributes:
        stopped: False if the function ended before that line.
        error: The exception of the function.
    """

    def __init__(self, function: Callable[[], object], modules: list[ModuleType], stop: int):
        self._function, self._files = function, {module.__file__ for module in modules}
        self._left = stop
        self._paused, self._resume = threading.Event(), threading.Event()
        self.stopped = False
        self.error: Exception | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        assert self._paused.wait(seconds(60))

    def resume(self) -> None:
        """Let the function continue to its end."""
        self._resume.set()
        self._thread.join(seconds(60))
        assert not self._thread.is_alive()

    def _run(self) -> None:
        sys.settrace(self._trace)
        try:
            self._function()
        except Exception as error:
            self.error = error
        finally:
            sys.settrace(None)
            self._paused.set()

    def _trace(self, frame: FrameType, event: str, argument: Any) -> Any:
        if frame.f_code.co_filename not in self._files:
            return None
        if event == "line":
            if self._left == 0:
                self.stopped = True
                self._paused.set()
                self._resume.wait(seconds(60))
            self._left -= 1
        return self._trace
