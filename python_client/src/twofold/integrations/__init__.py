"""Adapters for training libraries, each in a module of its own that imports its library."""
