"""Candidates of a user's program, such as one that asks a language model."""

import contextlib
import json
import math
import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import IO

import cirq
import sympy

from qfleet.argument_checks import NAMES, integer, number
from qfleet.circuits.circuit_json import from_json, to_json
from qfleet.errors import ArgumentError, CircuitError, LibraryError
from qfleet.search.methods import SearchMethod, Task
from qfleet.search.qasm import from_qasm
from qfleet.search.records import Candidate, Result
from qfleet.search.space import free_angle

MAX_OUTPUT = 1 << 24
"""Most bytes that a program may write."""

_LOOK_SECONDS = 0.2  # between two looks at the output of a program
_SHOWN_ERROR = 200  # bytes of the error output of a program
_ATTEMPTS = 3  # processes in a row that propose no circuit


class ProposerError(ArgumentError):
    """The program of a user failed, or proposed no circuit."""


class External(SearchMethod):
    """Candidates that a program proposes: one process per generation.

    The process reads lines of JSON until its input ends. The first has the names of the `qubits`,
    their `count` and the number of the `generation`. Each earlier result follows with its `qasm`,
    `error`, `energy`, `two_qubit_gates` and `depth`, and then each refused proposal of this search
    with the reason as `invalid`. The process writes one proposal per line: `{"qasm": "..."}` of
    OpenQASM 2 or 3, or `{"cirq": {...}}`, a circuit as Cirq JSON. Rotations about X, Y and Z are
    trained from their angles on; all other gates are kept.

    Args:
        command: The program and its arguments; no shell reads them.
        seconds: Time limit of a process, which the end of the budget stops, too.
        generations: Processes of a search.
        most: Most proposals that are taken of a process.

    Attributes:
        invalid: One sentence for each proposal that was refused.
    """

    name = "external"

    def __init__(
        self, command: Sequence[str], seconds: float = 60.0, generations: int = 10, most: int = 64
    ) -> None:
        self.command: tuple[str, ...] = NAMES(command, "command")
        if not self.command:
            raise ArgumentError("command is empty: pass the program and its arguments")
        self.seconds = number(seconds, "seconds")
        if self.seconds <= 0:
            raise ArgumentError(f"seconds is {seconds}: pass a positive time limit")
        self.generations = integer(1)(generations, "generations")
        self.most = integer(1)(most, "most")
        self.invalid: list[str] = []

    @property
    def generation(self) -> int:
        """Most candidates of the first generation."""
        return 1

    def ask(self, task: Task, history: Sequence[Result]) -> list[Candidate]:
        """Return the candidates of the next generation; see `SearchMethod.ask`.

        A failure of the program in a later generation ends the search: `invalid` has the sentence.

        Raises:
            ProposerError: In the first generation, the program can't be started, fails, exceeds the
                time limit or the budget, writes nothing, or none of its proposals is a circuit,
                three times in a row; the message has one sentence.
        """
        generation = history[-1].generation + 1 if history else 0
        if generation >= self.generations:
            return []
        try:
            found = self._proposals(task, history, generation)
        except ProposerError as error:
            if not history:
                raise
            self.invalid.append(str(error))
            return []
        if not found and not history:
            raise ProposerError(
                f"{self._shown} has written nothing: let it write a line of JSON for each circuit"
            )
        return found

    def _proposals(self, task: Task, history: Sequence[Result], generation: int) -> list[Candidate]:
        """Return the circuits of the first process that proposes some, of up to _ATTEMPTS."""
        refused = 0
        for _ in range(_ATTEMPTS):
            lines = self._run("\n".join(self._input(task, history, generation)) + "\n", task)
            found: list[Candidate] = []
            for line in lines:
                if len(found) == self.most:
                    break
                try:
                    found.append(proposal(line, task.space.qubits))
                except LibraryError as error:
                    refused += 1
                    self.invalid.append(str(error))
            if found or not lines:
                return found
        raise ProposerError(
            f"none of the {refused} proposals of {self._shown} is a circuit: the last"
            f" was refused, since {self.invalid[-1]}"
        )

    @property
    def _shown(self) -> str:
        """The command for messages, such as "python propose.py"."""
        return " ".join([Path(self.command[0]).name, *self.command[1:]])[:80]

    def _input(self, task: Task, history: Sequence[Result], generation: int) -> list[str]:
        names = [str(qubit) for qubit in task.space.qubits]
        lines: list[dict[str, object]] = [
            {"qubits": names, "count": len(names), "generation": generation}
        ]
        for one in history:
            circuit = resolved(one.candidate) or task.space.circuit(
                one.candidate.gates, one.candidate.angles
            )
            lines.append(
                {
                    "qasm": cirq.qasm(circuit, args=cirq.QasmArgs(version="2.0")),
                    "error": one.error,
                    "energy": one.energy,
                    "two_qubit_gates": one.two_qubit_gates,
                    "depth": one.depth,
                }
            )
        lines += [{"invalid": reason} for reason in self.invalid]
        return [json.dumps(line) for line in lines]

    def _run(self, text: str, task: Task) -> list[str]:
        """Return the lines that a process writes for a text, before the budget ends."""
        program = self._shown
        left = max(task.deadline - time.monotonic(), 0.0)
        with (  # a pipe would have to be read while the process waits
            tempfile.TemporaryFile() as output,
            tempfile.TemporaryFile() as errors,
        ):
            try:
                process = subprocess.Popen(
                    self.command,
                    stdin=subprocess.PIPE,
                    stdout=output,
                    stderr=errors,
                    start_new_session=True,
                )
            except OSError as error:
                raise ProposerError(
                    f"{self.command[0][:80]} can't be started: {error.strerror}; name a program,"
                    " or an interpreter and its script"
                ) from None
            try:
                files = (output, errors)
                _await(process, program, text.encode(), files, min(self.seconds, left))
            except subprocess.TimeoutExpired as error:
                advice = "raise the budget" if left < self.seconds else "let it end earlier"
                raise ProposerError(
                    f"{program} has not ended after {error.timeout:.3g} s, so that it was stopped:"
                    f" {advice}"
                ) from None
            finally:
                _stop(process)
            if process.returncode:
                raise ProposerError(
                    f"{program} ended with the exit code {process.returncode}{_last_line(errors)}:"
                    " let it end with 0"
                )
            output.seek(0)
            content = output.read().decode(errors="replace")
        return [line for line in content.splitlines() if line.strip()]


