"""Checks of a manifest that another user may have written: types, sizes and names of files."""

import re
from typing import Annotated

from annotated_types import Ge, Le, MaxLen, MinLen
from pydantic import StringConstraints, TypeAdapter
from typing_extensions import TypedDict  # pydantic needs it before Python 3.12

from common import safe_json
from common.data.origin import ID, ROW
from common.data.shuffling import EpochOrder, ShardLayout, partition_sizes
from common.data.splits import SPLITS

MAX_ROWS = 10**10
MAX_SHARD_BYTES = 2**31

_Text = Annotated[str, MaxLen(4096)]
_Rows = Annotated[int, Ge(0), Le(MAX_ROWS)]
_Sha256 = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]


class ShardEntry(TypedDict):
    """A shard in a manifest."""

    file: _Text
    rows: _Rows
    bytes: Annotated[int, Ge(0), Le(MAX_SHARD_BYTES)]
    sha256: _Sha256


class SplitEntry(TypedDict):
    """A split in a manifest."""

    rows: _Rows
    labels: dict[str, int]
    groups: Annotated[int, Ge(1), Le(4096)]
    segments: Annotated[int, Ge(1), Le(MAX_ROWS)]
    shards: Annotated[list[ShardEntry], MinLen(1), MaxLen(10_000_000)]


class ManifestContent(TypedDict):
    """manifest.json without its fingerprint."""

    format: int
    name: _Text
    recipe: dict[_Text, object]
    seed: Annotated[int, Ge(0)]
    partitions: Annotated[int, Ge(1), Le(4096)]
    columns: Annotated[list[_Text], MinLen(1), MaxLen(1_000_000)]
    origin: Annotated[list[_Text], MaxLen(2)]
    encoding: dict[str, object]
    splits: dict[str, SplitEntry]


_MANIFEST = TypeAdapter(ManifestContent)
_NAME = re.compile(r"\w[\w .+=@-]{0,199}")


def is_name(name: str) -> bool:
    """Return True if a recorded name of a data set is that of a folder, and leads nowhere else."""
    return bool(_NAME.fullmatch(name))


def file_name(split: str, number: int, count: int) -> str:
    """Return the name of a shard's file."""
    return f"{split}-{number:05d}-of-{count:05d}.parquet"


def check(content: dict[str, object]) -> None:
    """Check all fields of a manifest.

    Args:
        content: The manifest without its fingerprint.

    Raises:
        ValueError: A field is missing or wrong; the end of a sentence, as `safe_json.check`.
    """
    manifest = safe_json.check(content, _MANIFEST)
    if unknown := content.keys() - ManifestContent.__annotations__.keys():
        raise ValueError(f"it has an unknown field {min(unknown)[:40]!r}")
    if set(manifest["splits"]) != set(SPLITS):
        raise ValueError(f"its splits are not {', '.join(SPLITS)}")
    if manifest["origin"] not in ([], [ROW], [ROW, ID]):
        raise ValueError(f"its columns of the origin are not {ROW} and {ID}")
    for split, entry in manifest["splits"].items():
        _check_split(split, entry, manifest["partitions"])


def _check_split(split: str, entry: SplitEntry, partitions: int) -> None:
    layout, shards = ShardLayout(entry["groups"], entry["segments"]), entry["shards"]
    if len(shards) != layout.groups * layout.segments:
        raise ValueError(f"split {split} has {len(shards)} shards, which does not fit its layout")
    try:
        order = EpochOrder(partition_sizes(entry["rows"], partitions), layout, seed=0)
    except ValueError as error:
        raise ValueError(f"split {split} has an impossible layout ({error})") from None
    for number, shard in enumerate(shards):
        if shard["file"] != file_name(split, number, len(shards)):
            raise ValueError(f"shard {number} of split {split} has another name than it must have")
        if shard["rows"] != order.shard_rows(*divmod(number, layout.segments)):
            raise ValueError(f"shard {number} of split {split} has a wrong number of rows")
