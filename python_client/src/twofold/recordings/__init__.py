"""Recordings of single games: written, replayed, verified, shown.

This package shares nothing with the server. It states the rules of 2048 and the draw recipe once
more in plain Python, so that a replay that agrees is evidence.
"""

from twofold.recordings.recording import Recording, Verification
from twofold.recordings.replay import RecordingRules

__all__ = ["Recording", "RecordingRules", "Verification"]
