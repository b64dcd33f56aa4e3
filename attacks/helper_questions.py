"""A hub that asks helpers for too much: twice, about too few, about a task again. ``assisted`` has to hold."""

import os
import shutil
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from attacks.base import Attack, Outcome, Tell
from attacks.helper_stage import HELPERS, MEMBERS, VICTIM, AssistedRound, Home, answering, cast
from attacks.relaxed import Weakened, in_step, relaxed, skip, weaken, without
from attacks.stage import names, opened
from ccesa.errors import ConfigError
from ccesa.helper_keys import FolderKeys
from ccesa.memory import FolderMemory, ProcessMemory
from ccesa.protocol import assisted_client, assisted_helper
from ccesa.protocol import messages as m
from ccesa.protocol.assisted_helper import Helper
from ccesa.protocol.client import ActiveClient
from ccesa.protocol.submission import Binding, MaskKey
from ccesa.simulate.enrolment import federate, make_charter
from ccesa.words import Vector

# H1


class Obliging(Helper):
    """Keeps its key when it has answered, and answers any question about it."""

    _answer_any = answering(
        m.UnmaskSumRequest,
        relaxed(
            assisted_helper.unmask,
            note_question=relaxed(assisted_helper.note_question, any=lambda _: False, sum=lambda _: 1),
        ),
    )

    def _answer(self, request: Any) -> bytes:
        kept = self._keys.get(self.context)
        reply: bytes = self._answer_any(request)
        if kept is not None:
            self._keys.put(self.context, kept)
        return reply


def two_questions(defended: bool, tell: Tell) -> Outcome:
    """Ask each helper about all members, and then about all but the victim."""
    stage = AssistedRound(cast(helper=Helper if defended else Obliging), tell).ask_keys().ask_vectors()
    first = _ask_about_everyone(stage)
    return _ask_without_victim(stage, first)


def _ask_about_everyone(stage: AssistedRound) -> list[Vector | None]:
    stage.tell(f"hub asks each helper for the sum of its masks of {names(stage.others())}")
    return [stage.sum_of_masks(helper, stage.others()) for helper in stage.helpers]


def _ask_without_victim(stage: AssistedRound, first: Sequence[Vector | None]) -> Outcome:
    stage.tell(f"hub asks each helper once more, without client {VICTIM}")
    second = [stage.sum_of_masks(helper, stage.others(VICTIM)) for helper in stage.helpers]
    masks = [one - other for one, other in zip(first, second, strict=True) if one is not None and other is not None]
    if len(masks) < len(stage.helpers):
        return stage.held(stage.first_refusal())
    return stage.stolen(stage.without([VICTIM], masks), "the differences of the answers are its masks")


# H2


class SameForAll(Binding):
    """Every helper has the same mask with a member."""

    def mask_key(self, secret: bytes, client: int, place: int, key: bytes, ciphertext: bytes) -> MaskKey:
        return super().mask_key(secret, client, 0, key, ciphertext)


class OneMaskMember(Weakened, ActiveClient):
    """Masks with the same keystream for every helper."""

    weaker = weaken(
        mask=in_step(
            answer=without(
                check_helper_keys=relaxed(assisted_client.check_helper_keys, check_different=skip),
                send=relaxed(assisted_client.send, Binding=SameForAll),
            )
        )
    )


class OneMaskHelper(Helper):
    """Has the mask that every other helper has."""

    _answer = answering(
        m.UnmaskSumRequest,
        relaxed(assisted_helper.unmask, open_boxes=relaxed(assisted_helper.open_boxes, Binding=SameForAll)),
    )


def different_survivors(defended: bool, tell: Tell) -> Outcome:
    """Ask one helper about all members, and the others about all but the victim."""
    if defended:
        stage = AssistedRound(cast(), tell)
    else:  # one key as well: two helpers agree on one mask with everybody
        stage = AssistedRound(cast(member=OneMaskMember, helper=OneMaskHelper, random=_one_key), tell)
    stage.ask_keys().ask_vectors()
    tell(f"hub asks helper 0 about everyone, and the others about all but client {VICTIM}")
    first, *rest = stage.helpers
    answers = [stage.sum_of_masks(first, stage.others())]
    answers += [stage.sum_of_masks(helper, stage.others(VICTIM)) for helper in rest]
    one, other = (found for found in answers[:2] if found is not None)
    outcome = stage.stolen(stage.without([VICTIM], [one - other] * len(answers)), "one mask is in all answers")
    why = "nothing opens: each helper has masks of its own, and those of the others stay on"
    return outcome if outcome.succeeded else stage.held(why)


