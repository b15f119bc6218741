"""Hamiltonians in files: PauliSums as Cirq JSON, or operators as OpenFermion prints them."""

import itertools
import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import cirq

from qfleet.argument_checks import TEXT, checked
from qfleet.errors import ProblemError
from qfleet.problems.hamiltonian import HamiltonianFamily

MAX_QUBITS = 1024

MAX_FILE_TERMS = 1_000_000
"""Most terms of a file, with those of equal words and of all members."""

MAX_LETTERS = 1 << 28
"""Most letters of all Pauli words, which are one byte each."""

_SHOWN_FACTORS = 4
"""Most factors of a word in a message."""

_TERM = re.compile(r"([^\[\]]*)\[([^\[\]]*)\]")
_WORD_FIRST = re.compile(r"\s*\[\s*([A-Za-z]|\]\s*\S)")  # a term whose coefficient 1 is implied
_FACTOR = re.compile(r"([XYZ])([0-9]{1,4})")

Factors = tuple[tuple[cirq.Qid, str], ...]
"""A Pauli word: qubits with letters."""


@checked(text=TEXT, title=TEXT)
def parse(text: str, title: str) -> HamiltonianFamily:
    """Return the Hamiltonian in a text, or the family of a JSON list of PauliSums.

    The number of a line qubit is its place; grid and named qubits are numbered in Cirq's order.
    Nothing in the text is executed.

    Args:
        text: A PauliSum or a list of them as Cirq JSON; or terms such as `0.5 [X0 Y1] +`, which
            `str` of an OpenFermion QubitOperator has. A term without a coefficient has 1.
        title: Name of the file, for messages.

    Raises:
        ArgumentError: An argument is not a text.
        ProblemError: The text is neither, or too long, or a coefficient is complex or not finite.
    """
    if text.lstrip()[:1] in ("{", "[") and not _WORD_FIRST.match(text):
        members = list(_json_members(text, title))
    else:
        terms = _openfermion_terms(text.strip(), title)
        members = [list(itertools.islice(terms, MAX_FILE_TERMS + 1))]
    qubits = sorted({one for terms in members for word, _ in terms for one, _ in word})
    places = {qubit: number for number, qubit in enumerate(qubits)}
    if all(isinstance(qubit, cirq.LineQubit) for qubit in qubits):
        places = {qubit: qubit.x for qubit in qubits}
    width = max(2, *(place + 1 for place in places.values()), 0)
    if width > MAX_QUBITS:
        raise ProblemError(f"{title} has more than {MAX_QUBITS} qubits: number them from 0")
    count = sum(map(len, members))
    if count > MAX_FILE_TERMS or count * width > MAX_LETTERS:
        most = min(MAX_FILE_TERMS, MAX_LETTERS // width)
        raise ProblemError(
            f"{title} has more than {most:,} terms, the most of {width} qubits: add the terms of"
            " equal Pauli words, or use a smaller Hamiltonian"
        )
    return HamiltonianFamily.of(title, [_by_word(terms, places, width) for terms in members])


def _by_word(
    terms: Sequence[tuple[Factors, float]], places: Mapping[cirq.Qid, int], width: int
) -> dict[str, float]:
    """Return coefficients by Pauli word; those of equal words are added."""
    sums: dict[str, float] = {}
    for factors, coefficient in terms:
        letters = {places[qubit]: letter for qubit, letter in factors}
        word = "".join(letters.get(i, "I") for i in range(width))
        sums[word] = sums.get(word, 0.0) + coefficient
    return sums


def _term(factors: Factors, value: complex | str, title: str) -> tuple[Factors, float]:
    """Return a term, with its coefficient as a number.

    Raises:
        ProblemError: The coefficient is not a real number, or a qubit has two factors.
    """
    names = [f"{letter} of {qubit!s:.20}" for qubit, letter in factors[:_SHOWN_FACTORS]]
    shown = f"[{' '.join(names)}{' ...' * (len(factors) > _SHOWN_FACTORS)}]"
    if len({qubit for qubit, _ in factors}) < len(factors):
        raise ProblemError(f"{title} names one qubit twice in {shown}: multiply its factors")
    try:
        number = complex(value)
    except (TypeError, ValueError, OverflowError):
        raise ProblemError(
            f"{title} has the coefficient {str(value)[:40]!r} at {shown}: use real numbers"
        ) from None
    if not math.isfinite(number.real) or not math.isfinite(number.imag):
        raise ProblemError(f"{title} has the coefficient {number} at {shown}: use finite numbers")
    if abs(number.imag) > 1e-9 * max(1.0, abs(number.real)):
        raise ProblemError(
            f"{title} has the complex coefficient {number} at {shown}, so that it is not Hermitian:"
            " a Hamiltonian needs real coefficients"
        )
    return factors, number.real


def _openfermion_terms(text: str, title: str) -> Iterator[tuple[Factors, float]]:
    end = 0
    while match := _TERM.match(text, end):
        end = match.end()
        names = match[2].split()
        found = [_FACTOR.fullmatch(name) for name in names]
        if not all(found):
            raise ProblemError(
                f"{title} has the factor {names[found.index(None)][:20]!r}: factors are X, Y or Z"
                " with the number of a qubit, such as X0"
            )
        factors = tuple((cirq.LineQubit(int(one[2])), one[1]) for one in found if one)
        yield _term(factors, _coefficient(match[1], is_first=not match.start()), title)
    if not end or text[end:].strip() not in ("", "+"):
        raise ProblemError(
            f"{title} is not a Hamiltonian: give a cirq.PauliSum as JSON (cirq.to_json), or the"
            " text of an OpenFermion QubitOperator, such as `-1.0 [Z0 Z1] + 0.5 [X0]`"
        )


def _coefficient(text: str, *, is_first: bool) -> str:
    """Return the number in the text before a word; 1 is implied after a sign, or at the start."""
    signed = "".join(text.split())
    if signed in ("+", "-") or (is_first and not signed):
        return f"{signed}1"
    return signed.removeprefix("+")


def _json_members(text: str, title: str) -> Iterator[list[tuple[Factors, float]]]:
    try:
        content = json.loads(text)
        for member in content if isinstance(content, list) else [content]:
            if member["cirq_type"] != "PauliSum":
                raise ValueError
            yield [_json_term(factors, value, title) for factors, value in member["items"]]
    except ProblemError:
        raise
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError):
        raise ProblemError(
            f"{title} is not a cirq.PauliSum or a list of them as JSON: write it with cirq.to_json"
        ) from None


