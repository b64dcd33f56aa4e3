"""A hub that shows other keys than those of helpers, or comes by theirs. ``assisted`` has to hold."""

import os
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from types import SimpleNamespace

import msgspec

from attacks.base import Attack, Outcome, Tell
from attacks.helper_stage import HELPERS, MEMBERS, VICTIM, AssistedRound, Home, cast
from attacks.relaxed import Weakened, in_step, relaxed, skip, weaken, without
from attacks.stage import names, opened
from ccesa import labels
from ccesa.agreement.charter import current_time
from ccesa.agreement.identity import Identity
from ccesa.crypto import primitives
from ccesa.crypto.keys import DEFAULT, POST_QUANTUM
from ccesa.helper_keys import FolderKeys
from ccesa.memory import ProcessMemory
from ccesa.protocol import assisted_client
from ccesa.protocol import messages as m
from ccesa.protocol.client import ActiveClient
from ccesa.protocol.submission import Binding, MaskKey, keys_text
from ccesa.simulate.enrolment import Enrolment, enrol, make_charter

#: The one helper that does not work with the hub.
HONEST = HELPERS - 1
_YEAR = 365 * 86400

# H7


class Trusting(Weakened, ActiveClient):
    """Masks for any keys that the hub shows."""

    weaker = weaken(
        mask=in_step(
            answer=without(
                check_helper_keys=relaxed(
                    assisted_client.check_helper_keys,
                    primitives=SimpleNamespace(**{**vars(primitives), "verify": skip}),
                    check_different=skip,
                )
            )
        )
    )


def hub_as_helper(defended: bool, tell: Tell) -> Outcome:
    """Show the hub's own key in the place of the one honest helper."""
    made = cast(member=ActiveClient if defended else Trusting)
    stage = AssistedRound(made, tell).ask_keys()
    if defended:
        _tell_other_lies(stage)
    tell(f"hub shows client {VICTIM} a key of its own in the place of helper {HONEST}")
    own = os.urandom(32)
    bundle, true = primitives.public_key(primitives.private_key(own)), stage.shown[HONEST]
    text = keys_text(stage.context, true.client, true.not_after, bundle)
    stage.shown[HONEST] = msgspec.structs.replace(true, keys=bundle, signature=Identity.new().sign(text))
    stage.ask_vectors([VICTIM])
    secrets = {place: stage.secret(place) for place in range(HONEST)} | {HONEST: own}
    return _open_by_secrets(stage, secrets, "the hub has a secret in every place")


def _tell_other_lies(stage: AssistedRound) -> None:
    first, second, third = stage.shown
    later = AssistedRound(stage.cast, stage.tell, number=1).ask_keys().shown
    elsewhere = AssistedRound(cast(), stage.tell).ask_keys().shown
    lies = {
        "the keys of another round": later,
        "the keys of another charter": elsewhere,
        "one key in two places": [first, first, third],
        "the keys in another order": [second, first, third],
        "no key of one helper": [first, third],
    }
    for member, (what, shown) in zip(stage.others(VICTIM), lies.items(), strict=True):
        stage.tell(f"hub shows client {member} {what}")
        stage.ask(member, stage.mask_request(member, shown))


def _open_by_secrets(stage: AssistedRound, secrets: Mapping[int, bytes], how: str, *, kem: bool = True) -> Outcome:
    """Take the masks off the victim's vector with these secrets, by the place of a helper."""
    if VICTIM not in stage.sent:
        return stage.held(f"client {VICTIM} sends nothing: {stage.refused[VICTIM]}")
    found = [stage.mask_by_secret(VICTIM, place, secret, kem=kem) for place, secret in secrets.items()]
    masks = [one for one in found if one is not None]
    if len(masks) < len(stage.helpers):
        return stage.held(f"the masks of {len(stage.helpers) - len(masks)} of {len(stage.helpers)} helpers stay on")
    return stage.stolen(stage.without([VICTIM], masks), how)


# H11


def helper_and_member(defended: bool, tell: Tell) -> Outcome:
    """A helper that is a member as well works with the hub, which shows its key in every place."""
    members = enrol(MEMBERS)
    helpers = [members[0], *enrol(HELPERS - 1)]
    people = Enrolment(identities=members, helpers=helpers, charter=make_charter(members, helpers=helpers))
    stage = AssistedRound(cast(federation=people, member=ActiveClient if defended else Trusting), tell).ask_keys()
    everyone, mine = list(stage.shown), stage.secret(0)
    stage.ask_vectors([0])
    own = stage.mask_by_secret(0, 0, mine)
    tell(f"client 0 is helper 0, too: its own box {'fits' if own is not None else 'does not fit'}")
    tell(f"hub shows client {VICTIM} the key of helper 0 in every place")
    stage.shown = [everyone[0]] * HELPERS
    stage.ask_vectors([VICTIM])
    return _open_by_secrets(stage, dict.fromkeys(range(HELPERS), mine), "every mask is with helper 0")


# H12


def hybrid_boxes(defended: bool, tell: Tell) -> Outcome:
    """Record a round, and open X25519 later: the private keys of all helpers."""
    agreement = POST_QUANTUM if defended else DEFAULT
    stage = AssistedRound(cast(agreement=agreement), tell).ask_keys().ask_vectors(range(1, MEMBERS))
    if defended:
        _tell_malformed(stage)
    tell(f"the attacker has all that was sent under {agreement}, and every private key of X25519")
    secrets = {place: stage.secret(place)[:32] for place in range(HELPERS)}
    return _open_by_secrets(stage, secrets, "masks rest on X25519 alone", kem=False)


