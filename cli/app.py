"""The command line of `qfleet`: click finds the command, and Settings reads what follows it."""

import functools
import importlib
import os
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import click
from click.shell_completion import CompletionItem

from cli.commands import CLUSTER, COMMANDS, FIRST, RUNS, Subcommand
from common import events
from common.environments import LAUNCH, WORKER, code_version
from common.errors import SettingsError, run_main
from common.text import did_you_mean

if TYPE_CHECKING:
    from common.settings.fields import SettingField

CLIENT = "launch.__main__"
"""The client of clusters."""

JSON = "--json"
"""Prints the events of a program as JSON lines, as its pods do."""


def main(args: Sequence[str]) -> int:
    """Run `qfleet ARGS`.

    Args:
        args: The command line without `qfleet`.

    Returns:
        The exit code; see docs/fault-tolerance.md.
    """
    if JSON in args:
        args = [arg for arg in args if arg != JSON]
        os.environ.setdefault(events.ENVIRONMENT_VARIABLE, "stdout")
    return run_main(functools.partial(_run, list(args)))


def _run(args: list[str]) -> int:
    try:
        code = front_door().main(args, "qfleet", standalone_mode=False, max_content_width=100)
    except click.ClickException as error:
        raise SettingsError(error.format_message()) from None
    except click.Abort:
        raise KeyboardInterrupt from None
    return code if isinstance(code, int) else 0


def front_door() -> click.Group:
    """Return the command `qfleet` with all of its commands."""
    root = Group("qfleet", COMMANDS, help="Train quantum neural networks on a fleet of workers.")
    root.add_command(
        Group(
            "runs",
            RUNS,
            help="List, show, compare, export, promote and delete runs.",
            default="list",
        )
    )
    root.add_command(Group("cluster", CLUSTER, help="Follow, stop and render jobs of a cluster."))
    root.params.append(
        click.Option(
            ["--version"],
            is_flag=True,
            expose_value=False,
            is_eager=True,
            help="Show the version and exit.",
            callback=_print_version,
        )
    )
    return root


def _print_version(context: click.Context, _: click.Parameter, given: bool) -> None:
    if given and not context.resilient_parsing:
        click.echo(f"qfleet {code_version()}")
        context.exit()


class Group(click.Group):
    """A command with subcommands.

    Args:
        name: Its name.
        commands: The subcommands by name.
        help: Its summary.
        default: The subcommand that is run if settings or nothing follow; default: print help.
    """

    def __init__(
        self, name: str, commands: Mapping[str, Subcommand], *, help: str, default: str = ""
    ) -> None:
        super().__init__(name, help=help, invoke_without_command=True)
        self._default = default
        self._path = "" if name == "qfleet" else f"{name} "
        for key, command in commands.items():
            self.add_command(SettingsCommand(f"{self._path}{key}", command), key)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Add the default subcommand in front of settings."""
        names_command = bool(args) and (args[0] in ("-h", "--help") or not _is_setting(args[0]))
        if self._default and not names_command and not ctx.resilient_parsing:
            args = [self._default, *args]
        return super().parse_args(ctx, args)

    def invoke(self, ctx: click.Context) -> object:
        """Run the subcommand, or print what there is."""
        if ctx.invoked_subcommand is None and not ctx._protected_args:
            click.echo(_first_commands() if not self._path else self.get_help(ctx))
            return 0
        return super().invoke(ctx)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the subcommand.

        Raises:
            SettingsError: There is none of this name.
        """
        if args[0] not in self.commands and not ctx.resilient_parsing:
            known = [f"{self._path}{name}" for name in self.commands]
            raise SettingsError(
                f"{self._path}{args[0]} is not a command of qfleet: choose one of"
                f" {', '.join(known)}" + did_you_mean(args[0], self.commands)
            )
        return super().resolve_command(ctx, args)


