"""The Space's server."""