def _tell_malformed(stage: AssistedRound) -> None:
    true = stage.shown[0]
    bundle = true.keys[:32] + b"\xff" * len(true.keys[32:])
    signature = stage.cast.federation.helpers[0].sign(keys_text(stage.context, true.client, true.not_after, bundle))
    stage.tell("helper 0 works with the hub, and signs a malformed key of ML-KEM")
    lie = msgspec.structs.replace(true, keys=bundle, signature=signature)
    stage.ask(0, stage.mask_request(0, [lie, *stage.shown[1:]]))
    stage.tell("client 1 works with the hub, and signs ciphertexts that nobody has made")
    sent = stage.replies[1]
    wrong = msgspec.structs.replace(sent, ciphertexts=os.urandom(len(sent.ciphertexts)))
    stage.sent[1] = stage.keep(stage.submit(1, stage.cast.federation.identities[1], wrong))
    last = stage.config.helper_ids[HONEST]
    stage.tell(f"  {stage.name(last)} leaves out {names(stage.misfits(last, stage.others(0)))}")


# H15


class Endless(FolderKeys):
    """Keeps every key for good."""

    def sweep(self, now: float) -> None:
        """Keep all."""


def old_keys(defended: bool, tell: Tell) -> Outcome:
    """Collect vectors, never ask a question about them, and seize the disks of all helpers a year later."""
    with tempfile.TemporaryDirectory() as folder:
        kind = FolderKeys if defended else Endless
        homes = [Home(kind(Path(folder, str(place))), ProcessMemory()) for place in range(HELPERS)]
        stage = AssistedRound(cast(homes=homes), tell).ask_keys().ask_vectors(range(1, MEMBERS))
        _tell_long_key(stage)
        for home in homes:
            home.keys.sweep(current_time() + _YEAR)
        secrets = {place: stage.secret(place) for place in range(HELPERS) if stage.secret(place)}
        tell(f"a year later the disks of all {HELPERS} helpers are seized: {len(secrets)} have a key of the round")
        return _open_by_secrets(stage, secrets, "the keys are still there")


def _tell_long_key(stage: AssistedRound) -> None:
    true = stage.shown[0]
    lasting = int(current_time() + _YEAR).to_bytes(m.TIME_BYTES, "little")
    stage.tell("helper 0 signs a key that it will keep for a year")
    signature = stage.cast.federation.helpers[0].sign(keys_text(stage.context, true.client, lasting, true.keys))
    long = msgspec.structs.replace(true, not_after=lasting, signature=signature)
    stage.ask(0, stage.mask_request(0, [long, *stage.shown[1:]]))


# H16


class Unbound(Binding):
    """Derives masks from what was agreed on, and from nothing of the round."""

    def mask_key(self, secret: bytes, client: int, place: int, key: bytes, ciphertext: bytes) -> MaskKey:
        bare = Binding(config=self.config, context=b"", task=b"", keyring=b"")
        return bare.mask_key(secret, client, place, key, ciphertext)


class UnboundMember(Weakened, ActiveClient):
    """Has masks that do not depend on the round."""

    weaker = weaken(mask=in_step(answer=without(send=relaxed(assisted_client.send, Binding=Unbound))))


def cloned_key(defended: bool, tell: Tell) -> Outcome:
    """Machines that are cloned draw the same bytes in two rounds: the victim, and all helpers."""
    made = cast(member=ActiveClient if defended else UnboundMember, random=_cloned)
    first = AssistedRound(made, tell).ask_keys().ask_vectors([VICTIM])
    second = AssistedRound(made, tell, number=1, task=labels.digest(b"another task")).ask_keys().ask_vectors([VICTIM])
    one, other = first.replies[VICTIM], second.replies[VICTIM]
    tell(
        f"client {VICTIM} has one key in both rounds: {one.key == other.key}; the helpers: {_same_keys(first, second)}"
    )
    tell("hub subtracts its two masked vectors")
    found = first.without([VICTIM], []) - second.without([VICTIM], [])
    wanted = first.vectors[VICTIM] - second.vectors[VICTIM]
    outcome = opened(found, wanted, f"the difference of two vectors of client {VICTIM} is plain")
    if outcome.succeeded:
        return outcome
    return Outcome(succeeded=False, summary="nothing is plain: round, task and keys are in every mask", victim=wanted)


def _cloned(party: int) -> Callable[[int], bytes]:
    """Draw the same bytes in every round, whoever is asked; no two parties draw the same."""
    return lambda size: (labels.digest(b"cloned", bytes([party])) * size)[:size]


def _same_keys(first: AssistedRound, second: AssistedRound) -> bool:
    return [one.keys for one in first.shown] == [one.keys for one in second.shown]


HELPER_KEY_LIES = (
    Attack(
        number="H7",
        name="hub-as-helper",
        title="the hub's own key, or any wrong key, in the place of an honest helper's",
        guard="assisted",
        defence="a member masks only for keys that the charter's helpers signed, each for this round and its place",
        run=hub_as_helper,
    ),
    Attack(
        number="H11",
        name="helper-and-member",
        title="a helper that is a member as well works with the hub",
        guard="assisted",
        defence="a member masks with every helper of the charter, under keys that all differ",
        run=helper_and_member,
    ),
    Attack(
        number="H12",
        name="hybrid-boxes",
        title="traffic recorded, X25519 opened later",
        guard="assisted",
        defence="masks rest on ML-KEM as well (x25519-mlkem768)",
        run=hybrid_boxes,
    ),
    Attack(
        number="H15",
        name="old-keys",
        title="vectors under keys that were never used, and all disks of helpers seized later",
        guard="assisted",
        defence="a helper destroys its keys after key_days, used or not",
        run=old_keys,
    ),
    Attack(
        number="H16",
        name="cloned-key",
        title="cloned machines repeat their one-time keys in another round",
        guard="assisted",
        defence="round, task and the keys of all helpers are in every mask",
        run=cloned_key,
    ),
)
