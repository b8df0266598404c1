"""Keys for encrypted endpoints: CURVE, ZeroMQ's own encryption."""

from __future__ import annotations

import dataclasses
import os
import re

import zmq
import zmq.auth

from twofold.errors import InvalidArgument

_SERVER_VARIABLE = "TWOFOLD_CURVE_SERVER"
_CLIENT_VARIABLE = "TWOFOLD_CURVE_CLIENT"
# 40 characters of Z85, https://rfc.zeromq.org/spec/32.
_KEY = re.compile(r"[0-9a-zA-Z.\-:+=^!/*?&<>()\[\]{}@%$#]{40}")


@dataclasses.dataclass(frozen=True)
class CurveKeys:
    """The keys for an encrypted endpoint: the server's public key, and the client's own two.

    `twofold-server keygen` makes keys. The server admits clients whose public key is in its list,
    and a session belongs to the key that made it. The secret key is not printed.

    Args:
        server_key: The server's public key, 40 characters of Z85.
        public_key: The client's own public key.
        secret_key: The client's secret key.

    Raises:
        InvalidArgument: A key is not valid, or the client's two don't belong together.
    """

    server_key: str
    public_key: str
    secret_key: str = dataclasses.field(repr=False)

    def __post_init__(self) -> None:
        for name in ("server_key", "public_key", "secret_key"):
            key = getattr(self, name)
            if not isinstance(key, str) or not _KEY.fullmatch(key):
                # Without the value: it may be a secret with a typo.
                raise InvalidArgument(f"{name} is not a key of 40 characters of Z85", field="curve")
        if zmq.curve_public(self.secret_key.encode()).decode() != self.public_key:
            raise InvalidArgument("secret_key and public_key do not belong together", field="curve")

    @classmethod
    def load(cls, server: str | os.PathLike[str], client: str | os.PathLike[str]) -> CurveKeys:
        """Keys from files as `twofold-server keygen` and `zmq.auth` write them.

        Args:
            server: The server's public file, `server.key`.
            client: The client's secret file, `alice.key_secret`.

        Raises:
            InvalidArgument: A file can't be read or has no such key.
        """
        public, secret = _load(client)
        if secret is None:
            raise InvalidArgument(f"{os.fspath(client)} has no secret-key", field="curve")
        return cls(server_key=_load(server)[0], public_key=public, secret_key=secret)

    @classmethod
    def from_environment(cls) -> CurveKeys | None:
        """Keys from the files that TWOFOLD_CURVE_SERVER and TWOFOLD_CURVE_CLIENT name.

        Returns:
            The keys; None where neither variable is set.

        Raises:
            InvalidArgument: Only one is set, or a file has no such key.
        """
        server, client = os.environ.get(_SERVER_VARIABLE), os.environ.get(_CLIENT_VARIABLE)
        if not server and not client:
            return None
        if not server or not client:
            raise InvalidArgument(
                f"{_SERVER_VARIABLE} and {_CLIENT_VARIABLE} belong together", field="curve"
            )
        return cls.load(server, client)


def _load(path: str | os.PathLike[str]) -> tuple[str, str | None]:
    """The public and the secret key of a file, the latter None in a public one."""
    try:
        public, secret = zmq.auth.load_certificate(path)
    except OSError as error:
        reason = error.strerror or "no such file"
        raise InvalidArgument(f"{os.fspath(path)}: {reason}", field="curve") from None
    except ValueError:
        raise InvalidArgument(f"{os.fspath(path)} has no public-key", field="curve") from None
    return public.decode(errors="replace"), secret.decode(errors="replace") if secret else None
