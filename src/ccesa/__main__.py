"""``python -m ccesa`` is the command ``ccesa``."""

from ccesa.cli import main

main()
