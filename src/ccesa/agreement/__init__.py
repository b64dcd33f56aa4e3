"""The agreement before a round begins: members, rounds and their limits."""
