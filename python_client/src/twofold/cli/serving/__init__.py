"""The subcommands that run until a signal ends them, and twofold-server's other commands."""
