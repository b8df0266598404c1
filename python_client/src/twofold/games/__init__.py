"""What games have in common: their base class, their rewards, and pictures of their boards."""
