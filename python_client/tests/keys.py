"""Keys for encrypted endpoints."""

import subprocess
from pathlib import Path

from twofold import CurveKeys
from twofold.client.lookup import find_program


def keygen(path: Path) -> str:
    """Makes a key pair at `path`. Returns the line for the server's list of authorised clients."""
    command = [str(find_program()), "keygen", str(path)]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


class Keys:
    """The keys of a server, of two authorised clients, and of an unauthorised client.

    Attributes:
        directory: The directory of the key files.
        lines: Maps each name to its line for the list of authorised clients.
        clients: The path of the list of authorised clients, which contains alice and bob.
        arguments: The server's command-line arguments for these keys.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.lines = {name: keygen(directory / name) for name in ("server", "alice", "bob", "eve")}
        self.clients = directory / "clients"
        self.clients.write_text("# who may come in\n\n" + self.lines["alice"] + self.lines["bob"])
        self.arguments = self.admitting(self.clients)

    def admitting(self, clients: Path) -> tuple[str, ...]:
        """Returns the server's arguments for these keys and another list of clients."""
        secret = self.directory / "server.key_secret"
        return "--curve-secret-key", str(secret), "--curve-clients", str(clients)

    def of(self, name: str, server: str = "server") -> CurveKeys:
        """Returns the keys that client `name` uses to connect to `server`."""
        return CurveKeys.load(
            self.directory / f"{server}.key", self.directory / f"{name}.key_secret"
        )
