"""The client of a cluster, which `qfleet` and other programs start: `python -m launch COMMAND`."""

import sys
from collections.abc import Callable, Sequence

from common.commands import command
from common.errors import SettingsError, exit_on_signals, run_main
from common.settings import Settings
from common.settings.options import CheckOptions, TensorBoardOptions
from common.settings.programs import PROGRAMS
from common.text import did_you_mean
from launch.client_commands import COMMANDS, PROGRAM_OF_PART


def main() -> int:
    """Run the command in the first argument with the settings that follow it."""
    name, *rest = sys.argv[1:] or ["--help"]
    if name in ("-h", "--help", "help"):
        print(f"`{command('cluster')} --help` lists the commands of the client")
        return 0
    if name not in COMMANDS:
        raise SettingsError(
            f"{name} is not a command of the client: choose one of {', '.join(COMMANDS)}"
            + did_you_mean(name, COMMANDS)
        )
    exit_on_signals()  # `finally` blocks close the ports that were forwarded
    arguments = _positional(COMMANDS[name].arguments, rest)
    run = arguments[1:] if COMMANDS[name].arguments.endswith(" [RUN]") else arguments
    named = [f"--run={run[0]}"] if run and "RUN" in COMMANDS[name].arguments else []
    args = [*rest[len(arguments) :], *named]
    settings = _read(name, arguments, args)
    if settings.job.target == "slurm":
        return _slurm_function(name)(settings)
    return _function(name, arguments, args)(settings)


def _read(name: str, arguments: Sequence[str], args: Sequence[str]) -> Settings:
    """Return the settings of a command, which are those of a program or of its own."""
    program = COMMANDS[name].program or f"cluster {name}"
    if name == "render":
        program = PROGRAM_OF_PART.get(arguments[0] if arguments else "training", "")
    return Settings.from_args(args, program if program in PROGRAMS else "", is_client=True)


def _positional(expected: str, rest: Sequence[str]) -> list[str]:
    """Return the arguments in front of the settings."""
    arguments: list[str] = []
    for word in rest[: len(expected.split())]:
        if "=" in word or word.startswith("-"):
            break
        arguments.append(word)
    return arguments


def _slurm_function(name: str) -> Callable[[Settings], int]:
    from launch.slurm.commands import COMMANDS as SLURM_COMMANDS

    if name not in SLURM_COMMANDS:
        raise SettingsError(
            f"{name} can't be used with TARGET=slurm: choose one of {', '.join(SLURM_COMMANDS)}"
        )
    return SLURM_COMMANDS[name]


def _function(
    name: str, arguments: Sequence[str], args: Sequence[str]
) -> Callable[[Settings], int]:
    # Imported per command, so that errors in settings are reported without the cluster's client.
    match name:
        case "run":
            from launch.commands.run import run

            return run
        case "infer":
            from launch.commands.infer import infer

            return infer
        case "tensorboard":
            from launch.commands.tensorboard import tensorboard

            program = COMMANDS[name].program
            options = Settings.with_options(args, program, TensorBoardOptions, is_client=True)[1]
            return lambda settings: tensorboard(settings, options.port)
        case "check":
            from launch.commands.check import check

            found = Settings.with_options(args, "cluster check", CheckOptions, is_client=True)[1]
            return lambda settings: check(settings, probe=found.probe)
        case "status":
            from launch.commands.status import status

            return status
        case "list":
            from launch.commands.status import list_jobs

            return list_jobs
        case "logs":
            from launch.commands.logs import logs

            return logs
        case "stop":
            from launch.commands.stop import stop

            return stop
        case "benchmark":
            from launch.commands.benchmark import benchmark

            return lambda settings: benchmark(settings, arguments[0] if arguments else "[]")
        case "search":
            from launch.commands.search import search

            return lambda settings: search(settings, arguments[0] if arguments else "{}")
        case "storage":
            from launch.commands.storage import hold_storage

            return hold_storage
        case "delete":
            from launch.commands.stop import delete

            return lambda settings: delete(settings, arguments[0] if arguments else "")
    from launch.commands.render import render

    return lambda settings: render(settings, arguments[0] if arguments else "training")


if __name__ == "__main__":
    sys.exit(run_main(main))
