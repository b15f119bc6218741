"""Prints the folder of its environment and its arguments, one per line."""

import sys

print(sys.prefix, *sys.argv[1:], sep="\n")
