"""Runs in the ClientApp, on a node."""
