"""Data sets: angles in radians and labels, from a generator, images or a table."""

from common.data.dataset import Dataset
from common.data.dataset_dir import Shard
from common.data.encoding import Encoding
from common.data.loading import check, load, prepare, read_examples
from common.data.sampling import EpochPositions, WorkerSampler
from common.data.shuffling import ShardLayout, epoch_order, partition_sizes
from common.data.sources import BatchSource, InMemorySource
from common.data.splits import Examples
from common.data.tables import read_table

__all__ = [
    "BatchSource",
    "Dataset",
    "Encoding",
    "EpochPositions",
    "Examples",
    "InMemorySource",
    "Shard",
    "ShardLayout",
    "WorkerSampler",
    "check",
    "epoch_order",
    "load",
    "partition_sizes",
    "prepare",
    "read_examples",
    "read_table",
]
