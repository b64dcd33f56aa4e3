"""How far the bench is, told on standard error."""

import sys


def say(text: str) -> None:
    """Print one line at once."""
    print(f"· {text}", file=sys.stderr, flush=True)
