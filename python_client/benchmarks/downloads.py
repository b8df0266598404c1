"""Downloads and verifies other projects' files, once each. The files are not checked in."""

from __future__ import annotations

import hashlib
import urllib.request
from dataclasses import dataclass
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
TIMEOUT = 60.0


class Unavailable(Exception):
    """The error for a file that can't be fetched, or whose digest differs from the pinned one."""


@dataclass(frozen=True)
class Download:
    """A file at a pinned URL.

    Args:
        url: The file's URL, which is pinned to a commit.
        sha256: The digest of the file's bytes, in hexadecimal.
        folder: The folder for the file, under the repository's .build.
    """

    url: str
    sha256: str
    folder: str

    def fetch(self) -> Path:
        """Fetches the file and returns its path. An existing file is only verified.

        Raises:
            Unavailable: The network is unavailable, or the digest differs.
        """
        path = REPOSITORY / ".build" / self.folder / self.url.rpartition("/")[2]
        if path.exists():
            self._verify(path, path.read_bytes())
            return path
        try:
            with urllib.request.urlopen(self.url, timeout=TIMEOUT) as reply:
                data: bytes = reply.read()
        except OSError as error:  # includes urllib's errors
            raise Unavailable(f"{self.url} can't be fetched: {error}") from error
        self._verify(self.url, data)
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.with_name(f"{path.name}.part")
        temporary.write_bytes(data)
        temporary.replace(path)
        return path

    def _verify(self, place: object, data: bytes) -> None:
        digest = hashlib.sha256(data).hexdigest()
        if digest != self.sha256:
            raise Unavailable(f"{place} has the SHA-256 digest {digest}; expected {self.sha256}")
