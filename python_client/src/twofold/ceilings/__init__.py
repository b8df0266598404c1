"""The exact expected results of the best possible play, by dynamic programming.

    twofold.ceilings.concentration(preset="popgym-hard", memory=4)

`twofold.policies.LastKMemory` plays the computed choices.
"""

from twofold.ceilings.ceiling import Ceiling, concentration

__all__ = ["Ceiling", "concentration"]
