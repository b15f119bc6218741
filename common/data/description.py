"""Description of a data set of examples: columns, encoding, classes."""

from common.data.dataset import Dataset
from common.data.encoding import Encoding
from common.data.splits import SPLITS
from common.text import plural, printable

MAX_CLASSES = 6
"""Most classes that are counted by name."""


def describe(data: Dataset) -> str:
    """Return columns, encoding and labels of a data set of examples, such as

    `13 columns, PCA to 8 angles from -pi/2 to pi/2, 92 % of the variance; 3 classes: a 59, b 71`.
    """
    return "; ".join(filter(None, [describe_encoding(data.encoding), describe_labels(data)]))


def describe_encoding(encoding: Encoding) -> str:
    """Return the columns of a table, and how they become angles or amplitudes."""
    if encoding.kind == "none":
        return f"{plural(encoding.symbols, 'angle')}, as generated"
    if encoding.kind == "amplitude":
        has_norm = encoding.norm is not None
        is_padded = len(encoding.columns) + has_norm < encoding.symbols
        padded = ", padded with zeros" if is_padded else ""
        return (
            f"{plural(len(encoding.columns), 'column')}"
            f"{' and one for the norm' if has_norm else ''}, normalized per row to the"
            f" {encoding.symbols:,} amplitudes of {encoding.qubits} qubits{padded}"
        )
    kept = f"{plural(encoding.symbols, 'angle')} from -pi/2 to pi/2"
    if encoding.variance is None:
        text = f"standardized to {kept}"
    else:
        text = f"PCA to {kept}, {encoding.variance:.0%} of the variance".replace("%", " %")
    again = ", before each layer" if encoding.placement == "reupload" else ""
    return f"{plural(len(encoding.columns), 'column')}, {text}{again}"


def describe_labels(data: Dataset) -> str:
    """Return the classes with the examples of each, or the range of the numbers in training."""
    target = data.target
    if target.kind == "number":
        low, high = target.center - target.scale, target.center + target.scale
        return f"{printable(target.column)[:40]!r} from {low:.6g} to {high:.6g} in training"
    if not target.classes:
        return ""
    labels = ("-1", "1") if target.kind == "signs" else map(str, range(len(target.classes)))
    counted = [
        sum(data.manifest.splits[split]["labels"].get(label, 0) for split in SPLITS)
        for label in labels
    ]
    pairs = list(zip(target.classes, counted, strict=True))
    shown = ", ".join(f"{printable(name)[:40]} {count:,}" for name, count in pairs[:MAX_CLASSES])
    more = f" and {len(pairs) - MAX_CLASSES} more" if len(pairs) > MAX_CLASSES else ""
    return f"{len(pairs)} classes: {shown}{more}"
