"""The data set that a run was trained on, found by the name that the run recorded."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from common import storage
from common.errors import DataError
from common.storage import StoragePath

if TYPE_CHECKING:
    from common.data import Dataset


def find(record: Mapping[str, Any], title: str, root: StoragePath) -> "Dataset | None":
    """Return the data set that a run names, if it exists.

    The run may be another user's, so what it records leads to no other file.

    Args:
        record: Content of run.json.
        title: Name of the model in messages.
        root: Folder of data sets.

    Raises:
        DataError: The recorded name is not the name of a folder, or the data set was altered.
    """
    from common.data import load, manifest_check  # takes a second to import
    from common.data.dataset_dir import MANIFEST

    name = record.get("other", {}).get("dataset")
    if name is not None and not (isinstance(name, str) and manifest_check.is_name(name)):
        raise DataError(
            f"the run of {title} is damaged: its data set has the name {str(name)[:60]!r},"
            " which is not the name of a folder; give examples with INPUT=table"
        )
    if not name or not storage.exists(root / name / MANIFEST):
        return None
    if entry := storage.foreign_entry(root / name):
        raise DataError(f"{root / name} is not read: {entry}, and a data set has plain files only")
    return load(root / name)


def require_same(
    data: "Dataset", record: Mapping[str, Any], described: Mapping[str, Any], title: str
) -> None:
    """Raise DataError if a data set is not the one that a model was trained on."""
    fingerprint, difference = record.get("data"), ""
    if fingerprint and data.fingerprint != fingerprint:
        difference = (
            f"its fingerprint is {data.fingerprint[:12]}..., but {fingerprint[:12]}... is recorded"
        )
    elif data.manifest.encoding != described["encoding"]:
        difference = "it has another encoding"
    if difference:
        raise DataError(
            f"{data.path} is not the data set that {title} was trained on ({difference}):"
            " restore that data set, or give examples with INPUT=table"
        )
