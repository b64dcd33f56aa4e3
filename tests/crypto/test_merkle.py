"""Proofs of several leaves at once: they verify, and nothing else does."""

import hashlib

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from ccesa import labels
from ccesa.crypto import merkle
from ccesa.protocol import signed_texts
from second_active import proof_of, top_of

hashes = st.binary(min_size=32, max_size=32)
CONTEXT = bytes(range(32))


@st.composite
def proven(draw: st.DrawFn, most: int = 40) -> tuple[list[bytes], list[int], bytes]:
    """Leaves, some places among them, and their proof."""
    leaves = draw(st.lists(hashes, min_size=1, max_size=most, unique=True))
    places = sorted(draw(st.sets(st.integers(0, len(leaves) - 1), min_size=1)))
    return leaves, places, merkle.prove(merkle.levels(leaves), np.array(places))


def top(leaves: list[bytes]) -> bytes:
    return merkle.levels(leaves)[-1].tobytes()


def outcome(size: int, places: list[int], leaves: list[bytes], proof: bytes) -> bytes | None:
    try:
        return merkle.top(size, places, leaves, proof)
    except merkle.WrongProof:
        return None


def shown(case: tuple[list[bytes], list[int], bytes]) -> list[bytes]:
    leaves, places, _ = case
    return [leaves[place] for place in places]


@given(proven())
def test_a_proof_leads_to_the_top(case):
    leaves, places, proof = case
    assert merkle.top(len(leaves), places, shown(case), proof) == top(leaves)


@given(proven())
def test_tree_and_proof_are_those_of_the_definition(case):
    leaves, places, proof = case
    assert top(leaves) == top_of(leaves)
    assert proof == proof_of(leaves, places)


@given(proven())
def test_a_proof_has_no_more_than_a_path_for_each_leaf_and_nothing_for_all(case):
    leaves, places, proof = case
    assert len(proof) <= 32 * len(places) * (len(leaves) - 1).bit_length()
    assert merkle.prove(merkle.levels(leaves), np.arange(len(leaves))) == b""


@given(proven(), st.data())
def test_any_changed_leaf_fails(case, data):
    leaves, places, proof = case
    some = shown(case)
    place = data.draw(st.integers(0, len(some) - 1))
    some[place] = data.draw(hashes.filter(lambda other: other != some[place]))
    assert merkle.top(len(leaves), places, some, proof) != top(leaves)


@given(proven(), st.data())
def test_any_changed_bit_of_the_proof_fails(case, data):
    leaves, places, proof = case
    assume(proof)
    bit = data.draw(st.integers(0, 8 * len(proof) - 1))
    changed = (int.from_bytes(proof, "little") ^ (1 << bit)).to_bytes(len(proof), "little")
    assert merkle.top(len(leaves), places, shown(case), changed) != top(leaves)


@given(proven(), st.binary(max_size=100))
def test_a_proof_of_another_size_fails(case, other):
    leaves, places, proof = case
    for wrong in (other, proof + other, proof[: len(proof) - len(other)]):
        if len(wrong) != len(proof):
            with pytest.raises(merkle.WrongProof, match=f"expected {len(proof)} bytes, got {len(wrong)}"):
                merkle.top(len(leaves), places, shown(case), wrong)


@given(proven(), st.data())
def test_other_places_fail(case, data):
    leaves, places, proof = case
    assume(len(places) < len(leaves))
    count = len(places)
    others = sorted(data.draw(st.sets(st.integers(0, len(leaves) - 1), min_size=count, max_size=count)))
    assume(others != places)
    assert outcome(len(leaves), others, shown(case), proof) != top(leaves)


@given(proven(), st.data())
def test_swapped_leaves_fail(case, data):
    leaves, places, proof = case
    order = data.draw(st.permutations(range(len(places))))
    assume(order != sorted(order))
    some = shown(case)
    assert merkle.top(len(leaves), places, [some[k] for k in order], proof) != top(leaves)


def packed(size: int, clients: int) -> bytes:
    """V1 of the first so many clients."""
    return ((1 << size) - 1).to_bytes((clients + 7) // 8, "little")


@given(proven(), st.integers(1, 44))
def test_another_size_fails_because_the_root_has_the_roster_in_it(case, size):
    """The top alone does not bind the size: a place is where it is in trees of several sizes."""
    leaves, places, proof = case
    assume(size != len(leaves))
    assume(size > places[-1])
    root = signed_texts.root(CONTEXT, packed(len(leaves), 44), top(leaves))
    assert signed_texts.proven_root(CONTEXT, packed(len(leaves), 44), places, shown(case), proof) == root
    try:
        found = signed_texts.proven_root(CONTEXT, packed(size, 44), places, shown(case), proof)
    except merkle.WrongProof:
        return
    assert found != root


@given(st.integers(1, 20).flatmap(lambda number: st.tuples(*[st.lists(hashes, min_size=number, max_size=number)] * 2)))
def test_different_leaves_of_one_number_have_different_tops(lists):
    one, other = lists
    assert (top(one) == top(other)) == (one == other)


def test_small_trees_by_hand():
    a, b, c = (bytes([k]) * 32 for k in range(3))

    def node(left, right):
        return hashlib.sha256(labels.frame(labels.ROSTER_NODE) + left + right).digest()

    assert top([a]) == a
    assert top([a, b]) == node(a, b)
    assert top([a, b, c]) == node(node(a, b), c)
    tree = merkle.levels([a, b, c])
    assert merkle.prove(tree, np.array([0])) == b + c
    assert merkle.prove(tree, np.array([2])) == node(a, b)
    assert merkle.prove(tree, np.array([0, 2])) == b


def test_a_node_is_never_a_leaf():
    """A leaf is a hash behind another label than a node, whatever the keys are."""
    framed = labels.frame(labels.ROSTER_NODE)
    leaf = labels.frame(labels.ROSTER_LEAF, CONTEXT, labels.client_bytes(0), bytes(64))
    assert not leaf.startswith(framed)
    assert not framed.startswith(leaf[: len(framed)])
