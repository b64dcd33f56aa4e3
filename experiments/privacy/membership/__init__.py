"""Whether a client was in the federation, from what is published."""