def _one_key(party: int) -> Callable[[int], bytes]:
    """Let all helpers draw the same, and members what they like."""
    return os.urandom if party < MEMBERS else lambda size: bytes(range(size))


# H3


class ForgetsTasks(Helper):
    """Answers about a task in as many rounds as it is asked in."""

    _answer = answering(
        m.UnmaskSumRequest,
        relaxed(assisted_helper.unmask, note_question=relaxed(assisted_helper.note_question, _check_task=skip)),
    )


def task_again(defended: bool, tell: Tell) -> Outcome:
    """Open a sum, call the round lost, and repeat it without the victim."""
    made = cast(helper=Helper if defended else ForgetsTasks)
    first = AssistedRound(made, tell).ask_keys().ask_vectors()
    tell("hub opens the sum of round 0, and calls the round lost")
    whole = first.open_sum(first.others())
    tell(f"hub repeats the task in round 1, where client {VICTIM} does not answer")
    again = AssistedRound(made, tell, vectors=first.vectors, number=1).ask_keys().ask_vectors(first.others(VICTIM))
    return _subtract(again, whole, again.open_sum(again.others(VICTIM)))


def _subtract(stage: AssistedRound, whole: Vector | None, rest: Vector | None) -> Outcome:
    if whole is None or rest is None:
        return stage.held(stage.first_refusal())
    return stage.stolen(whole - rest, "two sums of one task differ by it")


def two_charters(defended: bool, tell: Tell) -> Outcome:
    """Ask for vectors for one task under a second charter of the same people, which has a higher serial."""
    made = cast()
    first = AssistedRound(made, tell).ask_keys().ask_vectors()
    tell("hub opens the sum under the first charter")
    whole = first.open_sum(first.others())
    tell(f"hub asks for the same task under a second charter, and client {VICTIM} not at all")
    people = made.federation
    charter = make_charter(people.identities, helpers=people.helpers, serial=2)
    memories = made.memories if defended else {member: ProcessMemory() for member in made.memories}
    other = replace(made, federation=replace(people, charter=charter), memories=memories)
    second = AssistedRound(other, tell, vectors=first.vectors).ask_keys().ask_vectors(first.others(VICTIM))
    if not second.sent:
        return second.held(second.first_refusal())
    return _subtract(second, whole, second.open_sum(second.others(VICTIM)))


# H6


class CountsNobody(Helper):
    """Answers about any number of members."""

    _answer = answering(m.UnmaskSumRequest, relaxed(assisted_helper.unmask, len=lambda _: MEMBERS))


def too_few_survivors(defended: bool, tell: Tell) -> Outcome:
    """Ask about the victim alone, with colluders, and as many times as the charter demands members."""
    made = cast(helper=Helper if defended else CountsNobody, min_survivors=4, colluders=2)
    stage = AssistedRound(made, tell).ask_keys().ask_vectors()
    first, friends = stage.config.helper_ids[0], [VICTIM + 1, VICTIM + 2]
    tell(f"hub asks helper 0 about client {VICTIM}, named four times")
    stage.sum_of_masks(first, [VICTIM] * 4)
    tell(f"hub asks helper 0 about client {VICTIM} and two that work with the hub")
    together = stage.sum_of_masks(first, [VICTIM, *friends])
    if together is None:
        return stage.held(stage.first_refusal())
    rest = [stage.sum_of_masks(helper, [VICTIM, *friends]) for helper in stage.config.helper_ids[1:]]
    found = stage.without([VICTIM, *friends], [together, *(one for one in rest if one is not None)])
    return stage.stolen(found - stage.expected(friends), "two of the three vectors are the hub's")


# H8


