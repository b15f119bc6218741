"""Random circuits of everything that the compiler accepts: gates, expressions, tags, qubits, noise.

`random_circuits` draws what is compared with finite differences; here are also the forms that only
have to be saved, loaded and pickled.
"""

from collections.abc import Callable, Iterator, Sequence
from random import Random

import cirq
import numpy as np
import sympy

from tests.support.random_circuits import INPUTS, PARAMETERS, TABLES, Kind, OwnGate, affine

SYMBOLS = sympy.symbols((*INPUTS, *PARAMETERS))
CONSTANTS: Sequence[sympy.Expr] = (
    sympy.Integer(2),
    sympy.Integer(-3),
    sympy.Rational(2, 3),
    sympy.Rational(-22, 7),
    sympy.Float(0.7),
    sympy.pi,
    sympy.E,
    sympy.GoldenRatio,
    sympy.Catalan,
    sympy.EulerGamma,
    sympy.TribonacciConstant,
    sympy.sqrt(2),
    sympy.Integer(2) ** sympy.Rational(1, 3),
    sympy.cos(1),
    sympy.exp(sympy.Rational(1, 2)),
    sympy.log(3),
    sympy.gamma(sympy.Rational(1, 3)),
    sympy.zeta(3),
    (1 + sympy.I) ** 4,
    sympy.Float("0.1", 40),
    sympy.Rational(10**25 + 1, 10**25),
)
# Real at every real argument.
FUNCTIONS: Sequence[Callable[[sympy.Expr], sympy.Expr]] = (
    sympy.sin,
    sympy.cos,
    lambda e: sympy.tan(sympy.sin(e)),
    lambda e: sympy.asin(sympy.sin(e)),
    lambda e: sympy.acos(sympy.sqrt(sympy.sin(e) ** 2)),
    sympy.atan,
    sympy.tanh,
    sympy.asinh,
    lambda e: sympy.sinh(sympy.sin(e)),
    lambda e: sympy.cosh(sympy.sin(e)),
    lambda e: sympy.acosh(e**2 + 1),
    lambda e: sympy.atanh(sympy.sin(e) / 2),
    lambda e: sympy.exp(sympy.sin(e)),
    lambda e: sympy.log(e**2 + 1),
    sympy.Abs,
    sympy.sign,
    sympy.floor,
    sympy.ceiling,
    sympy.erf,
    lambda e: sympy.Max(e, 0.5),
    lambda e: sympy.Min(e, 1),
    lambda e: sympy.Max(e, sympy.sin(e), sympy.pi / 4),
    lambda e: sympy.sqrt(sympy.Abs(e)),
    lambda e: (e**2 + 1) ** sympy.Rational(-3, 2),
    lambda e: (e**2 + 0.5) ** 1.5,
    lambda e: (e**2 + 1) ** sympy.sin(e),
    lambda e: 2 ** sympy.sin(e),
    lambda e: 1 / (1 + e**2),
    lambda e: (-1) ** (2 * sympy.floor(e)),
    lambda e: sympy.sin(e) ** 64,
)
# Phases of absolute value 1.
PHASES: Sequence[Callable[[sympy.Expr], sympy.Expr | complex]] = (
    lambda e: sympy.exp(sympy.I * e),
    lambda e: sympy.I**e,
    lambda e: sympy.Integer(-1) ** e,
    lambda e: sympy.exp(sympy.I * sympy.pi * e) * sympy.I,
    lambda e: sympy.exp(-2 * sympy.I),
    lambda e: (sympy.Rational(3, 5) + sympy.I * sympy.Rational(4, 5)) ** e,
    lambda e: 1j,
    lambda e: np.exp(0.3j),
    lambda e: -1,
    lambda e: sympy.Integer(-1),
    lambda e: sympy.exp(sympy.I * e) * sympy.I ** (e / 2),
    lambda e: sympy.I,
)
OTHERS: Sequence[Callable[["Draw"], cirq.Operation]] = (
    lambda d: cirq.wait(*d.qubits(2), nanos=d.random.choice([3, 0.5])),
    lambda d: cirq.WaitGate(cirq.Duration(picos=d.expression() ** 2)).on(*d.qubits(1)),
    lambda d: cirq.IdentityGate(3).on(*d.qubits(3)),
    lambda d: cirq.BooleanHamiltonianGate(["a", "b"], ["a & ~b", "a ^ b"], float(d.number())).on(
        *d.qubits(2)
    ),
    lambda d: cirq.BooleanHamiltonianGate(["a", "b", "c"], ["a | b & c"], 0.2).on(*d.qubits(3)),
    lambda d: cirq.GlobalPhaseGate(d.phase()).on(),
    lambda d: cirq.GlobalPhaseGate(d.phase()).controlled(2).on(*d.qubits(2)),
    lambda d: cirq.global_phase_operation(d.phase()),
    lambda d: cirq.PauliString(
        dict(zip(d.qubits(2), [cirq.X, cirq.Y], strict=True)), coefficient=-1
    ),
    lambda d: cirq.PauliString(
        dict(zip(d.qubits(2), [cirq.X, cirq.Y], strict=True)), coefficient=1j
    ),
    lambda d: cirq.PauliStringPhasor(
        cirq.PauliString(dict(zip(d.qubits(3), "XYZ", strict=True))),
        exponent_neg=d.expression(),
        exponent_pos=d.expression(),
    ),
    lambda d: cirq.DensePauliString("XZ", coefficient=d.random.choice([-1, 1j])).on(*d.qubits(2)),
    lambda d: cirq.MutableDensePauliString("XY").on(*d.qubits(2)),
    lambda d: cirq.PhaseGradientGate(num_qubits=2, exponent=d.expression()).on(*d.qubits(2)),
    lambda d: cirq.DiagonalGate([d.expression() for _ in range(4)]).on(*d.qubits(2)),
    lambda d: cirq.UniformSuperpositionGate(3, 2).on(*d.qubits(2)),
    lambda d: cirq.CliffordGate.from_op_list([cirq.H(a := cirq.LineQubit(0)), cirq.S(a)], [a]).on(
        *d.qubits(1)
    ),
    lambda d: cirq.SingleQubitCliffordGate.from_pauli(cirq.Y, True).on(*d.qubits(1)),
    lambda d: cirq.QubitPermutationGate([1, 0]).on(*d.qubits(2)),
    lambda d: cirq.riswap(d.expression()).on(*d.qubits(2)),
    lambda d: cirq.cphase(d.expression()).on(*d.qubits(2)),
    lambda d: cirq.MSGate(rads=d.expression()).on(*d.qubits(2)),
    lambda d: cirq.PhasedISwapPowGate(phase_exponent=d.affine(), exponent=d.expression()).on(
        *d.qubits(2)
    ),
    lambda d: cirq.Z(d.qubits(1)[0]).controlled_by(
        *d.others, control_values=[d.random.choice([0, 1, True, (0, 1)])]
    ),
    lambda d: (cirq.CZ ** d.expression()).controlled(1, control_values=[0]).on(*d.qubits(3)),
    lambda d: cirq.ZPowGate(exponent=d.expression(), global_shift=d.number()).on(*d.qubits(1)),
    lambda d: cirq.XPowGate(exponent=d.expression(), global_shift=sympy.Rational(1, 3)).on(
        *d.qubits(1)
    ),
    lambda d: cirq.CCXPowGate(exponent=d.expression(), global_shift=0.2).on(*d.qubits(3)),
    lambda d: cirq.CSWAP.on(*d.qubits(3)) ** -1,
    lambda d: cirq.MatrixGate(cirq.unitary(cirq.H), name="mine").on(*d.qubits(1)),
    lambda d: cirq.inverse(
        cirq.PhasedXZGate(
            x_exponent=d.affine(), z_exponent=d.affine(), axis_phase_exponent=0.25
        ).on(*d.qubits(1))
    ),
    lambda d: OwnGate(exponent=d.expression()).on(*d.qubits(3)),
    lambda d: cirq.SingleQubitPauliStringGateOperation(cirq.Y, d.qubits(1)[0]),
    lambda d: cirq.ParallelGate(
        cirq.PhasedXPowGate(phase_exponent=d.affine(), exponent=d.expression()), 3
    ).on(*d.qubits(3)),
    lambda d: cirq.FSimGate(d.expression(), d.affine()).on(*d.qubits(2)),
    lambda d: cirq.PhasedFSimGate(*(d.affine() for _ in range(5))).on(*d.qubits(2)),
    lambda d: cirq.X.controlled(1, control_values=cirq.SumOfProducts([[0], [1]])).on(*d.qubits(2)),
    lambda d: cirq.ThreeQubitDiagonalGate([d.expression() for _ in range(8)]).on(*d.qubits(3)),
    lambda d: cirq.TwoQubitDiagonalGate([d.number() for _ in range(4)]).on(*d.qubits(2)),
)
NOISE: Sequence[Callable[["Draw"], cirq.Operation]] = (
    lambda d: cirq.depolarize(0.1).on(*d.qubits(1)),
    lambda d: cirq.depolarize(0.1, n_qubits=2).on(*d.qubits(2)),
    lambda d: cirq.asymmetric_depolarize(0.1, 0.05, 0.02).on(*d.qubits(1)),
    lambda d: cirq.asymmetric_depolarize(error_probabilities={"XX": 0.1, "II": 0.9}).on(
        *d.qubits(2)
    ),
    lambda d: cirq.amplitude_damp(0.1).on(*d.qubits(1)),
    lambda d: cirq.generalized_amplitude_damp(0.3, 0.1).on(*d.qubits(1)),
    lambda d: cirq.phase_damp(0.1).on(*d.qubits(1)),
    lambda d: cirq.phase_flip(0.1).on(*d.qubits(1)),
    lambda d: cirq.bit_flip(0.1).on(*d.qubits(1)),
    lambda d: cirq.reset(*d.qubits(1)),
    lambda d: cirq.X.with_probability(0.2).on(*d.qubits(1)),
    lambda d: cirq.KrausChannel(cirq.kraus(cirq.amplitude_damp(0.2))).on(*d.qubits(1)),
    lambda d: cirq.MixedUnitaryChannel([(0.4, cirq.unitary(cirq.X)), (0.6, np.eye(2))]).on(
        *d.qubits(1)
    ),
    lambda d: cirq.StatePreparationChannel(np.array([0.6, 0.8j])).on(*d.qubits(1)),
    lambda d: cirq.CZ.with_probability(0.5).on(*d.qubits(2)),
)
TAGS: Sequence[object] = (
    cirq.VirtualTag(),
    cirq.RoutingSwapTag(),
    "t",
    3,
    (1, "a"),
    object(),
    None,
    2.5,
)


