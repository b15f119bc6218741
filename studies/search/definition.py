"""The definition of a search: its problem, its space and method, its seeds and its budget."""

import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Self

from common import runs, storage
from common.data import Dataset, Examples, prepare
from common.data.problems import only_hamiltonian, only_state
from common.errors import SettingsError
from common.settings import Settings
from common.settings.fields import AUTO
from common.settings.options import PROPOSERS, SearchOptions
from common.settings.sources import last_of_each
from common.tuning import sample_rows
from qfleet.devices.calibration import INLINE, Calibration
from qfleet.devices.lines import inline_calibration
from qfleet.engine.cpus import usable_cpu_count
from qfleet.problems import Hamiltonian
from qfleet.search import Candidate, DataTask, Space, matrix_product_start
from qfleet.search.ansatz_search import OBJECTIVES
from studies.axes import Axis, parse_axis
from studies.budget import Budget
from studies.command_line import read_words, settings_named_as_given
from studies.search.checks import check, no_encoder

FORMAT = 1
PROGRAM = "search"

OPTIONAL = ("objectives", "reduction_factor")
"""Keys of search.json that searches with the defaults lack."""

DATA_TASKS = ("classification", "regression")
CLUSTER_PARALLELISM = 2
"""Pods at a time, unless PARALLELISM is set."""

MAX_TRAIN_ROWS, MAX_VALIDATION_ROWS = 256, 1024
"""Most rows that circuits are trained on, and compared by. They are drawn from the splits."""

_MAX_SAMPLED = 50_000
_SCORED_METHODS = re.compile(r"(evolution|random):([1-9][0-9]{0,2})")


