"""Reads untrusted files, writes whole files and folders, and makes external text safe to print."""

from __future__ import annotations

import contextlib
import errno
import html
import io
import os
import re
import secrets
import shutil
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from twofold.errors import InvalidArgument

_MARKS = re.compile(r"[\\`*_{}\[\]|~$]")


MISSING_FILE = (FileNotFoundError, IsADirectoryError, NotADirectoryError)
"""The errors raised by reading a file that does not exist."""


def printable(text: str) -> str:
    """Replaces each unprintable character with "?", so that text can't control a terminal."""
    return "".join(each if each.isprintable() else "?" for each in text)


def markdown(text: str) -> str:
    """Escapes text so that Markdown shows it unchanged, even in tables."""
    return _MARKS.sub(r"\\\g<0>", html.escape(text, quote=False))


def read(path: str | Path, field: str, longest: int = 1 << 20) -> str:
    """Returns a UTF-8 file's text, without a byte order mark.

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
    """Opens a file for reading, without waiting for a pipe's writer.

    Raises:
        InvalidArgument: The path does not name a regular file; `field` is the path's argument.
        OSError: The file can't be opened or read; the error names it.
    """
    with naming(path), open(path, "rb", opener=_open) as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise InvalidArgument(f"{os.fspath(path)} is not a regular file", field=field)
        yield file


@contextlib.contextmanager
def whole_file(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """Opens a file for writing. The file gets its name only when it is complete.

    Until then, and after an error, a previous file is unchanged. A symbolic link remains a link,
    and the file keeps its owner and permissions. Pipes and devices are written directly, and so is
    a file in a folder that allows no new files.

    Raises:
        OSError: The file can't be written; the error names it.
    """
    target = Path(os.path.realpath(path))
    with naming(path):
        if not _is_replaceable(path, target):
            with io.BufferedWriter(_Stream(path, "wb")) as file:
                yield file
            return
        temporary = target.with_name(f"{target.name[:50]}.{secrets.token_hex(4)}.part")
        try:
            with open(temporary, "xb") as file:
                with contextlib.suppress(FileNotFoundError):
                    _copy_permissions(target, temporary)
                yield file
                file.flush()
                os.fsync(file.fileno())
            is_copied = not _replace(temporary, target)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
        if is_copied:
            # Until the copy is complete, the temporary file is the only complete one.
            _copy(temporary, target)
            temporary.unlink()


class _Stream(io.FileIO):
    """A file without positions. A device like /dev/null reports position 0 after each write."""

    def seekable(self) -> bool:
        return False

    def tell(self) -> int:
        raise io.UnsupportedOperation("tell")


@contextlib.contextmanager
def whole_folder(folder: Path, field: str) -> Iterator[Path]:
    """Yields a temporary path at which to make a folder, which is renamed to `folder` at the end.

    After an error, the temporary folder is removed.

    Raises:
        InvalidArgument: `folder` exists; `field` is its argument.
        OSError: The folder can't be written; the error names it.
    """
    _check_new(folder, field)
    # The end of the name is kept, because Minari requires a version there.
    temporary = folder.with_name(f"part-{secrets.token_hex(4)}-{folder.name[-50:]}")
    try:
        with naming(folder):
            yield temporary
            _check_new(folder, field)
            temporary.rename(folder)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _check_new(folder: Path, field: str) -> None:
    if folder.exists():
        raise InvalidArgument(f"{folder} exists already; pass another {field}", field=field)


def _is_replaceable(path: str | os.PathLike[str], target: Path) -> bool:
    """Returns True if a new file can replace `target`, the file that `path` leads to."""
    try:
        status = os.stat(path)
    except FileNotFoundError:
        return os.access(target.parent, os.W_OK)
    return (
        stat.S_ISREG(status.st_mode)
        and os.access(path, os.W_OK)
        and os.access(target.parent, os.W_OK)
        # False if /dev/stdout leads to a deleted file.
        and target.exists()
        and os.path.samefile(path, target)
    )


def _copy_permissions(source: Path, target: Path) -> None:
    """Copies a file's permissions and, if this process may, its owner."""
    status = source.stat()
    with contextlib.suppress(PermissionError, AttributeError):  # Windows has no chown
        os.chown(target, status.st_uid, status.st_gid)
    target.chmod(stat.S_IMODE(status.st_mode))


def _replace(temporary: Path, target: Path) -> bool:
    """Renames a temporary file. Returns False if its target must remain the same file."""
    try:
        os.replace(temporary, target)
    except OSError as error:
        # A file that is mounted into a container, or another user's file in a folder like /tmp.
        if error.errno not in (errno.EBUSY, errno.EPERM):
            raise
        return False
    return True


def _copy(temporary: Path, target: Path) -> None:
    """Overwrites a file with a temporary one. An error names the file that is still complete."""
    try:
        shutil.copyfile(temporary, target)
    except OSError as error:
        reason = f"{error.strerror}; the complete file is {temporary}"
        raise OSError(error.errno, reason, str(target)) from error


def check_writable(path: Path) -> None:
    """Checks that a file can be written.

    An existing file keeps its content. A file that the check creates is removed again. Pipes and
    devices are not opened, because closing a pipe would signal the end of the data to its reader.
    """
    if path.exists() and not path.is_file() and not path.is_dir():
        if not os.access(path, os.W_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
        return
    check_folder(path)
    target = Path(os.path.realpath(path))
    is_new = not os.path.lexists(target)
    try:
        with path.open("ab"):
            pass
    finally:
        # A file with content is the result of another process.
        with contextlib.suppress(FileNotFoundError):
            if is_new and target.stat().st_size == 0:
                target.unlink()


def check_folder(path: Path) -> None:
    """Checks that the parent folder of a new file or folder exists."""
    if not path.parent.exists():
        text = "the folder does not exist; make it first"
        raise FileNotFoundError(errno.ENOENT, text, str(path.parent))


@contextlib.contextmanager
def naming(path: str | os.PathLike[str]) -> Iterator[None]:
    """Adds a file's name to an OSError that lacks one, for example when the disk is full."""
    try:
        yield
    except OSError as error:
        if error.filename is not None or error.errno is None:
            raise
        raise OSError(error.errno, error.strerror, os.fspath(path)) from error


def _open(path: str, flags: int) -> int:
    """Opens a file or a pipe, without waiting for the pipe's writer."""
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))
