"""A helper follows the rounds of a hub to the end, with no socket and no clock.

It shows a key for each round, says whose boxes fit, and answers one question. Its memory has an entry before an
answer leaves that must not leave twice. A helper that was killed and started again goes on, as long as its keys are
there.
"""

import math

from ccesa.agreement.config import RoundConfig
from ccesa.errors import FaultyServer, MalformedMessage, shown
from ccesa.helper_keys import HelperKeys
from ccesa.protocol import envelope
from ccesa.protocol import messages as m
from ccesa.protocol.assisted_helper import Helper
from ccesa.protocol.series_client import SeriesHelper
from ccesa.protocol.steps import steps_of
from ccesa.service.participant.calls import Call, Event, Flow, Kind, Pause, pause_of, read_base64
from ccesa.service.participant.core import OVER, Announced, exchange_of, next_series, part_of
from ccesa.service.participant.line import Line, Upload
from ccesa.service.participant.site import Helping, Site
from ccesa.wire import Data

_REASON = 500  # the maximum length of a reason
_AGAIN = 2.0  # seconds after an answer that was empty or refused
#: The words of a helper once the hub has its answer.
_SAID: dict[type[m.Message] | None, tuple[Kind, str]] = {
    m.HelperKeysReply: ("joined", "showed a key to the members"),
    m.ConfirmBoxesReply: ("working", "checked boxes of members"),
    m.UnmaskSumReply: ("summed", "gave its part of the sum"),
}


def assist(site: Site, standing: Helping, keys: HelperKeys) -> Flow[None]:
    """Help in a federation until it is over. Then no key of a round is left."""
    line = Line(member=standing, patience=site.patience, tell=site.tell)
    number = 0
    while True:
        announced = yield from next_series(site, line, number)
        if announced.state == OVER:
            keys.sweep(math.inf)
            site.tell(Event(kind="over", text="the federation is over; this helper has no keys any more"))
            return
        number = announced.series
        line.part_bytes = part_of(site, announced)
        yield from Assisting(site, standing, keys, line, announced).run()


class Assisting:
    """One helper's part in one series."""

    def __init__(self, site: Site, standing: Helping, keys: HelperKeys, line: Line, announced: Announced) -> None:
        standing.agreement.check_current()
        data = read_base64(announced.config or "", "configuration of the series")
        config = standing.agreement.decode(data)
        self._site, self._line, self._number = site, line, announced.series
        self._standing, self._keys = standing, keys
        self._series = SeriesHelper(config, self._helper)
        #: Numbers of rounds by their contexts.
        self._rounds: dict[bytes, int] = {}
        requests = [kind for step in steps_of(config) for kind in (step.request, step.beside and step.beside.request)]
        self._most = sum(m.limit(kind, config) + 4 for kind in requests if kind is not None)

    def _helper(self, config: RoundConfig) -> Helper:
        self._rounds[config.context] = config.number
        return self._standing.make_helper(config, memory=self._site.memory, keys=self._keys, threads=self._site.threads)

    def run(self) -> Flow[None]:
        """Follow the exchanges to the end of the series, and destroy the keys of its rounds."""
        self._tell("waiting", f"ready to help in series {self._number}")
        path, latest = f"/v1/series/{self._number}/exchanges", -1
        while True:
            wait, most = self._site.wait, max(self._most, 1 << 16)
            headers = {"prefer": f"wait={wait}"}
            call = Call(method="GET", path=f"{path}?after={latest}", headers=headers, most=most, wait=wait)
            answer = yield from self._line.ask_as_member(call)
            if answer.status == 410:
                self._series.stop()
                self._keys.sweep(math.inf)
                return
            if answer.status == 204:
                yield Pause(seconds=pause_of(answer))
                continue
            latest = exchange_of(answer, latest - 1)  # the same exchange may ask a helper again
            if not (yield from self._hand_in(f"{path}/{latest}/reply", self._reply(answer.body))):
                yield Pause(seconds=_AGAIN)  # the hub may ask the same again

    def _reply(self, request: bytes) -> bytes:
        """Return the reply to an envelope; empty if this helper answers nothing in it."""
        try:
            reply = self._series.receive(request)
        except (FaultyServer, MalformedMessage) as error:  # nothing has changed
            self._tell("refused", shown(str(error), _REASON))
            return b""
        for number, fault in sorted(self._series.faults.items()):
            self._tell("refused", shown(str(fault), _REASON), number)
        return reply

    def _hand_in(self, path: str, reply: bytes) -> Flow[bool]:
        """Send a reply until the hub has it, or does not need it any more; return False for one that it refuses."""
        answer = yield from Upload(self._line, path, reply, lambda offset: None).run()
        if answer.status in (200, 201, 204):
            self._report(reply)
        elif answer.status in (409, 422):
            self._tell("refused", f"the hub refused this helper's answer ({answer})")
        elif answer.status != 410:
            raise FaultyServer(f"the hub answered {answer} to a reply")
        return bool(reply) and answer.status not in (409, 422)

    def _report(self, reply: Data) -> None:
        for message in envelope.unpack(reply):
            number = self._rounds.get(m.context_of(message) or b"")
            kind, text = _SAID[m.kind_of(message)]
            self._tell(kind, f"{text} of round {number}", number)

    def _tell(self, kind: Kind, text: str, number: int | None = None) -> None:
        self._site.tell(Event(kind=kind, text=text, round=number))