def proposal(line: str, qubits: Sequence[cirq.Qid]) -> Candidate:
    """Return the candidate of a proposed circuit, whose rotations become angles.

    Args:
        line: A line of JSON, as `External` describes it.
        qubits: The qubits of the problem.

    Raises:
        CircuitError: It is not a circuit on these qubits.
    """
    circuit = _circuit(line, qubits)
    operations: list[cirq.Operation] = [cirq.I(qubit) for qubit in qubits]
    angles: list[float] = []
    for one in circuit.all_operations():
        if unknown := sorted(set(one.qubits) - set(qubits)):
            raise CircuitError(
                f"{str(one)[:60]} acts on {unknown[0]}: use the qubits"
                f" {', '.join(str(qubit) for qubit in qubits)}"
            )
        if cirq.is_parameterized(one) or not cirq.has_unitary(one):
            raise CircuitError(f"{str(one)[:60]} has symbols or is not unitary: use fixed gates")
        free, value = free_angle(one, f"a{len(angles)}")
        operations.append(free)
        angles += value
    return Candidate((), tuple(angles), to_json(cirq.Circuit(operations)), "proposal")


def resolved(candidate: Candidate) -> cirq.Circuit | None:
    """Return the circuit of a candidate that is not one of a space; None for others."""
    if not candidate.circuit:
        return None
    values = {sympy.Symbol(f"a{at}"): angle for at, angle in enumerate(candidate.angles)}
    return cirq.resolve_parameters(from_json(candidate.circuit), values)


def _circuit(line: str, qubits: Sequence[cirq.Qid]) -> cirq.Circuit:
    content = _parsed(line)
    if isinstance(content, dict) and isinstance(content.get("qasm"), str):
        return from_qasm(content["qasm"], qubits)
    if isinstance(content, dict) and "cirq" in content:
        inner = content["cirq"]
        try:
            return from_json(json.dumps(_parsed(inner) if isinstance(inner, str) else inner))
        except ValueError as error:
            raise CircuitError(f"the Cirq JSON can't be read: {str(error)[:200]}") from None
    raise CircuitError(
        f"{line.strip()[:40]!r} is not a proposal: write a line of JSON with the key qasm or cirq"
    )


def _parsed(text: str) -> object:
    """Return the content of JSON with finite numbers; None for all other texts."""
    try:
        return json.loads(text, parse_constant=_finite, parse_float=_finite)
    except (ValueError, RecursionError):
        return None


def _finite(text: str) -> float:
    if not math.isfinite(value := float(text)):
        raise ValueError(text)
    return value


def _await(
    process: subprocess.Popen[bytes],
    program: str,
    text: bytes,
    outputs: Sequence[IO[bytes]],
    most: float,
) -> None:
    """Wait for the end of a process that reads a text.

    Raises:
        ProposerError: It writes more than MAX_OUTPUT.
        TimeoutExpired: It takes longer.
    """
    end = time.monotonic() + most
    given: bytes | None = text
    while True:
        try:
            process.communicate(given, timeout=max(min(end - time.monotonic(), _LOOK_SECONDS), 0))
        except subprocess.TimeoutExpired as error:
            given = None  # it is kept, and may be given once
            if time.monotonic() >= end:
                raise subprocess.TimeoutExpired(error.cmd, most) from None
        if sum(os.fstat(one.fileno()).st_size for one in outputs) > MAX_OUTPUT:
            raise ProposerError(
                f"{program} has written more than {MAX_OUTPUT >> 20} MiB, so that it"
                " was stopped: let it write a line for each circuit"
            )
        if process.returncode is not None:
            return


def _last_line(errors: IO[bytes]) -> str:
    """Return the last line of the error output of a process in parentheses, if there is one."""
    errors.seek(-min(errors.seek(0, os.SEEK_END), _SHOWN_ERROR), os.SEEK_END)
    lines = errors.read().decode(errors="replace").split("\n")
    last = next((line.strip() for line in reversed(lines) if line.strip()), "")
    return f" ({''.join(one for one in last if one.isprintable())})" if last else ""


def _stop(process: subprocess.Popen[bytes]) -> None:
    """End a process and its children."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
