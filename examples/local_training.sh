#!/bin/bash
# Train the default model with two workers on this machine, then predict its test split.
#
# Run:   bash examples/local_training.sh
# Takes: one minute, and a few minutes more on the first call, which installs the environment.
# Shows: error and accuracy per epoch, then of the test split; the paths of table and report.
set -euo pipefail
make training
make inference # the latest finished run
make runs
