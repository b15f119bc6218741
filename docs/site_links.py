"""MkDocs hook: publish Markdown of the repository, and resolve links as GitHub does.

Pages outside docs/ (ARCHITECTURE.md, k8s/README.md, ...) appear below `repository/` on the site.
A relative link is resolved against the file's place in the repository, so the same link works on
GitHub and on the site. A link to a source file becomes plain text, since the site has no sources.
A link to a missing file stays as it is, and the strict build reports it. So does a path of the
repository in backquotes that does not exist.
"""

import logging
import posixpath
import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

log = logging.getLogger("mkdocs.hooks.site_links")

ROOT = Path(__file__).resolve().parents[1]
PREFIX = "repository"
PUBLISHED = (
    "ARCHITECTURE.md",
    "CHANGELOG.md",
    "CODE_OF_CONDUCT.md",
    "CONTRIBUTING.md",
    "SECURITY.md",
    "benchmarks/RESULTS.md",
    "benchmarks/time_against_batch.png",
    "benchmarks/time_against_qubits.png",
    "examples/README.md",
    "examples/better_than_classical/README.md",
    "examples/gke_spot/README.md",
    "examples/kubernetes/README.md",
    "examples/noise/README.md",
    "examples/tasks/README.md",
    "infra/README.md",
    "k8s/README.md",
    "tests/README.md",
    "tests/e2e/cluster/README.md",
)
# Pages that exist for GitHub only, and the page of the site that takes their place.
REPLACED = {"README.md": "docs/index.md"}
LINK = re.compile(r"(?P<mark>!?)\[(?P<text>[^\]]*)\]\((?P<target>[^)\s]+)\)")
FOLDERS = (
    "benchmarks|common|docs|examples|images|inference|infra|k8s|launch|planning|qfleet|requirements"
    "|tests|tools|training"
)
PATH = re.compile(rf"`((?:{FOLDERS})/[a-z0-9_./*-]*)`")
# Paths that a user or a command creates, and a label of Kubernetes.
NOT_STORED = {"benchmarks/quick", "benchmarks/run.json", "infra/own.env", "qfleet/run"}
FENCE = re.compile(r"^(```.*?^```)", re.MULTILINE | re.DOTALL)


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the published files of the repository to those of docs/."""
    for name in PUBLISHED:
        files.append(File.generated(config, f"{PREFIX}/{name}", abs_src_path=str(ROOT / name)))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Rewrite the relative links of one page outside code blocks, and check the paths it names."""
    here = _repository_path(page.file.src_uri)
    for path in PATH.findall(markdown):
        if path not in NOT_STORED and not any(ROOT.glob(path.rstrip("/"))):
            log.warning(f"{here} names `{path}`, which does not exist")
    parts = FENCE.split(markdown)
    # Odd indices are code blocks.
    parts[::2] = [LINK.sub(lambda link: _rewrite(link, here), part) for part in parts[::2]]
    return "".join(parts)


def _repository_path(site_path: str) -> str:
    """Return the path in the repository of a page of the site."""
    if site_path.startswith(f"{PREFIX}/"):
        return site_path.removeprefix(f"{PREFIX}/")
    return f"docs/{site_path}"


def _site_path(repository_path: str) -> str | None:
    """Return the path on the site of a file of the repository, or None if it has none."""
    repository_path = REPLACED.get(repository_path, repository_path)
    if repository_path in PUBLISHED:
        return f"{PREFIX}/{repository_path}"
    if repository_path.startswith("docs/") and not repository_path.endswith(".py"):
        return repository_path.removeprefix("docs/")
    return None


def _rewrite(link: re.Match[str], here: str) -> str:
    target, _, anchor = link["target"].partition("#")
    if not target or ":" in target or target.startswith("/"):
        return link[0]
    path = posixpath.normpath(posixpath.join(posixpath.dirname(here), target))
    found = _site_path(path)
    if found is None:
        return link["text"] if (ROOT / path).exists() else link[0]
    start = posixpath.dirname(_site_path(here) or "")
    relative = posixpath.relpath(found, start or ".")
    return f"{link['mark']}[{link['text']}]({relative}{'#' * bool(anchor)}{anchor})"
