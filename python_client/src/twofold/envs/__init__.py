"""The environments: Gymnasium's API over one session."""
