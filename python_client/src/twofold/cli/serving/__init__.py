"""The subcommands that serve until a signal stops them, and twofold-server's other commands."""
