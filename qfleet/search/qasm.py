"""OpenQASM 2 and 3 as Cirq circuits: qubits and standard gates. The text may be anyone's."""

import ast
import math
import re
from collections.abc import Callable, Mapping, Sequence

import cirq

from qfleet.errors import CircuitError

MAX_TEXT = 1 << 20
"""Most characters of a program."""

MAX_STATEMENTS = 20_000

_IGNORED = ("include", "creg", "bit", "barrier")
_HEADER = re.compile(r"OPENQASM\s+(2|2\.0|3|3\.0)")
_REGISTER = re.compile(r"qreg\s+(\w+)\s*\[\s*(\d{1,4})\s*\]|qubit\s*\[\s*(\d{1,4})\s*\]\s*(\w+)")
_CALL = re.compile(r"(\w+)\s*(?:\((.*)\))?\s+(\w+\s*\[\s*\d+\s*\](?:\s*,\s*\w+\s*\[\s*\d+\s*\])*)")
_QUBIT = re.compile(r"(\w+)\s*\[\s*(\d+)\s*\]")
_NAMES = {"pi": math.pi, "π": math.pi, "tau": 2 * math.pi, "euler": math.e}
_OPERATORS: Mapping[type, Callable[..., float]] = {
    ast.Add: lambda a, b: a + b,
    ast.Sub: lambda a, b: a - b,
    ast.Mult: lambda a, b: a * b,
    ast.Div: lambda a, b: a / b,
    ast.USub: lambda a: -a,
    ast.UAdd: lambda a: a,
}


def _turns(theta: float, phi: float, angle: float) -> list[cirq.Gate]:
    return [cirq.rz(angle), cirq.ry(theta), cirq.rz(phi)]


_Make = Callable[..., list[cirq.Gate]]


def _fixed(gate: cirq.Gate) -> tuple[int, _Make]:
    return 0, lambda: [gate]


_GATES: Mapping[str, tuple[int, _Make]] = {
    **{name: _fixed(gate) for name, gate in {
        "id": cirq.I, "x": cirq.X, "y": cirq.Y, "z": cirq.Z, "h": cirq.H, "s": cirq.S,
        "sdg": cirq.S**-1, "t": cirq.T, "tdg": cirq.T**-1, "sx": cirq.X**0.5,
        "sxdg": cirq.X**-0.5, "cx": cirq.CNOT, "CX": cirq.CNOT, "cz": cirq.CZ,
        "cy": cirq.ControlledGate(cirq.Y), "ch": cirq.ControlledGate(cirq.H), "swap": cirq.SWAP,
        "iswap": cirq.ISWAP, "ccx": cirq.CCX, "ccz": cirq.CCZ, "cswap": cirq.CSWAP,
    }.items()},
    "rx": (1, lambda a: [cirq.rx(a)]),
    "ry": (1, lambda a: [cirq.ry(a)]),
    "rz": (1, lambda a: [cirq.rz(a)]),
    "p": (1, lambda a: [cirq.rz(a)]),
    "u1": (1, lambda a: [cirq.rz(a)]),
    "u2": (2, lambda a, b: _turns(math.pi / 2, a, b)),
    "u3": (3, _turns),
    "u": (3, _turns),
    "U": (3, _turns),
    "crx": (1, lambda a: [cirq.ControlledGate(cirq.rx(a))]),
    "cry": (1, lambda a: [cirq.ControlledGate(cirq.ry(a))]),
    "crz": (1, lambda a: [cirq.ControlledGate(cirq.rz(a))]),
    "cp": (1, lambda a: [cirq.CZPowGate(exponent=a / math.pi)]),
    "cu1": (1, lambda a: [cirq.CZPowGate(exponent=a / math.pi)]),
    "rxx": (1, lambda a: [cirq.XXPowGate(exponent=a / math.pi, global_shift=-0.5)]),
    "ryy": (1, lambda a: [cirq.YYPowGate(exponent=a / math.pi, global_shift=-0.5)]),
    "rzz": (1, lambda a: [cirq.ZZPowGate(exponent=a / math.pi, global_shift=-0.5)]),
}  # fmt: skip
"""Number of angles, and the Cirq gates, by name; up to a global phase."""


