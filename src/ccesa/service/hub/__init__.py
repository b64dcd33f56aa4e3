"""The hub: an engine that follows a log, decides while it leads, and shows its state."""
