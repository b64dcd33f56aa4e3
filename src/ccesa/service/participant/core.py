"""What a participant does, with no socket and no clock: it follows the rounds of a hub to the end.

With a charter nothing about a round is taken from the hub but what the charter leaves open. Whatever must not
happen twice is in the site's memory before anything leaves: a participant that was killed and started again
is out of the rounds in flight, says so, and is in the next one.
"""

from ccesa.errors import VectorError
from ccesa.service.forms import form_of
from ccesa.service.participant.calls import Part
from ccesa.service.participant.events import Event
from ccesa.service.participant.line import Line
from ccesa.service.participant.results import fetch_results
from ccesa.service.participant.site import Site
from ccesa.service.participant.taking import Taking
from ccesa.service.participant.terms import OVER, agreed, next_series, part_bytes_of


def take_part(site: Site) -> Part[None]:
    """Take part in a federation until it is over.

    Raises:
        ConfigError: The hub runs rounds that this site has not agreed to, or does not know its token.
        FaultyServer: It has another charter, refuses this member, or says what a hub never says.
        OrderError: Somebody else answers in the name of this site.
        TimeoutError: It has been away for longer than this site is patient.
        VectorError: The site is strict, and had nothing to send but noise in some round.
    """
    line = Line(
        member=site.member,
        token=site.token,
        patience=site.patience,
        tell=site.tell,
    )
    number, failures = 0, list[VectorError]()
    while True:
        found = yield from next_series(site, line, number)
        if found.state == OVER:
            if site.results is not None:
                yield from fetch_results(
                    line, form_of(site.charter, found.form), found.question, site.results
                )
            without = ", without a single sum" if found.question < 0 else ""
            site.tell(Event(kind="over", text=f"the federation is over{without}"))
            break
        number, line.part_bytes = found.series, site.part_bytes or part_bytes_of(found.part_bytes)
        taking = Taking(site, line, number, agreed(site, found))
        done = yield from taking.run()
        failures += taking.failures.values()
        if done:
            break
    if site.strict and failures:  # not before all is over, when nobody sees it
        raise failures[0]