def restored_helper(defended: bool, tell: Tell) -> Outcome:
    """Restore the keys of each helper from a backup of before its answer; or its memory, too."""
    with tempfile.TemporaryDirectory() as folder:
        homes = [Path(folder, str(place)) for place in range(HELPERS)]
        stage = AssistedRound(cast(homes=list(map(_home, homes))), tell).ask_keys().ask_vectors()
        for home in homes:
            shutil.copytree(home, home.with_suffix(".backup"))
        first = _ask_about_everyone(stage)
        what = ["keys"] if defended else ["keys", "memory"]
        tell(f"every helper has its disk restored from a backup: its {' and its '.join(what)}")
        for place, home in enumerate(homes):
            for part in what:
                shutil.rmtree(home / part)
                shutil.copytree(home.with_suffix(".backup") / part, home / part)
            stage.helpers[stage.config.helper_ids[place]] = stage.new_helper(place, _home(home))
        return _ask_without_victim(stage, first)


def _home(folder: Path) -> Home:
    return Home(FolderKeys(folder / "keys"), FolderMemory(folder / "memory"))


# H14


def two_honest_members(defended: bool, tell: Tell) -> Outcome:
    """Work with all members but two, and with all helpers but one."""
    friends = [member for member in range(MEMBERS) if member not in (VICTIM, VICTIM + 1)]
    least, colluders = MEMBERS - 1, len(friends)
    try:
        federate(MEMBERS, helpers=HELPERS, min_survivors=least, colluders=colluders)
    except ConfigError as error:
        tell(f"a charter that counts the {colluders} colluders: {error}")
    if defended:
        stage = AssistedRound(cast(min_survivors=MEMBERS, colluders=colluders), tell)
    else:
        tell("so the charter says that nobody colludes")
        stage = AssistedRound(cast(min_survivors=least), tell)
    stage.ask_keys().ask_vectors()
    group = stage.others(VICTIM + 1)
    tell(f"hub asks every helper about client {VICTIM} and all {colluders} that work with it")
    found = stage.open_sum(group)
    if found is not None:
        return stage.stolen(found - stage.expected(friends), "all other vectors in the sum are known")
    tell("hub asks about everyone")
    both = stage.open_sum(stage.others())
    if both is None:
        return stage.held("there is no sum")
    same = opened(both - stage.expected(friends), stage.expected([VICTIM, VICTIM + 1]), "").succeeded
    what = "they learn the sum of the two honest members" if same else "nothing fits"
    return stage.held(f"{what}, and nothing else: {stage.first_refusal()}")


HELPER_QUESTIONS = (
    Attack(
        number="H1",
        name="two-questions",
        title="two questions to each helper about one round, the second without the victim",
        guard="assisted",
        defence="a helper remembers its one question of a round, and destroys its key",
        run=two_questions,
    ),
    Attack(
        number="H2",
        name="different-survivors",
        title="different survivors to different helpers",
        guard="assisted",
        defence="each helper has a mask of its own with each member",
        run=different_survivors,
    ),
    Attack(
        number="H3",
        name="task-again",
        title="a round whose sum is open is repeated without the victim, under new keys",
        guard="assisted",
        defence="a helper answers about a task of its charter in one round",
        run=task_again,
    ),
    Attack(
        number="H3",
        name="two-charters",
        title="the same task under a second charter, without the victim",
        guard="assisted",
        defence="a member has one memory for all charters, and works on a task under one of them",
        run=two_charters,
    ),
    Attack(
        number="H6",
        name="too-few-survivors",
        title="a question about the victim, named four times, or with colluders",
        guard="assisted",
        defence="a helper answers about the charter's minimum of different members",
        run=too_few_survivors,
    ),
    Attack(
        number="H8",
        name="restored-helper",
        title="helpers that are restored from a backup",
        guard="assisted",
        defence="a helper's memory is in no backup: what it has answered, it has answered",
        run=restored_helper,
    ),
    Attack(
        number="H14",
        name="two-honest-members",
        title="the hub and all members but two, against these two",
        guard="assisted",
        defence="the charter counts the colluders, and leaves two honest members in every sum",
        run=two_honest_members,
    ),
)
