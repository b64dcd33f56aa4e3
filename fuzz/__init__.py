"""Fuzzing of everything that reads bytes from others. ``make fuzz`` runs it; README.md says how it works."""