def _json_term(
    factors: Iterable[tuple[Mapping[str, Any], object]], value: Any, title: str
) -> tuple[Factors, float]:
    if isinstance(value, dict):
        value = complex(value["real"], value["imag"])
    word = tuple((_qubit(qubit, title), _letter(pauli)) for qubit, pauli in factors)
    return _term(word, value, title)


def _qubit(read: Mapping[str, Any], title: str) -> cirq.Qid:
    kind = read["cirq_type"]
    if kind == "NamedQubit":
        return cirq.NamedQubit(str(read["name"]))
    numbers = [read[key] for key in ("row", "col")] if kind == "GridQubit" else [read["x"]]
    if kind not in ("GridQubit", "LineQubit") or not all(type(one) is int for one in numbers):
        raise ValueError
    if kind == "GridQubit":
        return cirq.GridQubit(*numbers)
    if numbers[0] < 0:
        raise ProblemError(f"{title} has the line qubit {numbers[0]}: number qubits from 0")
    return cirq.LineQubit(numbers[0])


def _letter(pauli: object) -> str:
    kind = pauli["cirq_type"] if isinstance(pauli, dict) else pauli
    letter = str(kind).removeprefix("_Pauli")
    if letter not in ("X", "Y", "Z"):
        raise ValueError
    return letter