def from_qasm(text: str, qubits: Sequence[cirq.Qid]) -> cirq.Circuit:
    """Return the circuit of an OpenQASM 2 or 3 program, up to a global phase.

    Args:
        text: Registers of qubits, and gates of the standard libraries on single qubits of them.
        qubits: The qubits of all registers, in order.

    Raises:
        CircuitError: The program has another statement, gate or number of qubits.
    """
    if len(text) > MAX_TEXT:
        raise CircuitError(f"the program has more than {MAX_TEXT:,} characters: write less")
    plain = re.sub(r"//[^\n]*|/\*.*?\*/", " ", text, flags=re.DOTALL)
    statements = [" ".join(one.split()) for one in plain.split(";")]
    if statements[-1]:
        raise CircuitError(f"the program ends within {statements[-1][:40]!r}: end it with ;")
    if len(statements) > MAX_STATEMENTS:
        raise CircuitError(f"the program has more than {MAX_STATEMENTS:,} statements: write less")
    if not _HEADER.fullmatch(statements[0]):
        raise CircuitError(
            f"the program begins with {statements[0][:40]!r}: write OPENQASM 2.0 or OPENQASM 3.0"
        )
    registers: dict[str, list[cirq.Qid]] = {}
    left = list(qubits)
    operations: list[cirq.Operation] = []
    for one in statements[1:-1]:
        if not one or one.split()[0].split("[")[0] in _IGNORED:
            continue
        if found := _REGISTER.fullmatch(one):
            name, size = found[1] or found[4], int(found[2] or found[3])
            if name in registers or not 0 < size <= len(left):
                raise CircuitError(
                    f"the program has {one[:40]!r}, but {len(left)} of {len(qubits)} qubits are"
                    " left: use the qubits of the problem, and each name once"
                )
            registers[name], left = left[:size], left[size:]
        else:
            operations += _operations(one, registers)
    return cirq.Circuit(operations)


def _operations(text: str, registers: Mapping[str, Sequence[cirq.Qid]]) -> list[cirq.Operation]:
    call = _CALL.fullmatch(text)
    if not call or call[1] not in _GATES:
        raise CircuitError(
            f"the program has {text[:60]!r}, which is not a gate that is known here: use"
            f" {', '.join(sorted(_GATES))}, on single qubits"
        )
    count, make = _GATES[call[1]]
    angles = [_value(one) for one in call[2].split(",")] if call[2] else []
    touched = []
    for name, place in _QUBIT.findall(call[3]):
        if name not in registers or int(place) >= len(registers[name]):
            raise CircuitError(f"the program uses {name[:20]}[{place[:9]}], which is not declared")
        touched.append(registers[name][int(place)])
    if len(angles) != count:
        raise CircuitError(f"{call[1]} has {len(angles)} angles in {text[:60]!r}: pass {count}")
    gates = make(*angles)
    if len(set(touched)) < len(touched) or gates[0].num_qubits() != len(touched):
        raise CircuitError(
            f"{call[1]} acts on {gates[0].num_qubits()} different qubits, but not in {text[:60]!r}"
        )
    return [gate.on(*touched) for gate in gates]


def _value(text: str) -> float:
    """Return the value of an expression of numbers and pi."""
    try:
        value = _evaluated(ast.parse(text.strip(), mode="eval").body, 0)
    except (SyntaxError, ValueError, KeyError, ZeroDivisionError, OverflowError, MemoryError):
        value = math.nan
    except RecursionError:
        value = math.nan
    if not math.isfinite(value):
        raise CircuitError(f"the angle {text[:40]!r} is not a number: use numbers, pi, + - * /")
    return value


def _evaluated(node: ast.AST, depth: int) -> float:
    if depth > 50:
        raise ValueError
    if isinstance(node, ast.Constant) and isinstance(node.value, int | float):
        return float(node.value)
    if isinstance(node, ast.Name):
        return _NAMES[node.id]
    if isinstance(node, ast.UnaryOp):
        return _OPERATORS[type(node.op)](_evaluated(node.operand, depth + 1))
    if isinstance(node, ast.BinOp):
        parts = (_evaluated(one, depth + 1) for one in (node.left, node.right))
        return _OPERATORS[type(node.op)](*parts)
    raise ValueError