class Draw:
    """Draws one circuit on four qubits of mixed classes."""

    def __init__(self, random: Random, depth: int = 3) -> None:
        self.random, self.depth = random, depth
        self.all: list[cirq.Qid] = random.choice(
            [
                cirq.LineQubit.range(4),
                cirq.GridQubit.square(2),
                [
                    cirq.NamedQubit("a b"),
                    cirq.NamedQubit("é"),
                    cirq.LineQubit(-3),
                    cirq.GridQubit(0, 7),
                ],
                [
                    cirq.LineQid(0, 2),
                    cirq.GridQid(1, 2, dimension=2),
                    cirq.NamedQid("q", dimension=2),
                    cirq.q("z"),
                ],
                list(cirq.NamedQubit.range(4, prefix="")),
            ]
        )
        self.others: list[cirq.Qid] = []

    def qubits(self, count: int) -> list[cirq.Qid]:
        found = self.random.sample(self.all, min(4, count + 1))
        self.others = found[count:]
        return found[:count]

    def symbol(self) -> sympy.Symbol:
        return self.random.choice(SYMBOLS)

    def constant(self) -> sympy.Expr:
        return self.random.choice(CONSTANTS)

    def number(self) -> object:
        return self.random.choice(
            [1, -0.25, 2.0, np.float32(0.5), np.float64(1.5), np.int64(3), self.constant()]
        )

    def expression(self, depth: int | None = None) -> sympy.Expr:
        random = self.random
        depth = self.depth if depth is None else depth
        match random.randrange(9 if depth else 2):
            case 0:
                return self.symbol()
            case 1:
                return self.constant()
            case 2 | 3:
                return self.expression(depth - 1) * self.constant()
            case 4:
                return self.expression(depth - 1) + self.expression(depth - 1)
            case 5:
                return self.expression(depth - 1) * self.expression(depth - 1)
            case 6:
                return self.symbol() ** random.choice(
                    [2, 1.5, sympy.Rational(1, 2), -1, 70, 63.5, sympy.sqrt(2), self.symbol()]
                )
            case _:
                return random.choice(FUNCTIONS)(self.expression(depth - 1))

    def affine(self) -> sympy.Expr:
        """Return an expression that Cirq's constructors of phased gates evaluate quickly."""
        return affine(self.random) * self.random.choice([1, sympy.sqrt(2), sympy.GoldenRatio])

    def phase(self) -> sympy.Expr | complex:
        return self.random.choice(PHASES)(self.expression(self.depth - 1))

    def operation(self, *, noise: bool = False) -> cirq.Operation:
        random = self.random
        if noise and random.random() < 0.4:
            return random.choice(NOISE)(self)
        if random.random() < 0.5:
            found = random.choice(OTHERS)(self)
        else:
            width = random.randint(1, 4)
            table = TABLES[width - 1]
            found = self.of_table(table[random.choice(sorted(table))], width)
        return self.changed(found)

    def of_table(self, kind: Kind, width: int) -> cirq.Operation:
        """Return a gate of `random_circuits`."""
        gate = kind(self.expression, self.affine, self.random.randrange(2**16))
        return gate.on(*self.qubits(width))

    def changed(self, found: cirq.Operation) -> cirq.Operation:
        """Return an operation, or sometimes a tagged one, or a sub-circuit of it."""
        random = self.random
        match random.randrange(12):
            case 0:
                return found.with_tags(*random.sample(TAGS, random.randint(1, 2)))
            case 1 | 2:
                return self.part(found)
        return found

    def part(self, operation: cirq.Operation) -> cirq.Operation:
        """Return a sub-circuit of an operation."""
        random = self.random
        inner = cirq.FrozenCircuit(operation, cirq.X(self.all[0]) ** self.symbol())
        found = cirq.CircuitOperation(
            inner,
            repetitions=random.choice([1, 2, -1, 0]),
            use_repetition_ids=random.random() < 0.5,
        )
        match random.randrange(4):
            case 0:
                found = found.with_qubit_mapping(
                    dict(zip(self.all, self.all[1:] + self.all[:1], strict=True))
                )
            case 1:
                found = found.with_params(
                    {
                        self.symbol(): random.choice(
                            [self.symbol(), 0.3, sympy.pi / 3, self.symbol() * 2, self.expression()]
                        )
                    }
                )
            case 2:
                return cirq.CircuitOperation(cirq.FrozenCircuit(found)).with_tags("t")
        return found


