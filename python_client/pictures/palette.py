"""The palette of the documents' pictures: the colours of twofold.mplstyle, for other drawings."""

from __future__ import annotations

from matplotlib import rc_params_from_file
from plot import STYLE

_PARAMETERS = rc_params_from_file(STYLE, use_default_template=False)

CARD: str = _PARAMETERS["axes.facecolor"]
INK: str = _PARAMETERS["text.color"]
COLORS: list[str] = _PARAMETERS["axes.prop_cycle"].by_key()["color"]
"""Twofold's vermilion first, grey last."""
FONT_SIZE: float = _PARAMETERS["font.size"]
"""In points."""
