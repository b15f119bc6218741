"""Events of the workers on the launcher's output: lines, and a progress bar on a terminal."""

import sys
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Self

from rich.console import Console

from common import events
from common.epoch_bar import EpochBar
from common.events import Event
from common.waiting import PIPE_SECONDS
from training.process.watchdog import REPORT_SECONDS


class TrainingDisplay:
    """Shows events of workers. On a terminal, epochs move a progress bar instead of printing lines.

    The bar leaves a learning curve. Where this process streams its own events, it forwards those of
    the workers.

    A stage or an epoch that takes long has a line now and then.

    Args:
        clock: Returns the time in seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._printed_time = clock()
        self._bar: EpochBar | None = None
        if sys.stdout.isatty() and not events.is_streaming():
            self._bar = EpochBar(Console())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar:
            self._bar.end()

    def show(self, event: Event) -> None:
        """Print the event, move the bar, or forward it."""
        if events.is_streaming():
            events.forward(event)
        elif event.kind in events.LOG_ONLY_KINDS or self._is_minor(event):
            return
        elif self._bar is None:
            self._print(event)
        elif self._bar.move(event):
            return
        elif event.kind in events.LAST_KINDS:
            self._bar.end()
            events.forward(event)
        elif text := events.render(event):
            self._bar.bar.console.print(text, markup=False, highlight=False, soft_wrap=True)

    def _is_minor(self, event: Event) -> bool:
        """Return True for a report that adds nothing: the bar moves, or a line is new."""
        if event.kind != "waiting" or event.items("missing"):
            return False
        if self._bar:
            return self._bar.is_shown and event.number("seconds") < REPORT_SECONDS
        return self._clock() < self._printed_time + PIPE_SECONDS

    def _print(self, event: Event) -> None:
        """Print the event, or the step of an epoch that takes long."""
        if event.kind == "progress":
            if self._clock() < self._printed_time + PIPE_SECONDS:
                return
            step, steps = event.integer("step"), event.integer("steps")
            place = f"epoch {event.integer('epoch')}/{event.integer('epochs')}"
            event = replace(event, message=f"{place}  step {step} of {steps}")
        if events.render(event):
            self._printed_time = self._clock()
        events.forward(event)
