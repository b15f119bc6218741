"""Random circuits of all supported gates, drawn by hypothesis.

The tables name the kinds; a test counts that each of them was drawn.
"""

import itertools
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from random import Random
from typing import TYPE_CHECKING

import cirq
import numpy as np
import sympy

if TYPE_CHECKING:  # a machine with a GPU may not have hypothesis
    from hypothesis import strategies as st

INPUTS = ("x0", "x1", "x2")
PARAMETERS = ("p0", "p1", "p2", "p3")
BATCHES = (1, 2, 3, 17, 33)
MOST_GATES = 14
PARTS, PART_SIZE = range(10), 50  # the random circuits of the exhaustive tier

Turn = Callable[[], sympy.Expr]
# A kind makes a gate from an exponent or angle (any expression), a phase (an affine expression,
# because Cirq evaluates others slowly) and a seed for matrices.
Kind = Callable[[Turn, Turn, int], cirq.Gate]


class OwnGate(cirq.EigenGate):
    """A custom gate on three qubits that is defined by its eigenspaces only."""

    def _num_qubits_(self) -> int:
        return 3

    def _eigen_components(self) -> list[tuple[float, np.ndarray]]:
        basis = cirq.testing.random_unitary(8, random_state=5)
        low = basis[:, :3] @ basis[:, :3].conj().T
        return [(0.0, low), (0.75, np.eye(8) - low)]


def _unitary(qubits: int, seed: int) -> cirq.Gate:
    return cirq.MatrixGate(cirq.testing.random_unitary(2**qubits, random_state=seed))


def _paulis(text: str) -> cirq.DensePauliString:
    return cirq.DensePauliString(text)


ONE: Mapping[str, Kind] = {
    "X": lambda e, f, n: cirq.X ** e(),
    "Y": lambda e, f, n: cirq.Y ** e(),
    "Z": lambda e, f, n: cirq.Z ** e(),
    "H": lambda e, f, n: cirq.H ** e(),
    "X, shifted": lambda e, f, n: cirq.XPowGate(exponent=e(), global_shift=0.3),
    "rx": lambda e, f, n: cirq.rx(e()),
    "ry": lambda e, f, n: cirq.ry(e()),
    "rz": lambda e, f, n: cirq.rz(e()),
    "PhasedX": lambda e, f, n: cirq.PhasedXPowGate(phase_exponent=f(), exponent=e()),
    "PhasedXZ": lambda e, f, n: cirq.PhasedXZGate(
        x_exponent=e(), z_exponent=e(), axis_phase_exponent=f()
    ),
    "MatrixGate on 1": lambda e, f, n: _unitary(1, n),
    "fixed on 1": lambda e, f, n: (
        cirq.H, cirq.T, cirq.S**-1, cirq.X, cirq.Y**0.5, cirq.I,
        cirq.SingleQubitCliffordGate.X_sqrt, cirq.WaitGate(cirq.Duration(nanos=5)),
    )[n % 8],
}  # fmt: skip
TWO: Mapping[str, Kind] = {
    "XX": lambda e, f, n: cirq.XX ** e(),
    "YY": lambda e, f, n: cirq.YY ** e(),
    "ZZ": lambda e, f, n: cirq.ZZ ** e(),
    "CZ": lambda e, f, n: cirq.CZ ** e(),
    "CX": lambda e, f, n: cirq.CX ** e(),
    "SWAP": lambda e, f, n: cirq.SWAP ** e(),
    "ISWAP": lambda e, f, n: cirq.ISWAP ** e(),
    "ms": lambda e, f, n: cirq.ms(e()),
    "givens": lambda e, f, n: cirq.givens(e()),
    "FSim": lambda e, f, n: cirq.FSimGate(e(), f()),
    "PhasedFSim": lambda e, f, n: cirq.PhasedFSimGate(f(), f(), f(), f(), f()),
    "PhasedISwap": lambda e, f, n: cirq.PhasedISwapPowGate(phase_exponent=f(), exponent=e()),
    "PauliInteraction": lambda e, f, n: cirq.PauliInteractionGate(
        cirq.Y, bool(n % 2), cirq.X, bool(n % 3), exponent=e()
    ),
    "diagonal on 2": lambda e, f, n: cirq.TwoQubitDiagonalGate([e(), 0.4, f(), -1.1]),
    "PauliStringPhasor on 2": lambda e, f, n: cirq.PauliStringPhasorGate(
        _paulis("XY"), exponent_neg=f(), exponent_pos=f()
    ),
    "ParallelGate": lambda e, f, n: cirq.ParallelGate(cirq.Y ** e(), 2),
    "MatrixGate on 2": lambda e, f, n: _unitary(2, n),
    "fixed on 2": lambda e, f, n: (
        cirq.CNOT, cirq.CZ, cirq.SWAP, cirq.ISWAP, cirq.SQRT_ISWAP_INV, _paulis("YZ"),
    )[n % 6],
}  # fmt: skip
THREE: Mapping[str, Kind] = {
    "CCX": lambda e, f, n: cirq.CCX ** e(),
    "CCZ": lambda e, f, n: cirq.CCZ ** e(),
    "PauliStringPhasor on 3": lambda e, f, n: cirq.PauliStringPhasorGate(
        _paulis("XZY"), exponent_neg=f()
    ),
    "diagonal on 3": lambda e, f, n: cirq.ThreeQubitDiagonalGate(
        [e(), 0.1, 0.9, f(), -0.4, 2.0, e(), 0.3]
    ),
    "EigenGate of one's own": lambda e, f, n: OwnGate(exponent=e()),
    "MatrixGate on 3": lambda e, f, n: _unitary(3, n),
    "fixed on 3": lambda e, f, n: (
        cirq.CCX, cirq.CSWAP, cirq.QuantumFourierTransformGate(3), _paulis("XYZ"),
        cirq.QubitPermutationGate([2, 0, 1]),
    )[n % 5],
}  # fmt: skip
FOUR: Mapping[str, Kind] = {
    "PauliStringPhasor on 4": lambda e, f, n: cirq.PauliStringPhasorGate(
        _paulis("YXZX"), exponent_neg=f()
    ),
    "ParallelGate on 4": lambda e, f, n: cirq.ParallelGate(cirq.X ** e(), 4),
    "MatrixGate on 4": lambda e, f, n: _unitary(4, n),
    "fixed on 4": lambda e, f, n: (
        cirq.X.controlled(3), cirq.QuantumFourierTransformGate(4), _paulis("XXZY"),
    )[n % 3],
}  # fmt: skip
TABLES = (ONE, TWO, THREE, FOUR)
CONTROLLED = "controlled"
SUM_OF_PRODUCTS = "controlled by a sum of products"
CIRCUIT = "CircuitOperation"
INVERSE = "inverse"
KINDS = {name for table in TABLES for name in table}
KINDS |= {CONTROLLED, SUM_OF_PRODUCTS, CIRCUIT, INVERSE}


