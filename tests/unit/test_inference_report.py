"""The report: a self-contained file with all results and safely escaped names."""

import re
import shlex
from collections.abc import Sequence
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import jinja2
import numpy as np
import pytest

from common.data.target import SIGNS
from common.errors import run_main
from common.settings import Settings
from inference import gradient_variance, html_report, html_text, report_plots, svg_plots
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
def source(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The report of a multi-filter run on a table whose labels need escaping."""
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
    return Path(str(run.predictions), "report.html").read_text(encoding="utf-8")


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
