"""Studies: many trainings that differ in some settings, compared. The command is `make study`.

A study is a folder STORAGE/studies/NAME; each of its trials is a run of STORAGE.
"""
