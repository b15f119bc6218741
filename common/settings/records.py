"""Values for settings that a run's record does not contain."""

from collections.abc import Mapping

from common.settings.registry import all_fields


def complete(recorded: Mapping[str, object]) -> dict[str, object]:
    """Return the recorded settings, with EPOCHS and WORKERS that fit to them.

    EPOCHS and WORKERS are not part of a run's identity, but bound settings that are.

    Args:
        recorded: Settings by name; names that are not settings are left out.
    """
    fields = all_fields()
    values = {name: recorded[name] for name in fields if name in recorded}
    if values.get("initialization_epochs") == 0:  # recorded for a single initialization
        del values["initialization_epochs"]
    if "epochs" not in values:
        count = int_or(values.get("initializations"), 1)
        each = int_or(values.get("initialization_epochs"), 1)
        values["epochs"] = max(int_or(fields["epochs"].default, 1), count * each + 1)
    if "workers" not in values and "state_shards" not in values:
        workers = int_or(fields["workers"].default, 1)
        limits = (int_or(values.get(name), workers) for name in ("partitions", "batch"))
        values["workers"] = max(1, min(workers, *limits))
    return values


def int_or(value: object, default: int) -> int:
    """Return the value if it is an integer, else the default."""
    return value if isinstance(value, int) else default
