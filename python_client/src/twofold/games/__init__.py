"""The parts that all games share: the base class, rewards, and pictures of boards."""