@dataclass(frozen=True)
class Case:
    """A circuit, its observables and its batch.

    Attributes:
        circuit: On 2 qubits or more, of symbols among INPUTS and PARAMETERS.
        observables: What to read.
        batch: How many examples.
        seed: Of the symbols' values and the direction of the derivative.
        kinds: Which kinds of gates it has.
    """

    circuit: cirq.Circuit
    observables: tuple[cirq.PauliSum, ...]
    batch: int
    seed: int
    kinds: frozenset[str] = frozenset()


def affine(random: Random) -> sympy.Expr:
    """Draw a symbol times a number plus another number."""
    symbol = sympy.Symbol(random.choice((*INPUTS, *PARAMETERS)))
    factor = random.choice([1, -1, 0.6, 1.5, 1 / sympy.pi, sympy.Rational(1, 2)])
    return factor * symbol + random.choice([0, 0, 0.25, -1])


# Smooth on the real axis with derivatives of about 1: finite differences have 10 digits.
_FUNCTIONS: Sequence[Callable[[sympy.Expr], sympy.Expr]] = (
    sympy.sin,
    sympy.cos,
    sympy.tanh,
    sympy.atan,
    lambda e: sympy.exp(e / 3) / 2,
    lambda e: sympy.log(e**2 + 3),
    lambda e: sympy.sqrt(e**2 + 2),
    lambda e: 1 / (3 + e**2),
    lambda e: e**2 / 3,
    lambda e: e**3 / 9,
)


def expression(random: Random) -> sympy.Expr:
    """Draw an expression of data and trained symbols, or sometimes a number."""
    first, second = affine(random), affine(random)
    function = random.choice(_FUNCTIONS)
    match random.randrange(7):
        case 0:
            return first
        case 1:
            return first + second
        case 2:
            return first * second / 2
        case 3:
            return function(first)
        case 4:
            return function(first) * second / 2
        case 5:
            return function(first - second / 2)
        case _:
            return random.choice([sympy.Rational(3, 4), 0.3])


