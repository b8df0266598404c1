"""Exact expected results of optimal play without peeks in Concentration.

    twofold.ceilings.concentration(preset="popgym-hard", memory=4)

The policy `twofold.policies.LastKMemory` implements this optimal play.
"""

from twofold.ceilings.ceiling import Ceiling, concentration

__all__ = ["Ceiling", "concentration"]
