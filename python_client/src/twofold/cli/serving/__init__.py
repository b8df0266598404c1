"""The subcommands that run until a signal ends them, and those of twofold-server beside them."""