class _Draw:
    """Draws the gates of one circuit and records their kinds."""

    def __init__(self, random: Random, qubits: list[cirq.Qid]) -> None:
        self.random = random
        self.qubits = qubits
        self.kinds: set[str] = set()

    def operation(self) -> cirq.Operation:
        random = self.random
        width = random.choice([w for w in (1, 1, 2, 2, 2, 3, 4) if w <= len(self.qubits)])
        gate = self._controlled(width) if width > 1 and random.random() < 0.3 else self._gate(width)
        operation = gate.on(*random.sample(self.qubits, width))
        wrapped = random.randrange(20)
        if wrapped == 0:
            return operation.with_tags("a note")
        if wrapped == 1:
            self.kinds.add(CIRCUIT)
            inner = cirq.FrozenCircuit(operation, cirq.X(operation.qubits[0]) ** 0.5)
            return cirq.CircuitOperation(inner, repetitions=2, use_repetition_ids=False)
        return operation

    def _gate(self, width: int) -> cirq.Gate:
        name = self.random.choice(sorted(TABLES[width - 1]))
        self.kinds.add(name)
        gate = TABLES[width - 1][name](
            lambda: expression(self.random),
            lambda: affine(self.random),
            self.random.randrange(2**16),
        )
        if self.random.random() < 0.1:
            self.kinds.add(INVERSE)
            gate = cirq.inverse(gate)
        return gate

    def _controlled(self, width: int) -> cirq.Gate:
        inner = self._gate(self.random.randint(1, min(2, width - 1)))
        controls = width - cirq.num_qubits(inner)
        patterns = list(itertools.product((0, 1), repeat=controls))
        if controls > 1 and self.random.random() < 0.5:
            self.kinds.add(SUM_OF_PRODUCTS)
            some = self.random.sample(patterns, self.random.randint(1, 3))
            return inner.controlled(controls, control_values=cirq.SumOfProducts(some))
        self.kinds.add(CONTROLLED)
        return inner.controlled(controls, control_values=self.random.choice(patterns))

    def observable(self) -> cirq.PauliSum:
        random = self.random
        total = cirq.PauliSum() + random.choice([0.0, 0.5])
        # Few qubits are read as operators, many as parities.
        touched = random.choice([self.qubits[:1], self.qubits[-3:], self.qubits])
        for _ in range(random.randint(1, 4)):
            paulis = random.choices("IXYZ", k=len(touched))
            total += random.choice([1.0, -0.7, 2.5]) * cirq.DensePauliString(paulis).on(*touched)
        return total


def draw_case(random: Random, width: int) -> Case:
    """Draw a circuit of up to `width` qubits with 1 to 3 observables."""
    draw = _Draw(random, list(cirq.LineQubit.range(width)))
    circuit = cirq.Circuit(draw.operation() for _ in range(random.randint(3, MOST_GATES)))
    observables = tuple(draw.observable() for _ in range(random.randint(1, 3)))
    return Case(
        circuit,
        observables,
        random.choice(BATCHES),
        random.randrange(2**16),
        frozenset(draw.kinds),
    )


def cases(most_qubits: int = 10) -> "st.SearchStrategy[Case]":
    """Draw circuits of 2 to `most_qubits` qubits with 1 to 3 observables."""
    from hypothesis import strategies as st

    # A single draw: hypothesis would follow a circuit of many draws by five variations of it.
    return st.randoms(use_true_random=True).map(
        lambda random: draw_case(random, random.randint(2, most_qubits))
    )


@cache
def draw_cases(part: int, count: int, most_qubits: int = 10) -> list[Case]:
    """Draw random circuits: the same in every run, others in each part."""
    from hypothesis import HealthCheck, Phase, given, seed, settings
    from hypothesis.errors import HypothesisDeprecationWarning

    drawn: list[Case] = []

    @seed(part)
    @settings(
        max_examples=count,
        deadline=None,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(case=cases(most_qubits))
    def draw(case: Case) -> None:
        drawn.append(case)

    with warnings.catch_warnings():
        # Hypothesis looks whether `random` was used meanwhile: a thread of another test may do so.
        warnings.simplefilter("ignore", HypothesisDeprecationWarning)
        draw()
    return drawn


def check_each(drawn: list[Case], check: Callable[[Case], None]) -> None:
    """Check every circuit; the error names the one that fails."""
    for at, case in enumerate(drawn):
        try:
            check(case)
        except Exception as error:
            error.add_note(f"in circuit {at}, {case!r}")
            raise
