"""The hub: an engine that follows a log, what it decides while it leads, and what it shows."""
