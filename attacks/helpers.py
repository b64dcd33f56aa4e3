"""Attacks on rounds with helpers: the rows H of docs/security.md."""

from attacks.base import Attack
from attacks.helper_boxes import HELPER_BOXES
from attacks.helper_keys import HELPER_KEY_LIES
from attacks.helper_questions import HELPER_QUESTIONS

HELPER_ATTACKS: tuple[Attack, ...] = tuple(
    sorted((*HELPER_QUESTIONS, *HELPER_KEY_LIES, *HELPER_BOXES), key=lambda attack: int(attack.number[1:]))
)
