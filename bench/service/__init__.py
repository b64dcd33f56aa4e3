"""A hub under load."""
