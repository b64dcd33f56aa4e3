"""What Prometheus is told: what was counted, what the status says, and labels with few values."""

import re
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.openmetrics.parser import text_string_to_metric_families as read_open
from prometheus_client.parser import text_string_to_metric_families as read

import ccesa.errors
from ccesa.errors import RoundFailed, RoundsLost
from ccesa.guards import GUARDS
from ccesa.protocol.steps import steps_of
from ccesa.service.desk import MemberStatus
from ccesa.service.meters import LOST, STEPS, Meters
from shown_desk import ShownDesk

PAGE = Path(__file__).parents[2] / "docs" / "service.md"


def figures(meters: Meters) -> dict[tuple, float]:
    """All samples by name and values of their labels, which come in alphabetical order."""
    text = meters.render("")[0].decode()
    return {(sample.name, *sample.labels.values()): sample.value for family in read(text) for sample in family.samples}


@pytest.fixture
def desk():
    one = ShownDesk(20)
    one.play()
    return one


def test_what_is_counted_is_shown():
    meters = Meters()
    meters.received.inc(100)
    meters.received.inc(11)
    meters.sent.inc(7)
    meters.count_refusal("late")
    meters.store_away.inc()
    meters.leads.set(True)
    meters.count_action("pause")
    meters.count_step("mask", 12.5, 20, 3, faulty=1)
    meters.count_round("sum")
    meters.count_round("TooFewClients", pairs=2)
    with meters.polls.track_inprogress():
        shown = figures(meters)
    assert shown["ccesa_received_bytes_total",] == 111
    assert shown["ccesa_sent_bytes_total",] == 7
    assert shown["ccesa_refusals_total", "late"] == 1
    assert shown["ccesa_store_unavailable_total",] == 1
    assert shown["ccesa_hub_leads",] == 1
    assert shown["ccesa_actions_total", "pause"] == 1
    assert shown["ccesa_step_seconds_sum", "mask"] == 12.5
    assert shown["ccesa_step_clients_sum", "mask"] == 17
    assert shown["ccesa_drops_total", "silent", "mask"] == 2
    assert shown["ccesa_drops_total", "faulty", "mask"] == 1
    assert shown["ccesa_rounds_total", "sum", ""] == 1
    assert shown["ccesa_rounds_total", "lost", "TooFewClients"] == 1
    assert shown["ccesa_accusations_total",] == 2
    assert shown["ccesa_long_polls",] == 1
    meters.leads.set(False)
    assert figures(meters)["ccesa_hub_leads",] == figures(meters)["ccesa_long_polls",] == 0


def test_the_status_is_shown_as_it_is_now(desk):
    meters = Meters()
    meters.follow(desk.status)
    shown = figures(meters)
    assert shown["ccesa_questions",] == 12
    assert shown["ccesa_questions_answered",] == 7
    assert shown["ccesa_exchange",] == desk.now.exchange
    assert shown["ccesa_epsilon_spent",] == desk.now.privacy.epsilon
    assert shown["ccesa_epsilon_budget",] == 8
    assert shown["ccesa_privacy_bits",] == 43.2
    assert shown["ccesa_hubs",] == 2
    states = [shown["ccesa_members", state] for state in ("present", "absent", "set aside")]
    assert states == [17, 2, 1]
    assert shown["ccesa_state", "running"] == 1
    desk.put(state="stuck")
    assert figures(meters)["ccesa_state", "running"] == 0
    assert figures(meters)["ccesa_state", "stuck"] == 1


def test_helpers_are_shown_by_their_names_in_the_charter(desk):
    meters = Meters()
    meters.follow(desk.status)
    assert not [name for name, *_ in figures(meters) if name == "ccesa_helper_present"]
    desk.put(
        helpers=[
            MemberStatus(client=20, name="uni-a", state="present"),
            MemberStatus(client=21, name="trust", state="absent"),
        ]
    )
    shown = figures(meters)
    assert shown["ccesa_helper_present", "uni-a"] == 1
    assert shown["ccesa_helper_present", "trust"] == 0


def test_what_is_not_known_is_not_zero(desk):
    desk.put(privacy=None, privacy_bits=None)
    meters = Meters()
    meters.follow(desk.status)
    shown = {name for name, *_ in figures(meters)}
    assert not shown & {"ccesa_epsilon_spent", "ccesa_epsilon_budget", "ccesa_delta", "ccesa_privacy_bits"}


@given(st.lists(st.text(), max_size=60))
def test_nobody_s_text_becomes_a_label(texts):
    desk, meters = ShownDesk(3, names=lambda client: "".join(texts)), Meters()
    desk.put(members=[msgspec.structs.replace(one, state="".join(texts)) for one in desk.now.members])
    meters.follow(desk.status)
    before = len(figures(meters))
    for text in texts:
        meters.count_refusal("?" + text)
        meters.count_round("?" + text)
        meters.count_step("?" + text, 1.0, 2, 1)
    shown = figures(meters)
    assert sum(value for (name, *_), value in shown.items() if name == "ccesa_refusals_total") == len(texts)
    assert len(shown) <= before + 100
    assert all(label in ("", "other", "lost") or label.isascii() for _, *labels in shown for label in labels)


def test_every_step_and_every_failure_has_a_label():
    class Round:
        def __init__(self, guard, accept):
            self.guard, self.accept = guard, accept

    named = {step.name for guard in GUARDS for accept in (False, True) for step in steps_of(Round(guard, accept))}
    assert named <= set(STEPS)
    failures = {
        kind.__name__
        for kind in vars(ccesa.errors).values()
        if isinstance(kind, type) and issubclass(kind, RoundFailed)
    }
    assert failures - {RoundsLost.__name__} <= set(LOST)


def test_both_formats_are_read_by_their_parsers(desk):
    meters = Meters()
    meters.follow(desk.status)
    meters.count_refusal("late")
    text, media_type = meters.render("application/openmetrics-text; version=1.0.0")
    assert media_type.startswith("application/openmetrics-text")
    families = {family.name: family for family in read_open(text.decode())}
    assert families["ccesa_refusals"].type == "counter"
    text, media_type = meters.render("text/html")
    assert media_type.startswith("text/plain")
    assert all(family.documentation for family in read(text.decode()) if family.name.startswith("ccesa_"))


def test_two_hubs_in_one_process_count_apart():
    one, other = Meters(), Meters()
    one.received.inc(5)
    assert figures(other)["ccesa_received_bytes_total",] == 0


def test_the_docs_name_every_metric_and_no_other(desk):
    meters = Meters()
    meters.follow(desk.status)
    families = {family.name for family in read(meters.render("")[0].decode())}
    shown = {name for name in families if name.startswith("ccesa_") and not name.endswith("_created")}
    told = set(re.findall(r"`(ccesa_\w+)`", PAGE.read_text(encoding="utf-8")))
    assert {name.removesuffix("_total") for name in told} == shown
