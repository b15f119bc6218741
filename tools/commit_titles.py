"""Check commit messages: a title of at most 72 characters, and a body with the reason.

Usage:
    python -m tools.commit_titles FILE    check the message in a file: a commit-msg hook
    python -m tools.commit_titles         check the commits since the newest tag, else the last 20

Merge commits are exempt. A shallow clone has no history to check.
Exit status: 0 without findings, 1 with findings.
"""

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

MAX_TITLE = 72
WITHOUT_TAGS = 20
BEGIN = "2026-11-27T07:37Z"
"""Earlier commits are not checked: there was no such rule."""


def check(message: str) -> str:
    """Return what is wrong with a message; empty if nothing is."""
    title, _, body = message.strip().partition("\n\n")
    title = " ".join(title.split())
    if len(title) > MAX_TITLE:
        return f"the title {title!r} has {len(title)} characters: write at most {MAX_TITLE}"
    if not re.search(r"^(?![\w-]+-by: )\S", body, re.M):
        return f"the commit {title!r} has no body: add a blank line, and why the change is made"
    return ""


def new_messages(root: Path) -> Iterator[str]:
    """Yield the messages of the commits since the newest tag, else of the last ones."""
    if _git(root, "rev-parse", "--is-shallow-repository") != "false":
        return  # also outside a repository
    tag = _git(root, "describe", "--tags", "--abbrev=0")
    chosen = [f"{tag}..HEAD"] if tag else [f"--max-count={WITHOUT_TAGS}"]
    log = _git(root, "log", "-z", "--no-merges", "--format=%B", f"--since={BEGIN}", *chosen)
    yield from filter(None, log.split("\0"))


def _git(root: Path, *arguments: str) -> str:
    command = ["git", "-C", str(root), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()


def main(arguments: list[str]) -> int:
    """Run the command line and return the exit status."""
    root = Path(__file__).parents[1]
    if not arguments:
        messages = list(new_messages(root))
    elif _git(root, "rev-parse", "--quiet", "--verify", "MERGE_HEAD"):
        messages = []
    else:
        # The template of `git commit --verbose` ends with the diff.
        text = Path(arguments[0]).read_text(encoding="utf-8").partition("\n# ---------")[0]
        messages = [re.sub(r"^#.*\n?", "", text, flags=re.M)]
    findings = list(filter(None, map(check, messages)))
    print("".join(f"{finding}\n" for finding in findings), end="", file=sys.stderr)
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
