"""Recordings of individual games, which can be saved, replayed, verified and shown.

This package shares no code with the server. It reimplements the rules of 2048 and the random draws
in plain Python, so that a replay with the same result is independent evidence.
"""

from twofold.recordings.recording import Recording, Verification
from twofold.recordings.replay import RecordingRules

__all__ = ["Recording", "RecordingRules", "Verification"]
