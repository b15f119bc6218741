"""The report's section about zero-noise extrapolation."""

from common.metrics import number, title
from inference.html_text import escape, note, section
from inference.results import InferenceResults


def mitigation(results: InferenceResults) -> str:
    """Return metrics without and with ZNE, and the trust in each circuit; empty without ZNE."""
    if not results.trust:
        return ""
    settings = results.source.settings
    text = (
        f"Each circuit is folded by the factors {escape(str(settings['zne']))}, which multiplies"
        " its gates and their noise. The readouts at these factors are extrapolated to zero noise"
        f" (ZNE_FIT={escape(str(settings['zne_fit']))}), before the classical head. Errors of the"
        " readout itself do not grow with the gates, and stay."
    )
    trust = (
        "The return is the probability of |0...0> after a circuit and its reverse, both with noise:"
        " 1 without noise. Its square root estimates the fidelity of the circuit. Errors are mean"
        f" distances from readouts without noise, over {results.trust[0].examples:,} examples."
    )
    return section(
        "Zero-noise extrapolation", note(text), _metrics(results), note(trust), _trust(results)
    )


def _metrics(results: InferenceResults) -> str:
    scores = results.scores
    if scores.unmitigated is None or not scores.metrics:
        return ""
    plain = scores.unmitigated.metrics
    rows = [
        [title(name), number(name, plain[name]), number(name, value)]
        for name, value in scores.metrics.items()
    ]
    return _table(["", "without ZNE", "with ZNE"], rows)


def _trust(results: InferenceResults) -> str:
    rows = [
        [
            one.circuit,
            *(f"{part:.4f}" for part in (one.fidelity, one.returned, one.least)),
            *(f"{part:.2e}" for part in (one.noisy_error, one.mitigated_error)),
        ]
        for one in results.trust
    ]
    heads = ["circuit", "fidelity", "return, mean", "return, least", "error without ZNE",
             "error with ZNE"]  # fmt: skip
    return _table(heads, rows)


def _table(heads: list[str], rows: list[list[str]]) -> str:
    heading = "".join(f"<th>{escape(head)}</th>" for head in heads)
    body = "".join(
        f"<tr><th>{escape(first)}</th>{''.join(f'<td>{escape(cell)}</td>' for cell in cells)}</tr>"
        for first, *cells in rows
    )
    return (
        f'<div class="wide"><table><thead><tr>{heading}</tr></thead><tbody>{body}</tbody></table>'
        "</div>"
    )
