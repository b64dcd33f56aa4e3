"""Runs in the ServerApp and on the nodes: what both must do in the same way."""