def draw_circuit(random: Random, *, noise: bool = False) -> cirq.Circuit:
    draw = Draw(random)
    return cirq.Circuit(draw.operation(noise=noise) for _ in range(random.randint(1, 5)))


# Every form once: gates, functions, constants and phases.
FORMS: Sequence[Callable[[Draw], cirq.Operation]] = (
    *OTHERS,
    *(
        lambda d, kind=kind, width=width: d.of_table(kind, width)
        for width, table in enumerate(TABLES, start=1)
        for kind in table.values()
    ),
    *(lambda d, f=f: cirq.rx(f(d.symbol())).on(*d.qubits(1)) for f in FUNCTIONS),
    *(lambda d, c=c: (cirq.CX ** (d.symbol() * c)).on(*d.qubits(2)) for c in CONSTANTS),
    *(
        lambda d, f=f: cirq.GlobalPhaseGate(f(d.symbol())).controlled(1).on(*d.qubits(1))
        for f in PHASES
    ),
)


def circuits_of_all_forms(random: Random, length: int) -> Iterator[tuple[cirq.Circuit, bool]]:
    """Yield circuits with each of FORMS, then of NOISE, once; and whether they are noisy.

    Args:
        random: Draws qubits, expressions and tags.
        length: Operations of a circuit.
    """
    for forms, noise in ((FORMS, False), (NOISE, True)):
        for at in range(0, len(forms), length):
            draw = Draw(random, depth=1)
            yield cirq.Circuit(draw.changed(form(draw)) for form in forms[at : at + length]), noise
