"""The report: one file that loads nothing, says what was found, and takes any name for text."""

import re
from collections.abc import Sequence
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from common.errors import run_main
from inference import gradient_variance, html_report, report_plots
from inference.__main__ import main
from inference.scoring import Scores
from tests.support.finished_run import finish

NAMES = ("a<b>$x$&", 'c"$')


class Page(HTMLParser):
    """What a page holds: its elements with attributes, its text, and whether tags are closed."""

    VOID = ("meta", "br", "hr", "img", "link", "input")

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.words = ""
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
            self.words += data + " "

    def of(self, tag: str, kind: str = "") -> list[dict[str, str | None]]:
        return [
            a
            for t, a in self.elements
            if t == tag and kind in [*(a.get("class") or "").split(), ""]
        ]


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The report of a multi-filter run on a table whose labels are unkind."""
    folder = tmp_path_factory.mktemp("report")
    lines = [f"{i % 7},{i % 5},{NAMES[i % 2]!r}".replace("'", "") for i in range(80)]
    lines = [line.replace('c"$', '"c""$"') for line in lines]
    (folder / "mine.csv").write_text("\n".join(["one,two,label", *lines]))
    run = finish(
        folder / "runs", "mine", f"DATA={folder / 'mine.csv'}", "MODEL=multi-filter", "FILTERS=2",
        "QUBITS=2", "TRAIN_EXAMPLES=", "VALIDATION_EXAMPLES=", "TEST_EXAMPLES=",
    )  # fmt: skip
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sys.argv", ["inference", f"STORAGE={folder / 'runs'}"])
        assert run_main(main) == 0
    return Path(str(run.predictions), "report.html").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def page(text: str) -> Page:
    return Page(text)


def test_nothing_is_loaded_and_nothing_runs(text, page):
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
    for address in re.findall(r"https?://[^\s\"'<)]+", text):
        assert address.startswith("http://www.w3.org/"), "a namespace's name, which is not loaded"
    assert not re.findall(r"url\((?!#)", text)
    assert "@import" not in text
    (policy,) = [a["content"] for a in page.of("meta") if "http-equiv" in a]
    assert policy == "default-src 'none'; style-src 'unsafe-inline'"


def test_ids_are_unique_and_references_are_met(text, page):
    ids = [a["id"] for _, a in page.elements if "id" in a]
    assert len(ids) == len(set(ids))
    references = re.findall(r'(?:href="|url\()#([^")]+)', text)
    assert references
    assert set(references) <= set(ids)


def test_plots_take_the_pages_colours(text):
    assert not [colour for colour in report_plots.COLOURS.values() if colour in text]
    for variable in report_plots.COLOURS:
        assert f"--{variable}:" in text, "the template defines it"


def test_every_section_is_there(page):
    for title in ("The run", "Loss", "Answers", "Readouts", "Confusion matrix",
                  "Beside scikit-learn", "Gradient variance by layer", "Circuit"):  # fmt: skip
        assert title in page.words
    for words in ("2 random starts", "the best start is trained on", "logistic regression",
                  "arXiv:1803.11173", "a random circuit of 2 qubits", "python 3.11"):  # fmt: skip
        assert words in page.words
    assert len(page.of("svg", "circuit")) == 2
    assert len(page.of("svg", "plot")) == 4


def test_names_are_text_wherever_they_stand(page):
    for name in NAMES:
        assert f"label {name}" in page.words
    assert "b" not in {tag for tag, _ in page.elements}


def test_the_headline_is_the_confusion_matrix_summed(page):
    accuracy = float(re.search(r"accuracy\s+([\d.]+)%", page.words)[1])
    cells = re.search(r"Confusion matrix(.*?)Beside", page.words, re.S)[1]
    counts = [int(n) for n in re.findall(r"\s(\d+)\s+\d+\.\d%", cells)]
    assert sum(counts) == 16
    assert accuracy == pytest.approx(100 * (counts[0] + counts[3]) / 16, abs=0.01)


def scores(n: int, readouts: int, labels: bool = True) -> Scores:
    generator = np.random.default_rng(0)
    answers = generator.normal(size=n).astype(np.float32)
    said = np.where(np.arange(n) % 2, 1, -1).astype(np.float32)
    read = generator.uniform(-1, 1, (n, readouts)).astype(np.float32)
    found = Scores(readouts, labels, 1)
    found.add(answers, read, said if labels else None)
    return found


@pytest.mark.parametrize("n", [1, 2, 500])
@pytest.mark.parametrize("labels", [True, False])
def test_any_number_of_answers_can_be_drawn(n, labels):
    Page(report_plots.answers(scores(n, 1, labels), NAMES))
    Page(report_plots.readouts(scores(n, 14, labels), NAMES))


@pytest.mark.parametrize(
    ("epochs", "starts", "each"), [(1, 1, 0), (3, 1, 10), (3, 4, 2), (8, 4, 2), (20, 4, 2)]
)
def test_a_loss_curve_of_any_length_can_be_drawn(epochs, starts, each):
    rows: list[dict[str, Any]] = [
        {"epoch": i + 1, "mse": 1.0, "val_mse": 2.0} for i in range(epochs)
    ]
    words = Page(report_plots.loss_curve(rows, starts, each)).words
    assert ("random starts" in words) == (starts > 1)
    assert ("the best start is trained on" in words) == (starts > 1 and epochs > starts * each)


def test_a_flat_layer_stands_out():
    flat = gradient_variance.LayerGradients("layer $1", 1e-5, 1e-5, 21)
    steep = gradient_variance.LayerGradients("layer 2", 1e-1, 1e-5, 21)
    drawn = report_plots.gradient_variance(
        gradient_variance.GradientVariance("c", 12, (flat, steep), 100), "g"
    )
    assert "a barren plateau" in Page(drawn).words
    assert "layer $1 (21 angles)" in Page(drawn).words
    assert "a barren plateau" not in report_plots.gradient_variance(
        gradient_variance.GradientVariance("c", 12, (steep,), 100), "g"
    )


def test_the_template_has_no_dollar_that_is_no_place():
    text = html_report.TEMPLATE.read_text(encoding="utf-8")
    assert set(re.findall(r"\$(\w*)", text)) == {
        "title", "lead", "warnings", "cards", "sections", "footer",
    }  # fmt: skip
