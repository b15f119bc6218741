"""`make chaos`: random faults in real training jobs.

    python -m chaos JOBS=20 SEED=1              20 jobs on this machine
    python -m chaos JOBS=20 SEED=1 TARGET=k8s   in the cluster of the current context

Other settings are those of the jobs, such as EPOCHS. The results are appended to REPORT, by default
the folder chaos/. A campaign with the same seed continues after its last job. The exit code is 1 if
a job did not finish with the weights of an undisturbed one, or waited for more than 60 s without a
line that names the reason.
"""

import secrets
import sys
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

from chaos.campaign import Campaign, Place
from chaos.cluster import ClusterPlace
from chaos.local import LocalPlace
from chaos.report import MAX_SILENCE_SECONDS, Report
from common.errors import EXIT_OK, SettingsError, exit_on_signals, run_main
from common.settings import Settings
from qfleet import __version__

DEFAULT_JOBS = 8
EPOCHS = {"local": "EPOCHS=300", "k8s": "EPOCHS=600"}
EXIT_NOT_PASSED = 1


@dataclass(frozen=True)
class Options:
    """The command line.

    Attributes:
        jobs: Number of jobs.
        seed: Seed of the campaign.
        target: local or k8s.
        report: Folder of the report.
        settings: Settings of all jobs.
    """

    jobs: int
    seed: int
    target: str
    report: Path
    settings: tuple[str, ...]

    @classmethod
    def parse(cls, args: Sequence[str]) -> "Options":
        """Read NAME=value arguments.

        Raises:
            SettingsError: A value is not allowed.
        """
        known = {"JOBS": str(DEFAULT_JOBS), "SEED": "", "TARGET": "local", "REPORT": "chaos"}
        others = []
        for arg in args:
            name, equals, value = arg.partition("=")
            if not equals:
                raise SettingsError(f"{arg!r} is not NAME=value; try JOBS=8 SEED=1")
            if name in known:
                known[name] = value
            else:
                others.append(arg)
        if known["TARGET"] not in EPOCHS:
            raise SettingsError(f"TARGET={known['TARGET']} is neither local nor k8s")
        numbers = {}
        for name in ("JOBS", "SEED"):
            text = known[name] or str(secrets.randbelow(1_000_000))
            if not text.isdecimal() or (name == "JOBS" and int(text) == 0):
                raise SettingsError(f"{name}={text} is not a positive integer")
            numbers[name] = int(text)
        Settings.from_args([f"TARGET={known['TARGET']}", *others], "train")
        return cls(
            numbers["JOBS"], numbers["SEED"], known["TARGET"], Path(known["REPORT"]), tuple(others)
        )


def main() -> int:
    """Run the campaign of the command line."""
    options = Options.parse(sys.argv[1:])
    exit_on_signals()  # ends the jobs' processes
    with open_place(options) as place:
        return run(options, place)


def open_place(options: Options) -> AbstractContextManager[LocalPlace | ClusterPlace]:
    """Return the place where the jobs run."""
    settings = [EPOCHS[options.target], *options.settings]
    if options.target == "k8s":
        return ClusterPlace(settings)
    return LocalPlace(settings)


def run(options: Options, place: Place) -> int:
    """Run a campaign, and append each job to the report."""
    report = Report(options.report)
    first = report.next_job(place.name, options.seed)
    print(f"seed {options.seed}: jobs {first} to {first + options.jobs - 1}", flush=True)
    passed = 0
    campaign = Campaign(place, options.seed, lambda line: print(line, flush=True))
    for result in campaign.run(first, options.jobs):
        report.add(place.name, __version__, options.seed, result)
        passed += result.passed and result.silence <= MAX_SILENCE_SECONDS
    print(f"{passed} of {options.jobs} jobs passed; report: {options.report}")
    return EXIT_OK if passed == options.jobs else EXIT_NOT_PASSED


if __name__ == "__main__":
    sys.exit(run_main(main))
