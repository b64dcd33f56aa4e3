"""A service: a hub that many sites take part in over HTTP, in rounds that survive restarts.

``Hub`` runs a federation; ``Participant`` takes part in one. Both are what ``ccesa serve`` and ``ccesa join``
run. Nothing here knows about cryptography: the parties of ``ccesa.protocol`` do all of it.
"""
