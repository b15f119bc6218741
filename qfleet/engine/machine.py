"""The machine and its engine, as far as programs ask for their memory, description and cost."""

from qfleet.compiler.state.program import Program
from qfleet.engine import description, devices, library, memory
from qfleet.engine.devices import CPU, Device
from qfleet.engine.library import TileLayout


class Machine:
    """Free memory, threads and SIMD vectors; each is read when it is asked for.

    Args:
        real_bytes: Bytes per real number of a program, 4 or 8.
        threads: Threads that run the program; those of the library unless given.
        device: Holds the program's states.
        wanted: The device that was asked for; it is named if it is another one.
    """

    def __init__(
        self,
        real_bytes: int,
        threads: int | None = None,
        device: Device = CPU,
        wanted: Device = CPU,
    ) -> None:
        self.real_bytes, self.device = real_bytes, device
        self._threads, self._wanted = threads, wanted

    @property
    def threads(self) -> int:
        """Threads that run the program."""
        return self._threads or library.num_threads()

    @property
    def lanes(self) -> int:
        """Real numbers in a SIMD vector."""
        return library.simd_lanes(self.real_bytes)

    @property
    def instruction_set(self) -> str:
        """Name of the instruction set that is used."""
        return library.instruction_set()

    @property
    def real(self) -> str:
        """Name of the type of real numbers."""
        return f"float{8 * self.real_bytes}"

    @property
    def free_bytes(self) -> int:
        """Bytes that this process may still allocate on the device."""
        if self.device == CPU:
            return memory.available_bytes()
        return int(devices.info_of(self.device).free_bytes)

    def tile_layout(self, qubits: int, batch: int, threads: int) -> TileLayout:
        """Return the layout of a batch of states; see `library.tile_layout`."""
        return library.tile_layout(qubits, self.real_bytes, batch, threads)

    def require_states(self, qubits: int, states: int, processes: int = 1) -> None:
        """Check that states fit into the free memory of the device.

        Args:
            qubits: Qubits per state.
            states: States at a time; a GPU holds one when a program is loaded.
            processes: Processes on this machine that do the same.

        Raises:
            MemoryLimitError: The message states the needed and the free bytes.
            DeviceError: The device is missing or fails, or its library is not built.
        """
        if self.device == CPU:
            memory.require_memory(qubits, 2 * self.real_bytes, states, processes)
        else:
            devices.require_memory(self.device, qubits, 2 * self.real_bytes)

    def require_bytes(
        self, needed: int, purpose: str, advice: str = memory.ADVICE, processes: int = 1
    ) -> None:
        """Check that an array fits into the free memory; see `memory.require_bytes`."""
        free = None if self.device == CPU else self.free_bytes
        memory.require_bytes(needed, purpose, advice, processes, free)

    def describe_states(self, program: Program, batch: int, spanning: int | None) -> str:
        """Describe a program of state vectors and its plan; see `Program.describe`."""
        text = description.describe_states(program, self, batch, spanning)
        return self.titled(text, "initial states" if program.takes_states else "states")

    def titled(self, text: str, kind: str = "density matrices") -> str:
        """Return a description after a line with the device, unless that is the wanted CPU.

        Args:
            text: The description.
            kind: Of the program, as in `devices.UNTRIED`.
        """
        if self.device != CPU:
            untried = devices.line_of_untried(self.device, kind)
            return f"{devices.describe(self.device)}\n{untried}{text}"
        if self._wanted.kind in ("cpu", "auto"):
            return text
        return f"device: {CPU}, not {self._wanted}: {devices.FORMS}\n{text}"
