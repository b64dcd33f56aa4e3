"""What was agreed, before a round begins: members, rounds and their limits."""
