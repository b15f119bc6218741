"""Resources of the machine: memory and CPUs."""
