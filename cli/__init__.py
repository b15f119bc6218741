"""The command `qfleet`: its subcommands, their help and completion."""
