"""Transitions in Parquet, written and verified."""
