"""Reads untrusted files, and makes text from programs and chat models safe to print."""

from __future__ import annotations

import contextlib
import html
import io
import os
import re
import stat
from collections.abc import Iterator
from pathlib import Path

from twofold.errors import InvalidArgument

_MARKS = re.compile(r"[\\`*_{}\[\]|]")


def printable(text: str) -> str:
    """Replaces each unprintable character with "?", so that text can't control a terminal."""
    return "".join(each if each.isprintable() else "?" for each in text)


def markdown(text: str) -> str:
    """Escapes text so that Markdown shows it unchanged, even in tables."""
    return _MARKS.sub(r"\\\g<0>", html.escape(text, quote=False))


def read(path: str | Path, field: str, longest: int = 1 << 20) -> str:
    """Returns the text of a file in UTF-8, without a byte order mark.

    Args:
        path: The file.
        field: The argument that names the file.
        longest: The largest allowed size in bytes.

    Raises:
        InvalidArgument: The file is not a regular file, is too large, or is not UTF-8.
        OSError: The file can't be read.
    """
    with open_file(path, field) as file:
        data = file.read(longest + 1)
    if len(data) > longest:
        raise InvalidArgument(f"{path} is larger than {longest:,} bytes", field=field)
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InvalidArgument(f"{path} is not UTF-8: {error}", field=field) from None


@contextlib.contextmanager
def open_file(path: str | os.PathLike[str], field: str) -> Iterator[io.BufferedReader]:
    """Opens a file for reading, without waiting for the writer of a pipe.

    Raises:
        InvalidArgument: The path does not name a regular file; `field` is the path's argument.
        OSError: The file can't be opened.
    """
    with open(path, "rb", opener=_open) as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise InvalidArgument(f"{os.fspath(path)} is not a regular file", field=field)
        yield file


def _open(path: str, flags: int) -> int:
    """Opens a file or a pipe, without waiting for the pipe's writer."""
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))
