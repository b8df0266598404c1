"""A stand-in for a terminal."""

import io


class Terminal(io.StringIO):
    """A text buffer that claims to be a terminal, and keeps all output."""

    def isatty(self) -> bool:
        return True
