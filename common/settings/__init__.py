"""Every setting of qfleet, once: its type, default, bounds, unit and meaning (settings.py).

A value comes from, in this order: the command line (`WORKERS=4` or `--workers=4`), the
environment (`QFLEET_WORKERS=4`), the YAML file that CONFIG names (`workers: 4`), the default.
A name that is not a setting is refused with the nearest one that is (reading.py). Help and the
README's table are made from the same fields (described.py); `python -m common.settings` prints it.
"""

from common.settings.settings import MODELS, RUN_NAME, Settings, flag

__all__ = ["MODELS", "RUN_NAME", "Settings", "flag"]
