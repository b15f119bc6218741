"""The subcommands of `qfleet`, each a program of the service."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from common.environments import DEVICES, LAUNCH, TENSORBOARD, WORKER, Environment
from common.errors import SettingsError
from launch.client_commands import COMMANDS as CLIENT

Rewrite = Callable[[Sequence[str]], list[str]]


@dataclass(frozen=True)
class Subcommand:
    """A subcommand.

    Args:
        summary: Its line in the list of commands.
        module: The program: a module with a function main, which reads sys.argv.
        program: Key of PROGRAMS with its settings; empty if it has none.
        environment: Where the program runs.
        examples: Lines of its help, without `qfleet`.
        usage: Words in front of its settings, such as `RUN`.
        on_cluster: The client's command that takes its place with TARGET=k8s, and its
            counterpart with TARGET=slurm; empty if the program itself handles TARGET.
        for_search: The program that takes its place if settings of a search are given.
        words: Turns the words in front of the settings into settings.
    """

    summary: str
    module: str
    program: str
    environment: Environment | None = WORKER
    examples: Sequence[str] = ()
    usage: str = ""
    on_cluster: str = ""
    for_search: str = ""
    words: Rewrite | None = None


def _run(words: Sequence[str]) -> list[str]:
    if len(words) > 1:
        raise SettingsError(f"{words[1]} is one word too many: give one run")
    return [f"RUN={word}" for word in words]


def _several(setting: str) -> Rewrite:
    def rewrite(words: Sequence[str]) -> list[str]:
        if not words:
            raise SettingsError(f"no runs to {setting.lower()} are given: `qfleet runs` lists all")
        return [f"{setting}={','.join(words)}"]

    return rewrite


def _one(setting: str) -> Rewrite:
    def rewrite(words: Sequence[str]) -> list[str]:
        if len(words) != 1:
            raise SettingsError(f"{setting.lower()} one run: `qfleet runs` lists all")
        return [f"{setting}={words[0]}"]

    return rewrite


def _client(name: str, summary: str, *examples: str) -> Subcommand:
    usage = CLIENT[name].arguments
    return Subcommand(summary, "launch.__main__", f"cluster {name}", LAUNCH, examples, usage, name)


COMMANDS: Mapping[str, Subcommand] = MappingProxyType(
    {
        "train": Subcommand(
            "train a model, here or with TARGET=k8s or slurm",
            "training.__main__",
            "train",
            examples=(
                "train                                        the shipped QCNN, on this machine",
                "train --qubits 12 --workers 4                settings as options",
                "train QUBITS=12 WORKERS=4                    the same",
                "train MODEL=my_model:build DATA=table.csv    your circuit on your table",
                "train DEVICE=cuda                            on a GPU for each worker",
                "train TARGET=k8s STORAGE=gs://bucket/runs    in a cluster",
            ),
            on_cluster="run",
        ),
        "infer": Subcommand(
            "predict with a trained model",
            "inference.__main__",
            "infer",
            examples=(
                "infer                          the latest finished run, on its test split",
                "infer my-run INPUT=new.csv     a run, on a table",
            ),
            usage="[RUN]",
            on_cluster="infer",
            words=_run,
        ),
        "runs": Subcommand("list the runs", "cli.runs", "runs"),
        "report": Subcommand(
            "open the report of a run or a study, or save its figures",
            "cli.report",
            "report",
            examples=(
                "report                              the latest finished run",
                "report my-run --figures paper       its figures, as SVG and PNG",
                "report STUDY=widths                 a study",
            ),
            usage="[RUN]",
            words=_run,
        ),
        "tensorboard": Subcommand(
            "show all runs, during and after training",
            "launch.tensorboard_launcher",
            "tensorboard",
            TENSORBOARD,
            examples=("tensorboard PORT=6006    on another port",),
            on_cluster="tensorboard",
        ),
        "study": Subcommand(
            "compare trainings that differ in some settings, with several seeds",
            "studies.__main__",
            "study",
            examples=("study NAME=widths QUBITS=8,12 SEEDS=0..4    five seeds of two widths",),
        ),
        "search": Subcommand(
            "find circuits of few CNOTs for a Hamiltonian, a state or data",
            "studies.search.__main__",
            "search",
            examples=(
                "search NAME=h2 DATA=h2:0.74 SEEDS=0..4     five seeds",
                "search NAME=h2 DATA=h2:0.74 SEEDS=0..9 TARGET=slurm CPU=4     a task per seed",
                "search NAME=h2 DATA=h2:0.74 SEEDS=0..9 TARGET=k8s CPU=4       a pod per seed",
                "search NAME=own DATA=h.json SPACE=layers:3 METHOD=evolution BUDGET=10min",
                "search NAME=own DATA=h2:0.74 METHOD='python propose.py'    circuits of a program",
            ),
        ),
        "plan": Subcommand(
            "predict time and cost, and recommend the number of workers",
            "planning.__main__",
            "plan",
            examples=(
                "plan QUBITS=16 QUICK=1                          with cached measurements",
                "plan NAME=h2 DATA=h2:0.74 BUDGET=2min           a search, with its settings",
            ),
            for_search="studies.search.plan",
        ),
        "fleet": Subcommand(
            "simulate a job on 1 to 10,000 workers that are lost at times",
            "planning.fleet.__main__",
            "fleet",
        ),
        "data": Subcommand(
            "write a data set for many trainings",
            "common.data.__main__",
            "data",
            examples=("data TRAIN_EXAMPLES=1000000 STORAGE=gs://bucket/runs    in storage",),
        ),
        "calibrate": Subcommand(
            "list devices, or write the calibration of one for NOISE",
            "common.calibrations.__main__",
            "",
            DEVICES,
            examples=("calibrate DEVICE=ibm_sherbrooke    its calibration",),
        ),
        "check": Subcommand("report what works on this machine", "cli.check", "", None),
    }
)
"""Commands of the top level; `runs` and `cluster` have commands of their own."""

RUNS: Mapping[str, Subcommand] = MappingProxyType(
    {
        "list": Subcommand("list the runs, or the trials of STUDY", "cli.runs", "runs"),
        "show": Subcommand(
            "print the settings and the result of a run",
            "cli.runs",
            "runs",
            usage="RUN",
            words=_one("SHOW"),
        ),
        "compare": Subcommand(
            "compare the settings and metrics of runs",
            "cli.runs",
            "runs",
            examples=("runs compare one two --page compared.html",),
            usage="RUN...",
            words=_several("COMPARE"),
        ),
        "export": Subcommand(
            "write runs to a folder of MLflow",
            "cli.runs",
            "runs",
            examples=("runs export my-run --to mlflow --store mlruns",),
            usage="RUN...",
            words=_several("EXPORT"),
        ),
        "promote": Subcommand(
            "give a finished run an alias, which RUN takes",
            "cli.runs",
            "runs",
            examples=("runs promote my-run --as production",),
            usage="RUN",
            words=_one("PROMOTE"),
        ),
        "delete": Subcommand(
            "delete runs; `failed` deletes all that failed before their first checkpoint",
            "cli.runs",
            "runs",
            usage="RUN...",
            words=_several("DELETE"),
        ),
    }
)

CLUSTER: Mapping[str, Subcommand] = MappingProxyType(
    {
        "check": _client(
            "check",
            "report whether a training can start in the cluster",
            "cluster check WORKERS=8 MEMORY=8Gi QUEUE=team",
        ),
        "status": _client("status", "show the state of a job and its workers"),
        "list": _client("list", "list qfleet's jobs in the namespace"),
        "logs": _client("logs", "print the logs of workers, also after their pods were deleted"),
        "stop": _client("stop", "stop a training job; training the same RUN again resumes it"),
        "delete": _client(
            "delete", "delete training, inference, search or tensorboard from the cluster"
        ),
        "render": _client(
            "render",
            "print the manifests of training, inference or tensorboard",
            "cluster render training WORKERS=4 IMAGE=registry/qfleet | kubectl apply -f -",
        ),
    }
)
"""Commands of `qfleet cluster`: the client, on Kubernetes and with TARGET=slurm."""

FIRST = ("train", "infer", "runs", "tensorboard", "check")
"""The commands that `qfleet` alone names."""
