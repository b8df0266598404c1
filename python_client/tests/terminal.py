"""A stand-in for a terminal."""

import io


class Terminal(io.StringIO):
    """Keeps what is written to it, and passes for a terminal."""

    def isatty(self) -> bool:
        return True
