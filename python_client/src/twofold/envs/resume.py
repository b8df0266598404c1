"""Resumes a session in another process."""

from __future__ import annotations

import json

from twofold import _arguments
from twofold.client.curve import CurveKeys
from twofold.client.endpoints import EMBEDDED, resolve
from twofold.client.session import Session
from twofold.envs import BY_ID
from twofold.envs.settings import Settings
from twofold.envs.vector import TwofoldVectorEnv
from twofold.errors import InvalidArgument
from twofold.v1 import environment_pb2 as environment


def resume(
    token: str,
    *,
    endpoint: str | None = None,
    keys: CurveKeys | None = None,
    timeout: float = _arguments.DEFAULT_TIMEOUT,
    recover: bool | None = None,
) -> TwofoldVectorEnv:
    """Takes over the boards of another process, which may have died.

    The returned vector environment has the game and the arguments of the original, and continues
    after the original's last request. Its `requests` includes the original's requests, and its
    `last_results` contains the last results. If the other process is still running, its next call
    raises StaleEpoch.

    Args:
        token: The value of `envs.unwrapped.token`.
        endpoint: The server's address, if it differs from the token's.
        keys: Keys for an encrypted endpoint; a session belongs to the key that created it.
        timeout: The time limit of each call in seconds.
        recover: Whether to recreate boards that the server loses from now on; None for the original
            environment's setting. Recovery requires a snapshot, which the first call takes. Until
            then, a loss raises NotFound, and resuming again returns the same `last_results`. The
            next rollout of an n-tuple network uploads the network again.

    Raises:
        InvalidArgument: The token is invalid, or this version does not know the session's game.
        NotFound: The server has no such session: it was closed, has expired, or was lost.
        TransportError: No answer came.
    """
    address, _, digits = _arguments.text("token", token).rpartition("#")
    try:
        session_id = bytes.fromhex(digits)
    except ValueError:
        session_id = b""
    if not address or len(session_id) != 16:
        raise InvalidArgument("invalid session token; pass `envs.unwrapped.token`", field="token")
    if recover is not None:
        recover = _arguments.boolean("recover", recover)
    endpoint = resolve(address if endpoint is None else endpoint)
    if endpoint == EMBEDDED:
        raise InvalidArgument(
            "embedded boards end with their process and can't be resumed; pass a server's address",
            field="endpoint",
        )
    session = Session(
        environment.CreateRequest(),
        endpoint=endpoint,
        keys=keys,
        timeout=_arguments.seconds("timeout", timeout),
        resumed_id=session_id,
    )
    try:
        return _make(session, recover)
    except BaseException:
        session.abandon()
        raise


def _make(session: Session, recover: bool | None) -> TwofoldVectorEnv:
    game = BY_ID.get(session.create.environment_id)
    try:
        arguments = dict(json.loads(session.create.client_arguments))
    except (ValueError, TypeError):
        game = None
    if game is None:
        raise InvalidArgument(
            "this version of twofold does not know the session's game, or another kind of client "
            "created the session, or its arguments can't be written as JSON",
            field="token",
        )
    recovers_by_default = arguments.pop("recover", False)
    spec, others = game.spec.split(arguments)
    settings = Settings.read(game.spec.environment_id, spec, others)
    envs = game.vector._around(session, settings, {})
    if recovers_by_default if recover is None else recover:
        session.keep_journal()
    return envs
