"""What is committed to and signed: any changed part changes the text, and no text is one of another kind."""

import itertools

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from ccesa import labels
from ccesa.protocol import signed_texts
from second_active import bundle_text, confirmed_text, leaf_of, masking_text, root_of, seed_of

digests = st.binary(min_size=32, max_size=32)
clients = st.integers(0, 2**32 - 2)
bundles = st.binary(min_size=64, max_size=64)
sets = st.binary(min_size=1, max_size=6)
#: Each function, what it takes, and the same from the second implementation.
TEXTS = {
    "bundle": (signed_texts.bundle_text, bundle_text, (digests, clients, bundles)),
    "leaf": (signed_texts.leaf, leaf_of, (digests, clients, bundles)),
    "root": (signed_texts.root, root_of, (digests, sets, digests)),
    "seed": (signed_texts.seed, seed_of, (digests, digests)),
    "masking": (signed_texts.masking_text, masking_text, (digests, digests, sets, digests)),
    "confirmed": (signed_texts.confirmed_text, confirmed_text, (digests, digests, sets, digests, sets)),
}
every_text = pytest.mark.parametrize("name", TEXTS)


@every_text
@given(data=st.data())
def test_both_implementations_agree(name, data):
    ours, theirs, kinds = TEXTS[name]
    values = [data.draw(kind) for kind in kinds]
    assert ours(*values) == theirs(*values)


@every_text
@given(data=st.data())
def test_texts_agree_exactly_when_all_parts_do(name, data):
    text, _, kinds = TEXTS[name]
    one = [data.draw(kind) for kind in kinds]
    other = [data.draw(st.just(value) | kind) for value, kind in zip(one, kinds, strict=True)]
    assert (text(*one) == text(*other)) == (one == other)


@every_text
@given(data=st.data())
def test_any_one_changed_part_changes_the_text(name, data):
    text, _, kinds = TEXTS[name]
    values = [data.draw(kind) for kind in kinds]
    for place, kind in enumerate(kinds):
        other = data.draw(kind)
        assume(other != values[place])
        assert text(*values[:place], other, *values[place + 1 :]) != text(*values)


@given(digests, digests, sets, digests, sets)
def test_v2_and_v3_are_not_exchangeable_and_their_boundary_is_fixed(context, root, v2, task, v3):
    text = signed_texts.confirmed_text(context, root, v2, task, v3)
    joined = v2 + task + v3
    for cut in range(len(joined) - len(task) + 1):
        if cut != len(v2):
            parts = joined[:cut], joined[cut : cut + len(task)], joined[cut + len(task) :]
            assert signed_texts.confirmed_text(context, root, *parts) != text
    if v2 != v3:
        assert signed_texts.confirmed_text(context, root, v3, task, v2) != text


@given(digests, digests, sets, digests)
def test_a_signature_of_one_step_is_none_of_another(context, root, members, task):
    texts = [
        signed_texts.masking_text(context, root, members, task),
        signed_texts.receipt_text(context, root, members, task, task),
        signed_texts.confirmed_text(context, root, members, task, members),
        signed_texts.root(context, members, root),
        signed_texts.seed(context, root),
        signed_texts.leaf(context, 0, root + root),
        signed_texts.bundle_text(context, 0, root + root),
    ]
    assert all(one != other for one, other in itertools.combinations(texts, 2))


def test_the_bundle_is_signed_as_it_is_and_the_rest_as_hashes():
    text = signed_texts.bundle_text(bytes(32), 7, bytes(64))
    assert len(text) == 133
    assert text.startswith(labels.frame(labels.BUNDLE))
    assert len(signed_texts.masking_text(bytes(32), bytes(32), b"\x07", bytes(32))) == 32
    assert len(signed_texts.confirmed_text(bytes(32), bytes(32), b"\x07", bytes(32), b"\x07")) == 32


def test_the_two_keys_of_a_bundle_are_parts_of_their_own():
    """Otherwise a byte could move from one key to the other."""
    short, long = bytes(31), bytes(33)
    frame = labels.frame(labels.BUNDLE, bytes(32), labels.client_bytes(7), short, long)
    assert signed_texts.bundle_text(bytes(32), 7, short + long) != frame
