"""One game in a file of its own: written, replayed, shown."""
