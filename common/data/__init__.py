"""Data sets: angles in radians and labels of -1 and +1, from a generator, images or a table."""

from common.data.dataset import Dataset, load, prepare, read_examples
from common.data.encoding import Encoding
from common.data.feed import Feed, Held
from common.data.folder import Shard
from common.data.order import Cut, EpochShare, Share, epoch_order, lane_sizes
from common.data.splits import Examples
from common.data.tables import read_table

__all__ = [
    "Cut",
    "Dataset",
    "Encoding",
    "EpochShare",
    "Examples",
    "Feed",
    "Held",
    "Shard",
    "Share",
    "epoch_order",
    "lane_sizes",
    "load",
    "prepare",
    "read_examples",
    "read_table",
]
