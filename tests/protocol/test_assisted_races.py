"""Two processes of one helper with one memory: in whatever order they get at it, one question is answered at most."""

from itertools import combinations
from threading import Event, Lock, Thread
from types import SimpleNamespace

import pytest

from ccesa.errors import CcesaError, FaultyServer, TaskSpent
from ccesa.memory import ANSWER, QUESTION, ProcessMemory
from ccesa.protocol.assisted_helper import note_question

#: How often a process gets at the memory for one question without noise.
STEPS = 6
TASK, CHARTER = bytes(32), bytes([1]) * 32


class Turns(ProcessMemory):
    """A memory that two processes get at in a given order; each asks for its turn before it does."""

    def __init__(self, order: list[int]) -> None:
        super().__init__()
        self._order, self._place, self._lock = order, 0, Lock()
        self.may = [Event(), Event()]
        self._next()

    def _next(self) -> None:
        if self._place < len(self._order):
            self.may[self._order[self._place]].set()

    def taken(self, who: int) -> None:
        with self._lock:
            self._place += 1
            self.may[who].clear()
            self._next()

    def skip(self, who: int) -> None:
        """One process is done; its turns that are left are nobody's."""
        with self._lock:
            self._order[self._place :] = [one for one in self._order[self._place :] if one != who]
            self._next()


class OfProcess:
    """The memory, as one of the processes sees it."""

    def __init__(self, shared: Turns, who: int) -> None:
        self._shared, self._who = shared, who
        self.steps = 0

    def _turn(self, act):
        self.steps += 1
        self._shared.may[self._who].wait()
        try:
            return act()
        finally:
            self._shared.taken(self._who)

    def add(self, entry):
        return self._turn(lambda: self._shared.add(entry))

    def entries(self, about, start=b""):
        return self._turn(lambda: iter(list(self._shared.entries(about, start))))


def play(order: tuple[int, ...], contexts: tuple[bytes, bytes], questions: tuple[bytes, bytes]) -> list[object]:
    """Let two processes note a question each; the first one has the turns in ``order``. Return how it ended."""
    shared = Turns([int(turn not in order) for turn in range(2 * STEPS)])
    ended: list[object] = [None, None]

    def note(who: int) -> None:
        memory = OfProcess(shared, who)
        charter = SimpleNamespace(digest=CHARTER, mechanism=None)
        try:
            note_question(SimpleNamespace(context=contexts[who], memory=memory, charter=charter), questions[who], TASK)
            ended[who] = memory.steps
        except CcesaError as error:
            ended[who] = type(error)
        shared.skip(who)

    threads = [Thread(target=note, args=(who,)) for who in (0, 1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return [*ended, shared]


ORDERS = list(combinations(range(2 * STEPS), STEPS))
ONE, OTHER = bytes([2]) * 32, bytes([3]) * 32


@pytest.mark.parametrize(
    ("contexts", "questions", "refusal"),
    [((ONE, ONE), (ONE, OTHER), FaultyServer), ((ONE, OTHER), (ONE, ONE), TaskSpent)],
    ids=["two questions", "two rounds of a task"],
)
def test_at_most_one_of_two_processes_answers(contexts, questions, refusal):
    counts = {0: 0, 1: 0}
    for order in ORDERS:
        first, second, _ = play(order, contexts, questions)
        answered = [one for one in (first, second) if one == STEPS]
        assert len(answered) < 2, order
        assert {first, second} <= {STEPS, refusal}
        counts[len(answered)] += 1
    assert counts[0] > 0 < counts[1]  # sometimes neither does, which loses the task


def test_the_same_question_is_answered_by_both():
    for order in ORDERS[::50]:
        first, second, shared = play(order, (ONE, ONE), (OTHER, OTHER))
        assert (first, second) == (STEPS, STEPS)
        assert [sum(1 for _ in shared.entries(kind)) for kind in (QUESTION, ANSWER)] == [1, 1]
