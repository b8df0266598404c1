"""The boards between move and spawn."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from twofold.client.session import exactly_once
from twofold.envs.batch import Batch
from twofold.envs.results import InfosT, ObsT
from twofold.v1 import envelope_pb2 as envelope
from twofold.v1 import environment_pb2 as environment

_AFTERSTATES = envelope.Request(afterstates=environment.AfterstatesRequest())


class Afterstates(Batch[ObsT, InfosT]):
    """The method of a vector environment."""

    @exactly_once
    def afterstates(self) -> tuple[NDArray[np.uint8], NDArray[np.float32], NDArray[np.int8]]:
        """The boards after slide and merge and before the spawn, for each action; changes nothing.

        Returns:
            boards uint8 (N, actions, …); rewards float32 (N, actions); mask int8 (N, actions), 1
            where the action is legal. Rows of illegal actions mean nothing.
        """
        _, payload = self._session.call("afterstates", _AFTERSTATES)
        arrays = self._afterstates_layout.split(payload)
        order = slice(None) if self._action_order is None else self._action_order
        return arrays["boards"][:, order], arrays["rewards"][:, order], arrays["mask"][:, order]
