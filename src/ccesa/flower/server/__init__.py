"""Runs in the ServerApp."""
