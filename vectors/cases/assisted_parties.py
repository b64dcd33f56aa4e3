"""Members and helpers of refused_assisted.json: what they are made of, and what is tried with them."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from cases.assisted_rounds import NOW, AssistedPlan, helper_of, play
from cases.common import Case
from cases.parties import Noted, Party, outcome
from cases.rounds import seed, vector
from ccesa.memory import ANSWER, QUESTION, Entry, ProcessMemory
from ccesa.protocol.assisted_helper import Helper

DAY = 86400


@dataclass(frozen=True)
class Scene:
    """A round with helpers that was played."""

    plan: AssistedPlan

    @cached_property
    def played(self) -> Case:
        return play(self.plan)

    def history(self, client: int) -> list[tuple[bytes, bytes]]:
        every = [each for step in self.played["steps"] for each in step["exchanges"] if each["client"] == client]
        return [(each["request"], each["reply"]) for each in every]

    def entry(self, client: int, **more: Any) -> Case:
        plan, helps = self.plan, client >= self.plan.config.clients
        own = {"helps": True} if helps else {"vector": vector(plan, client), "task": plan.task}
        return {
            "charter": str(plan.agreed),
            "identity": plan.identity(client).seed,
            "config": plan.config.encode(),
            "seed": seed(plan, client),
            "now": NOW,
            **own,
            **more,
        }

    def party(self, name: str, client: int, **more: Any) -> Party:
        return Party(name, self.entry(client, **more), self.history(client))


@dataclass
class HelperParty(Party):
    """A helper; what it refuses changes nothing."""

    scene: "Scene | None" = None
    client: int = 0

    @classmethod
    def of(cls, name: str, scene: Scene, client: int, **more: Any) -> "HelperParty":
        return cls(name, scene.entry(client, **more), scene.history(client), scene=scene, client=client)

    @property
    def plan(self) -> AssistedPlan:
        if self.scene is None:
            raise LookupError("a helper needs a scene")
        return self.scene.plan

    def tries(self, after: int, cases: Mapping[str, Any]) -> None:
        """As with members; beside a request may stand ``now`` and ``memory``."""
        for reason, steps in cases.items():
            rows = steps if isinstance(steps, list) else [steps]
            self._try(reason, after, [step if isinstance(step, tuple) else (step, {}) for step in rows])

    def _try(self, reason: str, after: int, rows: list[tuple[bytes, Case]]) -> None:
        clock, memory = [NOW], ProcessMemory()
        _tell(memory, self.entry.get("memory", []))
        helper = helper_of(self.plan, self.client, memory, lambda: clock[0])
        for request, reply in self.history[:after]:
            if helper.receive(request) != reply:
                raise LookupError(f"{self.name}: not what it said before")
        found = []
        for request, beside in rows:
            clock[0] = beside.get("now", clock[0])
            if "memory" in beside:
                _tell(memory, beside["memory"])
            found.append({"request": self._known(request, 0), **beside, **self._said(helper, request)})
        self.tried.append({"party": self.name, "reason": reason, "after": after, "steps": found})

    def _said(self, helper: Helper, request: bytes) -> Case:
        said = outcome(lambda: helper.receive(request))
        return {"reply": self._known(said["reply"], 1)} if "reply" in said else said


def _tell(memory: ProcessMemory, noted: Noted) -> None:
    memory._kept.clear()
    for one in noted:
        if one["about"] == "question":
            memory.add(Entry(QUESTION, one["context"] + one["question"]))
        else:
            memory.add(Entry(ANSWER, one["charter"] + one["task"] + one["context"]))
