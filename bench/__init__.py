"""Speed, measured: ``python -m bench`` (or ``make bench``) writes bench/results.json and docs/performance.md.

Machines are noisy, so nothing here is a time alone: each figure stands beside its floor, the same number
of X25519 agreements and the same bytes of AES-CTR keystream through the same library, sampled all through
the same run, or beside Flower's SecAgg+ doing the same step.
"""
