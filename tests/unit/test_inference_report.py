"""The report: a self-contained file with all results and safely escaped names."""

import io
import re
import shlex
import shutil
import xml.etree.ElementTree as ET
from collections.abc import Sequence
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import jinja2
import numpy as np
import pytest
from PIL import Image

from cli import report
from common.data.target import SIGNS
from common.errors import run_main
from common.settings import Settings
from inference import figures, gradient_variance, html_report, html_text, report_plots, svg_plots
from inference.__main__ import main
from inference.scoring import ClassScores
from studies import html_report as study_report
from tests.support.finished_run import finish

NAMES = ("a<b>$x$&", 'c"$')


class Page(HTMLParser):
    """The elements of a page with attributes, and its text. All tags must be closed."""

    VOID = ("meta", "br", "hr", "img", "link", "input")

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self._open: list[str] = []
        self.feed(text)
        self.close()
        assert not self._open, f"not closed: {self._open}"

    def handle_starttag(self, tag: str, attrs: Sequence[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in self.VOID:
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: Sequence[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        if not self._open or self._open[-1] != "style":
            self.text += data + " "

    def find(self, tag: str, kind: str = "") -> list[dict[str, str | None]]:
        return [
            a
            for t, a in self.elements
            if t == tag and kind in [*(a.get("class") or "").split(), ""]
        ]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a multi-filter run on a table whose labels need escaping, with its report."""
    folder = tmp_path_factory.mktemp("report")
    lines = [f"{i % 7},{i % 5},{NAMES[i % 2]!r}".replace("'", "") for i in range(80)]
    lines = [line.replace('c"$', '"c""$"') for line in lines]
    (folder / "table.csv").write_text("\n".join(["one,two,label", *lines]))
    run = finish(
        folder / "runs", "filters", f"DATA={folder / 'table.csv'}", "MODEL=multi-filter",
        "FILTERS=2", "QUBITS=2", "TRAIN_EXAMPLES=", "VALIDATION_EXAMPLES=", "TEST_EXAMPLES=",
    )  # fmt: skip
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sys.argv", ["inference", f"STORAGE={folder / 'runs'}"])
        assert run_main(main) == 0
    return Path(str(run.path))


@pytest.fixture(scope="module")
def source(run: Path) -> str:
    return (run / "predictions" / "report.html").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def page(source: str) -> Page:
    return Page(source)


def test_report_loads_nothing_and_runs_nothing(source, page):
    assert not {tag for tag, _ in page.elements} & {
        "script", "link", "img", "iframe", "object", "embed", "image", "base", "form",
    }  # fmt: skip
    for _, attributes in page.elements:
        for name, value in attributes.items():
            assert not name.startswith("on")
            if name in ("src", "srcset", "action", "data", "poster", "background"):
                pytest.fail(f"{name}={value}")
            if name in ("href", "xlink:href"):
                assert (value or "").startswith("#")
    for address in re.findall(r"https?://[^\s\"'<)]+", source):
        assert address.startswith("http://www.w3.org/"), (
            "only names of XML namespaces, which are not loaded"
        )
    assert not re.findall(r"url\((?!#)", source)
    assert "@import" not in source
    (policy,) = [a["content"] for a in page.find("meta") if "http-equiv" in a]
    assert policy == "default-src 'none'; style-src 'unsafe-inline'"


def test_report_ids_are_unique_and_references_resolve(source, page):
    ids = [a["id"] for _, a in page.elements if "id" in a]
    assert len(ids) == len(set(ids))
    references = re.findall(r'(?:href="|url\()#([^")]+)', source)
    assert references
    assert set(references) <= set(ids)


def test_report_plots_use_the_colours_of_the_page(source):
    assert not [colour for colour in svg_plots.COLOURS.values() if colour in source]
    for variable in svg_plots.COLOURS:
        assert f"--{variable}:" in source, "the template defines it"


def test_report_has_all_sections(page):
    for title in ("Run", "Loss", "Predictions", "Readouts", "Confusion matrix",
                  "Baselines", "Gradient variance by layer", "Circuit"):  # fmt: skip
        assert title in page.text
    for words in ("2 random initializations", "best initialization continued",
                  "logistic regression",
                  "arXiv:1803.11173", "a random circuit of 2 qubits", "python 3.11"):  # fmt: skip
        assert words in page.text
    assert len(page.find("svg", "circuit")) == 2
    assert len(page.find("svg", "plot")) == 5


def test_report_sentences_are_separated(page):
    assert re.findall(r"[a-z0-9)]\.[A-Z][a-z]+", page.text) == []


def test_report_escapes_class_names(page):
    for name in NAMES:
        assert f"label {name}" in page.text
    assert "b" not in {tag for tag, _ in page.elements}


def test_report_accuracy_matches_the_confusion_matrix(page):
    accuracy = float(re.search(r"accuracy\s+([\d.]+)%", page.text)[1])
    cells = re.search(r"Confusion matrix(.*?)Baselines", page.text, re.S)[1]
    counts = [int(n) for n in re.findall(r"\s(\d+)\s+\d+\.\d%", cells)]
    assert sum(counts) == 16
    assert accuracy == pytest.approx(100 * (counts[0] + counts[3]) / 16, abs=0.01)


def scores(n: int, readouts: int, labels: bool = True) -> ClassScores:
    generator = np.random.default_rng(0)
    predictions = generator.normal(size=n).astype(np.float32)
    signs = np.where(np.arange(n) % 2, 1, -1).astype(np.float32)
    values = generator.uniform(-1, 1, (n, readouts)).astype(np.float32)
    result = ClassScores(SIGNS, readouts, labels, 1)
    result.add(predictions, values, signs if labels else None)
    return result


@pytest.mark.parametrize(("n", "labels"), [(1, True), (2, False), (500, True)])
def test_prediction_plots_take_any_number_of_examples(n, labels):
    Page(report_plots.predictions(scores(n, 1, labels), NAMES))
    Page(report_plots.readouts(scores(n, 14, labels), NAMES))


@pytest.mark.parametrize(
    ("epochs", "count", "each"), [(1, 1, 0), (3, 1, 10), (3, 4, 2), (8, 4, 2), (20, 4, 2)]
)
def test_loss_curve_takes_any_number_of_epochs(epochs, count, each):
    rows: list[dict[str, Any]] = [
        {"epoch": i + 1, "mse": 1.0, "val_mse": 2.0} for i in range(epochs)
    ]
    text = Page(report_plots.loss_curve(rows, "mse", count, each)).text
    assert ("random initializations" in text) == (count > 1)
    continued = count > 1 and epochs > count * each
    assert ("best initialization continued" in text) == continued


def test_gradient_plot_marks_flat_layers():
    flat = gradient_variance.LayerGradients("layer $1", 1e-5, 1e-5, 21)
    steep = gradient_variance.LayerGradients("layer 2", 1e-1, 1e-5, 21)
    svg = report_plots.gradient_variance(
        gradient_variance.GradientVariance("c", 12, (flat, steep), 100), "g"
    )
    assert "barren plateau" in Page(svg).text
    assert "layer $1 (21 angles)" in Page(svg).text
    assert "barren plateau" not in report_plots.gradient_variance(
        gradient_variance.GradientVariance("c", 12, (steep,), 100), "g"
    )


def test_page_escapes_values_and_refuses_unknown_names(tmp_path):
    template = tmp_path / "page.html"
    template.write_text('<p title="{{ text }}">{{ text }}</p>')
    text = "&#34;&lt;b&gt;\\x1b"
    assert html_text.page(template, text='"<b>\x1b') == f'<p title="{text}">{text}</p>'
    with pytest.raises(jinja2.UndefinedError):
        html_text.page(template)


@pytest.mark.parametrize("template", [html_report.TEMPLATE, study_report.TEMPLATE])
def test_template_takes_only_drawings_as_markup(template):
    trusted = re.findall(r"{{ ([\w.]+)[^}]*\| safe", template.read_text(encoding="utf-8"))
    assert trusted
    assert not [name for name in trusted if not re.search("plot|svg|curves", name)]


def test_report_ends_with_the_command_that_repeats_the_run(page: Page) -> None:
    (line,) = re.findall(r"make training \S.*", page.text)
    words = [word for word in shlex.split(line)[2:] if not word.startswith("EPOCHS=")]
    settings = Settings.from_args(words, "train")  # the run has fewer epochs than a real one
    given = {"MODEL=multi-filter", "FILTERS=2", "QUBITS=2"}
    assert given <= set(line.split())
    assert settings.model.filters == 2
    assert settings.data.data.endswith("table.csv")
    assert "EPOCHS=3" in line.split()
    assert "SEED" not in line  # has its default


def open_report(*words: str) -> int:
    """Return the exit code of `qfleet report WORDS`."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sys.argv", ["report", *words])
        return run_main(report.main)


def colours_in(png: bytes) -> set[str]:
    pixels = np.asarray(Image.open(io.BytesIO(png)).convert("RGB")).reshape(-1, 3)
    numbers = np.unique(pixels.astype(np.int32) @ (1 << 16, 1 << 8, 1))
    return {f"#{one:06x}" for one in numbers}


def test_figures_are_saved_as_svg_and_png(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = (f"STORAGE={run.parent}", f"RUN={run.name}", "--figures", str(tmp_path / "new"))
    assert open_report(*words) == 0
    names = ["calibration", "circuit-1", "circuit-2", "gradient-variance-1", "loss", "predictions",
             "readouts"]  # fmt: skip
    files = sorted(path.name for path in (tmp_path / "new").iterdir())
    assert files == [f"{name}.{kind}" for name in names for kind in ("png", "svg")]
    assert str(tmp_path / "new") in capsys.readouterr().out


def test_figures_need_no_page(source: str) -> None:
    for name, svg in figures.extract_figures(source).items():
        ids = {one.get("id") for one in ET.fromstring(svg).iter()}  # it is XML, unlike HTML
        assert set(re.findall(r'(?:href="|url\()#([^")]+)', svg)) <= ids, name
        assert "var(" not in svg
        assert "inherit" not in svg


def test_figures_as_png_have_the_light_colours(source: str) -> None:
    light = dict(re.findall(r"--([a-z]+): (#\w+);", source.partition("@media")[0]))
    drawings = figures.extract_figures(source)
    names = ("circuit-1", "loss", "gradient-variance-1")
    found = {name: colours_in(figures.to_png(drawings[name])) for name in names}
    data, trained, ink = light["positive"], light["negative"], light["ink"]
    assert {"#ffffff", data, trained, ink} <= found["circuit-1"]
    assert {"#ffffff", data, light["train"], ink} <= found["loss"]
    assert {"#ffffff", trained, ink} <= found["gradient-variance-1"]


def test_figure_of_a_long_circuit_fits_into_a_png() -> None:
    wide = '<svg id="circuit" class="circuit" viewBox="0 0 144000 72" width="144000" height="72"'
    png = figures.to_png(f'{wide} xmlns="http://www.w3.org/2000/svg"></svg>')
    assert Image.open(io.BytesIO(png)).size == (figures.MAX_PIXELS, 8)


@pytest.mark.parametrize(
    ("change", "part"),
    [
        (["--figures", "{page}"], "FIGURES="),
        (["--figures", "{page}/x"], "FIGURES="),
        (["--figures", "ftp://host/folder"], "ftp:"),
        (["STUDY=none"], "make study NAME=none"),
        (["RUN=none", "--figures", "x"], "none"),
    ],
)
def test_report_error_is_one_sentence_and_exit_code_2(
    run: Path, change: list[str], part: str, capsys: pytest.CaptureFixture[str]
) -> None:
    words = [word.format(page=run / "predictions" / "report.html") for word in change]
    assert open_report(f"STORAGE={run.parent}", *words) == 2
    error = capsys.readouterr().err
    assert part in error
    assert error.count("\n") == 1


@pytest.mark.parametrize(("page", "part"), [(None, "no report"), ("<html>", "no figures")])
def test_figures_of_a_missing_report_are_refused(
    run: Path, tmp_path: Path, page: str | None, part: str, capsys: pytest.CaptureFixture[str]
) -> None:
    copy = shutil.copytree(run, tmp_path / run.name)
    (copy / "predictions" / "report.html").unlink()
    if page:
        (copy / "predictions" / "report.html").write_text(page)
    assert open_report(f"STORAGE={tmp_path}", f"FIGURES={tmp_path / 'new'}") == 2
    assert part in (error := capsys.readouterr().err)
    assert f"make inference STORAGE={tmp_path} RUN={run.name}`" in error
