"""The parts common to all games: base class, rewards, and pictures of boards."""
