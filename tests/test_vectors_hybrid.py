"""hybrid.json, by the package and by a second implementation."""

import pytest

import second_hybrid as second
from ccesa.crypto import keys
from ccesa.crypto.agreements import AGREEMENTS, POST_QUANTUM
from second import KEY_BYTES, agreed, raw
from vector_files import load, refused

HYBRID = AGREEMENTS[POST_QUANTUM]


def plain(value):
    """Hexadecimal becomes bytes, all else stays."""
    if isinstance(value, dict):
        return {
            name: one if name in ("name", "reason", "error") else plain(one) for name, one in value.items()
        }
    return raw(value) if isinstance(value, str) else value


def cases(part, kind=None):
    found = load("hybrid", part)
    found = [plain(case) for case in (found if kind is None else found[kind])]
    names = [str(case.get("name", case.get("reason", case.get("client")))) for case in found]
    assert len(set(names)) == len(names)
    return pytest.mark.parametrize("case", found, ids=names)


def unsealed(case):
    ends = keys.Ends(
        *(case[name] for name in ("sender", "recipient", "sender_keys", "recipient_keys", "masked")),
        case["commitment"],
    )
    common = agreed(case["recipient_private"], case["sender_keys"][:32])
    (secret,) = HYBRID.decapsulate_each(case["recipient_kem_seed"], [case["sealed"]])
    return HYBRID.unseal(common, secret, case["sealed"], case["context"], ends)


@cases("decapsulation")
def test_the_secret_behind_a_ciphertext(case):
    assert HYBRID.decapsulate_each(case["seed"], [case["ciphertext"]]) == [case["secret"]]
    assert second.decapsulated(case["seed"], case["ciphertext"]) == case["secret"]
    assert second.kem_public(case["seed"]) == case["public"]


def test_a_ciphertext_for_another_gives_another_secret():
    every = [plain(case) for case in load("hybrid", "decapsulation")]
    assert len({case["secret"] for case in every}) == len(every)
    assert len({case["ciphertext"] for case in every}) == len(every) - 1


@cases("keys", "good")
def test_good_keys(case):
    HYBRID.check_keys(*HYBRID.public_keys(case["keys"]))
    second.check_kem_key(case["keys"][64:])


@cases("keys", "bad")
def test_bad_keys(case):
    with refused(case["error"]):
        HYBRID.check_keys(*HYBRID.public_keys(case["keys"]))
    if case["error"] == "BadKey":
        with pytest.raises(second.Refused):
            second.check_kem_key(case["keys"][64:])


@cases("sealed", "good")
def test_sealed_texts_open(case):
    assert unsealed(case) == second.opened(case) == (case["shares"], case["seed"])


@cases("sealed", "bad")
def test_other_texts_do_not(case):
    with refused(case["error"]):
        unsealed(case)
    with pytest.raises(second.Refused):
        second.opened(case)


@cases("seeds", "good")
def test_seeds_and_deposits(case):
    of = case["context"], case["client"], case["other"]
    for one in (keys, second):
        assert one.pair_seed(case["secret"], *of) == case["seed"]
        assert one.seed_commitment(case["seed"], *of) == case["commitment"]
    assert keys.withdraw(case["secret"], case["deposit"], *of) == case["received"]
    assert second.withdrawn(case["secret"], case["deposit"], *of) == case["received"]


@cases("seeds", "bad")
def test_other_deposits_do_not_open(case):
    of = case["secret"], case["deposit"], case["context"], case["client"], case["other"]
    with refused(case["error"]):
        keys.withdraw(*of)
    with pytest.raises(second.Refused):
        second.withdrawn(*of)


@cases("pairs")
def test_pair_secrets_and_mask_keys(case):
    halves = [keys.Half(**case[name]) for name in ("one", "other")]
    assert keys.pair_secret(case["agreed"], case["context"], *halves) == case["secret"]
    assert second.pair_secret(case["agreed"], case["context"], case["one"], case["other"]) == case["secret"]
    ids = case["one"]["client"], case["other"]["client"]
    for generator, key in case["mask_keys"].items():
        assert keys.pair_mask_key(case["secret"], case["context"], *ids, generator) == key
        size = KEY_BYTES[generator]
        assert second.pair_mask_key(case["secret"], case["context"], *ids, size) == key
