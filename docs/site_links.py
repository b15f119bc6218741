"""MkDocs hook: publish Markdown of the repository, and resolve links as GitHub does.

Pages outside docs/ (examples/README.md, benchmarks/RESULTS.md) appear below `repository/`.
A relative link is resolved against the file's place in the repository, so the same link works on
GitHub and on the site. A link to a file that is read in a checkout only, such as a source file or
ARCHITECTURE.md, becomes text with the path. A link to a missing file stays as it is, and the strict
build reports it. The links of files for contributors are checked, too, and so is a path of the
repository in backquotes.
"""

import logging
import posixpath
import re
from pathlib import Path

from markdown.extensions.toc import slugify
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

log = logging.getLogger("mkdocs.hooks.site_links")

ROOT = Path(__file__).resolve().parents[1]
PREFIX = "repository"
PUBLISHED = (
    "benchmarks/RESULTS.md",
    "benchmarks/time_against_batch.png",
    "benchmarks/time_against_qubits.png",
    "examples/README.md",
)
# Read in a checkout by contributors: not on the site, but their links are checked.
CHECKED = (
    "ARCHITECTURE.md",
    "CHANGELOG.md",
    "CODE_OF_CONDUCT.md",
    "CONTRIBUTING.md",
    "README.md",
    "SECURITY.md",
    "docs/architecture/cluster.md",
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
# A file of an earlier commit is named with that commit.
PATH = re.compile(rf"`((?:{FOLDERS})/[a-z0-9_./*-]*)`(?! of commit)")
# Paths that a user or a command creates, and a label of Kubernetes.
NOT_STORED = {"benchmarks/quick", "benchmarks/run.json", "infra/own.env", "qfleet/run"}
HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)
FENCE = re.compile(r"^(```.*?^```)", re.MULTILINE | re.DOTALL)


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the published files of the repository to those of docs/."""
    for name in PUBLISHED:
        files.append(File.generated(config, f"{PREFIX}/{name}", abs_src_path=str(ROOT / name)))
    for name in CHECKED:
        _check_links(name)
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Rewrite the relative links of one page outside code blocks, and check the paths it names."""
    here = _repository_path(page.file.src_uri)
    _check_paths(markdown, here)
    parts = FENCE.split(markdown)
    # Odd indices are code blocks.
    parts[::2] = [LINK.sub(lambda link: _rewrite(link, here), part) for part in parts[::2]]
    return "".join(parts)


def _check_paths(markdown: str, here: str) -> None:
    """Report paths of the repository in backquotes that do not exist."""
    for path in PATH.findall(markdown):
        if path not in NOT_STORED and not any(ROOT.glob(path.rstrip("/"))):
            log.warning(f"{here} names `{path}`, which does not exist")


def _check_links(name: str) -> None:
    """Report relative links of a file for contributors to missing files and headings."""
    markdown = (ROOT / name).read_text(encoding="utf-8")
    _check_paths(markdown, name)
    for link in LINK.finditer(FENCE.sub("", markdown)):
        target, _, anchor = link["target"].partition("#")
        if ":" in target:
            continue
        file = posixpath.join(posixpath.dirname(name), target) if target else name
        path = ROOT / posixpath.normpath(file)
        if not path.exists() or (anchor and path.suffix == ".md" and anchor not in _anchors(path)):
            log.warning(f"{name} links to '{link['target']}', which does not exist")


def _anchors(path: Path) -> set[str]:
    """Return the anchors of a Markdown file: those of its headings, and its own."""
    text = FENCE.sub("", path.read_text(encoding="utf-8"))
    headings = {slugify(re.sub(r"<[^>]*>", "", one), "-") for one in HEADING.findall(text)}
    return headings | set(re.findall(r'<a id="([^"]+)"', text))


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
    if repository_path in CHECKED:
        return None
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
        if not (ROOT / path).exists():
            return link[0]
        return link["text"] if path in link["text"] else f"{link['text']} (`{path}`)"
    start = posixpath.dirname(_site_path(here) or "")
    relative = posixpath.relpath(found, start or ".")
    return f"{link['mark']}[{link['text']}]({relative}{'#' * bool(anchor)}{anchor})"
