"""`python -m launch VERB`: the thin client of a cluster."""

import sys
from collections.abc import Sequence

from common.errors import SettingsError, exit_on_signals, run_main
from common.settings import Settings

VERBS = {
    "run": ("", "train as a TFJob and follow it; Ctrl-C leaves it running"),
    "infer": ("", "score the latest finished run, or RUN, in a Job and follow it"),
    "tensorboard": ("", "TensorBoard in the cluster, shown on TENSORBOARD_PORT until Ctrl-C"),
    "status": ("[RUN]", "where a job and its workers stand"),
    "logs": ("[RUN]", "what workers say, or have said once their pods are gone"),
    "stop": ("[RUN]", "stop a training job; the same RUN goes on later"),
    "probe": (
        "CASES",
        "measure short trainings in pods (training/step_benchmark_worker.py), and take them away",
    ),
    "list": ("", "qfleet's jobs in the namespace"),
    "delete": ("WHAT [RUN]", "take training, inference or tensorboard out of the cluster"),
    "render": ("[WHAT]", "print the manifests of training, inference or tensorboard"),
}


def help_text() -> str:
    """What `python -m launch --help` prints."""
    lines = ["python -m launch VERB [SETTING=value ...], where VERB is one of", ""]
    lines += [f"  {f'{verb} {more}':<20} {told}" for verb, (more, told) in VERBS.items()]
    lines += [
        "",
        "CONTEXT, NAMESPACE, OVERLAY and IMAGE say where; WORKERS, CPU and MEMORY how large; RUN",
        "which run. DRY_RUN=1 (or --dry-run) only says what would change. Settings may also stand",
        "in the environment (QFLEET_SEED=7) or in a YAML file (CONFIG=mine.yaml): `python -m",
        "launch run --help` and README.md list them all. The exit code of run and infer is the",
        "job's: 0, 2 where something must be changed, 128 and more where trying again helps.",
    ]
    return "\n".join(lines)


def main() -> int:
    """Do what the first word says with the settings that follow."""
    verb, *rest = sys.argv[1:] or ["--help"]
    if verb in ("-h", "--help", "help"):
        print(help_text())
        return 0
    if verb not in VERBS:
        raise SettingsError(f"{verb} is no verb of the client: it is one of {', '.join(VERBS)}")
    # Who ends this process ends the ways into the cluster that it opened, too.
    exit_on_signals()
    words = _words(verb, rest)
    return _do(verb, words, Settings.from_args(rest[len(words) :] + _named(verb, words)))


def _words(verb: str, rest: Sequence[str]) -> list[str]:
    """What stands before the settings: WHAT and RUN."""
    most = len(VERBS[verb][0].split())
    words: list[str] = []
    for word in rest[:most]:
        if "=" in word or word.startswith("-"):
            break
        words.append(word)
    return words


def _named(verb: str, words: Sequence[str]) -> list[str]:
    """RUN as a setting, where it was said as a word."""
    run = words[1:] if verb in ("delete", "render", "probe") else words
    return [f"--run={run[0]}"] if run else []


def _do(verb: str, words: Sequence[str], settings: Settings) -> int:
    # Imported by verb, so that a mistake in the settings is said at once.
    match verb:
        case "run":
            from launch.commands.run import run

            return run(settings)
        case "infer":
            from launch.commands.infer import infer

            return infer(settings)
        case "tensorboard":
            from launch.commands.tensorboard import tensorboard

            return tensorboard(settings)
        case "status":
            from launch.commands.status import status

            return status(settings)
        case "list":
            from launch.commands.status import list_jobs

            return list_jobs(settings)
        case "logs":
            from launch.commands.logs import logs

            return logs(settings)
        case "stop":
            from launch.commands.stop import stop

            return stop(settings)
        case "probe":
            from launch.commands.benchmark import benchmark

            return benchmark(settings, words[0] if words else "[]")
        case "delete":
            from launch.commands.stop import delete

            return delete(settings, words[0] if words else "")
    from launch import manifests

    builds = {
        "training": manifests.training,
        "inference": manifests.inference,
        "tensorboard": manifests.tensorboard,
    }
    what = words[0] if words else "training"
    if what not in builds:
        raise SettingsError(f"render {what}: it is one of {', '.join(builds)}")
    print(manifests.to_yaml(builds[what](settings)), end="")
    return 0


if __name__ == "__main__":
    sys.exit(run_main(main))
