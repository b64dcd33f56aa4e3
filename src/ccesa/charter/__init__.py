"""What a federation has agreed on: one file, one digest. Under the guard ``active`` a server chooses no more.

Every site holds its own copy, and compares the digest with the others by a way that the server does not
control.
"""

from ccesa.charter.charter import Charter, Learning, Seat, Stated

__all__ = ["Charter", "Learning", "Seat", "Stated"]
