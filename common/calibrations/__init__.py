"""Conversion of the calibrations that packages hold to files for NOISE: `make calibration`.

The packages are installed in an environment of their own; nothing else imports them.
"""
