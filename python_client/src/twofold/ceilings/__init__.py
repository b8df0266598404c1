"""The most that play can attain: exact expectations, by dynamic programming.

    twofold.ceilings.concentration(preset="popgym-hard", memory=4)

`twofold.policies.LastKMemory` plays what is computed here.
"""

from twofold.ceilings.ceiling import Ceiling, concentration

__all__ = ["Ceiling", "concentration"]
