"""Data sets: angles in radians and labels of -1 and +1, from a generator, images or a table."""

from common.data.dataset import Dataset, load, prepare, read_examples
from common.data.encoding import Encoding
from common.data.order import EpochShare, Share, epoch_order, lane_sizes
from common.data.splits import Examples
from common.data.tables import read_table

__all__ = [
    "Dataset",
    "Encoding",
    "EpochShare",
    "Examples",
    "Share",
    "epoch_order",
    "lane_sizes",
    "load",
    "prepare",
    "read_examples",
    "read_table",
]
