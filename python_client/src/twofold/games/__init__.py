"""The games, and the parts that they share: the base class, rewards, and pictures of boards."""
