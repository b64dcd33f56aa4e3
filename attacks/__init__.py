"""Attacks on the real clients and servers: each fails, and succeeds once its one defence is taken away."""
