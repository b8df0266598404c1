"""One game in a file of its own: written, replayed, shown."""

from twofold.recordings.recording import Recording, RecordingRules, Verification

__all__ = ["Recording", "RecordingRules", "Verification"]