class SettingsCommand(click.Command):
    """A command that is followed by settings, which `Settings` reads: NAME=value or --name value.

    Args:
        path: Words after `qfleet`.
        command: What it does.
    """

    def __init__(self, path: str, command: Subcommand) -> None:
        examples = "".join(f"\n  qfleet {example}" for example in command.examples)
        epilog = f"\b\nExamples:{examples}" if examples else ""
        super().__init__(path.split()[-1], help=_sentence(command.summary), epilog=epilog)
        self._command = command

    def collect_usage_pieces(self, ctx: click.Context) -> list[str]:
        """Return the words of the usage line."""
        return [piece for piece in (self._command.usage, "[NAME=value | --name value]...") if piece]

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Leave all arguments to `Settings`."""
        if {"-h", "--help"} & {*args} and not ctx.resilient_parsing:
            click.echo(self.get_help(ctx))
            ctx.exit()
        ctx.args = args
        return args

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the settings by group."""
        # Imported late, here and below: the list of commands needs no pydantic.
        from common.settings.registry import flag
        from common.settings.schema import by_title, describe_constraint, format_value

        def row(field: "SettingField") -> tuple[str, str]:
            facts = [describe_constraint(field), *([f"in {field.unit}"] if field.unit else [])]
            if text := format_value(field.default):
                facts.append(f"default: {text}")
            name = f"{field.variable}, --{flag(field.name)}"
            return name, f"{field.description} [{'; '.join(facts)}]"

        for title, members in by_title(self._fields().values()).items():
            with formatter.section(title):
                formatter.write_dl([row(field) for field in members])
        with formatter.section("Output"):
            formatter.write_dl([(JSON, "events as JSON lines, for scripts")])
        formatter.write_paragraph()
        formatter.write_text(
            "Settings can also be set in the environment (QFLEET_SEED=7) or in a YAML file"
            " (CONFIG=my.yaml)."
        )

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Return the settings, or the values of a setting, that begin with a text."""
        from common.settings.registry import flag

        fields = self._fields()
        name, equals, value = incomplete.partition("=")
        if equals:
            field = fields.get(name.removeprefix("--").lower().replace("-", "_"))
            found = field.choices if field else ()
            return [CompletionItem(f"{name}={one}") for one in found if one.startswith(value)]
        if incomplete.startswith("-"):
            names = {f"--{flag(one.name)}": one for one in fields.values()}
        else:
            names = {f"{one.variable}=": one for one in fields.values()}
        return [
            CompletionItem(text, help=one.description)
            for text, one in names.items()
            if text.lower().startswith(incomplete.lower())
        ]

    def invoke(self, ctx: click.Context) -> int:
        """Run the program; return its exit code."""
        return _run_program(ctx.command_path, self._command, ctx.args)

    def _fields(self) -> Mapping[str, "SettingField"]:
        from common.settings.programs import PROGRAMS, listed_fields

        program = self._command.program
        return listed_fields(program) if program in PROGRAMS else {}


def _run_program(path: str, command: Subcommand, args: Sequence[str]) -> int:
    environment, module = command.environment, command.module
    count = next((at for at, arg in enumerate(args) if _is_setting(arg)), len(args))
    if command.words:
        args = [*command.words(args[:count]), *args[count:]]
        count = 0
    if command.on_cluster:
        target = _target(args[count:], command, is_client=module == CLIENT)
        if target != "local":
            environment, module = LAUNCH if target == "k8s" else WORKER, CLIENT
            args = [command.on_cluster, *args]
    if command.for_search and _names_search(args):
        module = command.for_search
    if environment:
        environment.enter(path.removeprefix("qfleet "))
    sys.argv[:] = [path, *args]
    program = importlib.import_module(module)
    code = program.main()
    return code if isinstance(code, int) else 0


def _names_search(args: Sequence[str]) -> bool:
    """Return True if a setting is given that a search has, and a training has not."""
    from common.settings import Settings
    from common.settings.options import SYNONYMS, option_fields

    names = {*SYNONYMS["search"], *option_fields("search")} - option_fields("plan").keys()
    given = (arg.partition("=")[0].removeprefix("--").replace("-", "_") for arg in args)
    return bool({one.lower() for one in given} & (names - Settings.fields().keys()))


def _target(args: Sequence[str], command: Subcommand, *, is_client: bool) -> str:
    """Return TARGET; the client of clusters takes `local` for k8s."""
    from common.settings import Settings
    from common.settings.programs import PROGRAMS

    program = command.program if command.program in PROGRAMS else ""
    target = Settings.from_args(args, program, is_client=is_client).job.target
    return "k8s" if is_client and target == "local" else target


def _is_setting(arg: str) -> bool:
    return "=" in arg or arg.startswith("-")


def _sentence(summary: str) -> str:
    return f"{summary[0].upper()}{summary[1:]}."


def _first_commands() -> str:
    lines = ["Train quantum neural networks on a fleet of workers.", ""]
    lines += [f"  qfleet {name:<12} {COMMANDS[name].summary}" for name in FIRST]
    return "\n".join([*lines, "", "All commands: qfleet --help"])
