"""The colours and the font size of twofold.mplstyle, for pictures without matplotlib."""

from __future__ import annotations

from matplotlib import rc_params_from_file
from plot import STYLE

_PARAMETERS = rc_params_from_file(STYLE, use_default_template=False)

CARD: str = _PARAMETERS["axes.facecolor"]
INK: str = _PARAMETERS["text.color"]
COLORS: list[str] = _PARAMETERS["axes.prop_cycle"].by_key()["color"]
"""The colours of lines: Twofold's vermilion is the first, grey the last."""
FONT_SIZE: float = _PARAMETERS["font.size"]
"""The font size, in points."""
