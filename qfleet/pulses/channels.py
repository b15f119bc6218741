"""Control channels: what a pulse acts on, and the largest amplitude there."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from qfleet.argument_checks import choice, instance, integer, items, number
from qfleet.errors import ArgumentError

Kind = Literal["in_phase", "quadrature", "detuning", "coupler"]
KINDS = ("in_phase", "quadrature", "detuning", "coupler")
MAX_BOUND = 1000.0
"""Largest bound in rad/ns, the turns of 160 GHz; amplitudes in rad/s are above."""

_QUBITS = items(integer(0), "a sequence of numbers of qubits")


@dataclass(frozen=True)
class ControlChannel:
    """A control of one qubit, of several in the same way, or of a coupling.

    With the amplitude u(t) in rad/ns and a qubit's lowering operator a, the rotating frame has

        in_phase     u/2 (a + a^dagger): the drive's I
        quadrature   u/2 (-i a + i a^dagger): the drive's Q
        detuning     -u n, with n the number of excitations: u is the drive's frequency less the
                     qubit's, as a flux line shifts it
        coupler      u (a^dagger b + a b^dagger): a tunable exchange of two qubits

    Attributes:
        kind: One of these names.
        qubits: Numbers of the qubits.
        bound: Largest absolute amplitude in rad/ns; pi per 10 ns turns a qubit once in 20 ns.
    """

    kind: Kind
    qubits: tuple[int, ...]
    bound: float = 1.0

    def __post_init__(self) -> None:
        choice(KINDS)(self.kind, "kind")
        object.__setattr__(self, "qubits", _QUBITS(self.qubits, "qubits"))
        if len(set(self.qubits)) != len(self.qubits) or not self.qubits:
            raise ArgumentError(f"qubits is {self.qubits}: pass different numbers, at least one")
        if self.kind == "coupler" and len(self.qubits) != 2:
            raise ArgumentError(f"a coupler has the qubits {self.qubits}: pass two")
        if not 0 < number(self.bound, "bound") <= MAX_BOUND:
            raise ArgumentError(
                f"bound is {self.bound:g}: pass an amplitude above 0 in rad/ns, up to"
                f" {MAX_BOUND:g}, such as 0.3"
            )


def drive(*qubits: int, bound: float = 1.0) -> tuple[ControlChannel, ControlChannel]:
    """Return the channels I and Q of a qubit, or of several that one drive acts on.

    Args:
        qubits: Numbers of the qubits.
        bound: Largest amplitude of each in rad/ns.
    """
    return ControlChannel("in_phase", qubits, bound), ControlChannel("quadrature", qubits, bound)


CONTROL_CHANNELS = items(
    instance(ControlChannel, "a ControlChannel"), "a sequence of ControlChannel"
)
"""Check of an argument that has channels."""


def require_qubits(channels: Sequence[ControlChannel], count: int, kinds: Sequence[str]) -> None:
    """Check that a device has the qubits and the kinds of channels.

    Args:
        channels: The channels.
        count: Number of the device's qubits.
        kinds: Kinds of channels that the device has.

    Raises:
        ArgumentError: It has not.
    """
    for at, channel in enumerate(CONTROL_CHANNELS(channels, "channels")):
        if channel.kind not in kinds:
            raise ArgumentError(
                f"channels[{at}] is a {channel.kind}: this device has {', '.join(kinds)}"
            )
        if max(channel.qubits) >= count:
            raise ArgumentError(
                f"channels[{at}] acts on the qubits {channel.qubits}: the last qubit of the"
                f" device is {count - 1}"
            )
