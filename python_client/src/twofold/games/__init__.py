"""The games: their arguments, their rewards, and how their boards look."""
