"""Whole games from fixed seeds, and what they say about a policy."""