@dataclass(frozen=True)
class SearchDefinition:
    """A search as the command line describes it.

    Attributes:
        settings: Its settings, of which the problem, the storage and RUN, its name, are read.
        options: SPACE, PROPOSER and BUDGET.
        seeds: The seeds.
    """

    settings: Settings
    options: SearchOptions
    seeds: tuple[int, ...]

    @classmethod
    def from_args(cls, args: Sequence[str]) -> Self:
        """Read a search from the command line.

        Args:
            args: `NAME=value` or `--name=value`; SEEDS may be a list or a range.

        Raises:
            SettingsError: A setting is unknown, a value is not allowed, or no name is given.
        """
        given, words = read_words(args, PROGRAM)
        with settings_named_as_given(words):
            return cls._from_values(given)

    @classmethod
    def _from_values(cls, given: dict[str, str]) -> Self:
        text = given.pop("seed", "")
        args = [f"{name.upper()}={value}" for name, value in given.items()]
        args = last_of_each(["TASK=energy", "WORKERS=1", *args])
        settings, options = Settings.with_options(args, PROGRAM, SearchOptions)
        axis = parse_axis(Settings.fields()["seed"], text or str(settings.data.seed), search="grid")
        values = axis.values if isinstance(axis, Axis) else (axis,)
        seeds = [Settings.from_args([f"SEED={one}"]).data.seed for one in values]
        found = cls(settings, options, tuple(seeds))
        check(found)
        return found

    @property
    def name(self) -> str:
        """The name of the search."""
        return self.settings.job.run

    @property
    def workers(self) -> int:
        """Processes of the search: seeds at a time, and what is left for each seed's circuits."""
        workers: int = self.settings.training.workers
        return usable_cpu_count() if workers == AUTO else workers

    @property
    def seeds_at_a_time(self) -> int:
        """Seeds that are searched at a time: by WORKERS, or by PARALLELISM in a cluster."""
        target, settings = self.settings.job.target, self.settings
        most = self.workers
        if target != "local":
            most = CLUSTER_PARALLELISM if target == "k8s" else len(self.seeds)
            if "parallelism" in settings.explicit:
                most = settings.inference.parallelism
        return min(most, len(self.seeds))

    @property
    def workers_per_seed(self) -> int:
        """Processes that train the circuits of one seed."""
        return max(1, self.workers // len(self.seeds))

    @cached_property
    def budget(self) -> Budget:
        """BUDGET, of each seed over all of its starts."""
        return Budget.parse(self.options.budget, self.options.price_per_worker_hour)

    @cached_property
    def problem(self) -> Hamiltonian | DataTask:
        """The problem that circuits are searched for: a Hamiltonian, or rows of data.

        Raises:
            DataError: It can't be read.
            SettingsError: A setting does not fit it.
        """
        return self.rows if self.has_data else self.hamiltonian

    @property
    def has_data(self) -> bool:
        """If the search is for a classification or a regression."""
        return self.settings.data.task in DATA_TASKS

    @property
    def qubits(self) -> int:
        """Qubits of all circuits."""
        is_given = self.has_data or self.is_state
        return self.settings.model.qubits if is_given else self.hamiltonian.qubits

    @property
    def is_state(self) -> bool:
        """If the search is for the preparation of a state."""
        return self.settings.data.task == "state"

    @cached_property
    def dataset(self) -> Dataset:
        """The data set of a classification or a regression, as a training with SEED=0 has it."""
        return prepare(self.settings, storage.path(self.settings.job.storage) / runs.DATASETS)

    @cached_property
    def rows(self) -> DataTask:
        """Rows of the splits for training and validation.

        Raises:
            SettingsError: Examples are states.
        """
        if self.dataset.placement == "amplitude":  # of a folder; see checks for others
            raise no_encoder("amplitude")
        train = self._sample("train", MAX_TRAIN_ROWS)
        validation = self._sample("validation", MAX_VALIDATION_ROWS)
        target = self.dataset.target
        assert target.kind in ("signs", "classes", "number")
        classes = len(target.classes) if target.kind == "classes" else 0
        return DataTask(*train, *validation, target.kind, classes, target.scale)

    def _sample(self, split: str, most: int) -> Examples:
        found = self.dataset.sample(split, _MAX_SAMPLED)
        chosen = sample_rows(len(found.labels), most, self.settings.data.seed)
        return Examples(found.angles[chosen], found.labels[chosen])

    @cached_property
    def hamiltonian(self) -> Hamiltonian:
        """The Hamiltonian, with the electrons of SPACE if it is one of a file.

        That of a target state has 1 minus the fidelity as its energy.

        Raises:
            DataError: It can't be read.
            SettingsError: SPACE has another number of electrons than the molecule.
        """
        read = only_state if self.is_state else only_hamiltonian
        found = read(self.settings.data, self.settings.model.qubits)
        given = self.options.space.rpartition(":")[2] if "excitations" in self.options.space else ""
        if not given.isdigit():
            return found
        if found.electrons not in (0, int(given)):
            raise SettingsError(
                f"SPACE={self.options.space} has other electrons than"
                f" DATA={self.settings.data.data}, which has {found.electrons}: omit their number"
            )
        return replace(found, electrons=int(given))

    @property
    def has_start(self) -> bool:
        """If circuits begin with that of a matrix product state."""
        return self.options.space.partition(":")[0] == "mps"

    @cached_property
    def matrix_product(self) -> tuple[Space, Candidate]:
        """The gates of SPACE=mps, and the circuit that has all of them.

        Raises:
            ArgumentError: The Hamiltonian has one qubit.
        """
        layers = self.space.partition(":")[2]
        return matrix_product_start(self.hamiltonian, int(layers or 0))

    @cached_property
    def reference(self) -> float | None:
        """The exact energy that errors refer to; None where it is not known, and for data."""
        return None if self.has_data else self.hamiltonian.reference_energy()

    @property
    def space(self) -> str:
        """SPACE, or the default for the problem."""
        if self.options.space or self.has_data:
            return self.options.space or "layers:3"
        return "excitations" if self.hamiltonian.electrons else "blocks"

    @property
    def method(self) -> str:
        """METHOD, or the default for the problem."""
        is_grown = not (self.has_data or self.is_state)  # gradients of a state are often 0 at first
        return self.options.proposer or ("pruning" if is_grown else "evolution")

    @property
    def method_name(self) -> str:
        """METHOD without the number of circuits that are scored."""
        scored = _SCORED_METHODS.fullmatch(self.method)
        return scored[1] if scored else self.method

    @property
    def drawn(self) -> int:
        """Circuits that are scored for each that is trained."""
        scored = _SCORED_METHODS.fullmatch(self.method)
        return int(scored[2]) if scored else 1

    @property
    def command(self) -> tuple[str, ...]:
        """The command of METHOD, as words; none for a method of qfleet."""
        return () if self.method_name in PROPOSERS else tuple(shlex.split(self.method))

    @property
    def calibration(self) -> Calibration | None:
        """The device of NOISE."""
        noise = self.settings.model.noise
        return inline_calibration(noise) if noise.startswith(INLINE) else None

    @property
    def objectives(self) -> tuple[str, ...]:
        """Names of the objectives of the front, the error first."""
        given = self.options.objectives.split(",") if self.options.objectives else self._default
        return tuple(name for name in OBJECTIVES if name in given)

    @property
    def _default(self) -> tuple[str, ...]:
        """The objectives without OBJECTIVES."""
        return ("error", "two_qubit_gates", *(["fidelity"] if self.calibration else []))

    @property
    def reduction_factor(self) -> int:
        """REDUCTION_FACTOR of EARLY_STOPPING=halving; 1 without it."""
        return self.options.reduction_factor if self.options.early_stopping == "halving" else 1

    def to_json(self) -> dict[str, Any]:
        """Return what another start of this search must have in common with it."""
        data = self.settings.data
        found: dict[str, Any] = {
            "format": FORMAT,
            "data": data.data,
            "space": self.space,
            "method": self.method,
            "noise": self.settings.model.noise,
        }
        if self.objectives != self._default:
            found["objectives"] = ",".join(self.objectives)
        if self.reduction_factor > 1:
            found["reduction_factor"] = self.reduction_factor
        if self.has_data or self.is_state:
            found |= {"task": data.task, "qubits": self.qubits}
        if self.has_data:
            found |= {"encoder": data.encoder, "classes": data.classes}
        return found
