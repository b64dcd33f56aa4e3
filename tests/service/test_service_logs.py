"""Logs have events and fields, and never contents."""

import base64
import io
import json
import logging
import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ccesa.errors import ConfigError
from ccesa.service.logs import FORMATS, LOGGER, event, plain, set_up


@pytest.fixture(params=FORMATS)
def written(request):
    """What is logged from now on, in either format."""
    root = logging.getLogger()
    before, level, own = root.handlers[:], root.level, LOGGER.level
    stream = io.StringIO()
    set_up(request.param, stream)
    yield stream
    root.handlers[:], LOGGER.level = before, own
    root.setLevel(level)
    LOGGER.setLevel(own)


def lines(stream):
    return stream.getvalue().splitlines()


def test_an_event_is_one_line_with_its_fields(written):
    event("round-over", series=1, number=3, outcome="sum", seconds=1.25, missing=[2, 5], leads=True)
    (line,) = lines(written)
    if line.startswith("{"):
        read = json.loads(line)
        assert read.pop("time").endswith("Z")
        assert read == {
            "level": "info",
            "logger": "ccesa.service",
            "event": "round-over",
            "series": 1,
            "number": 3,
            "outcome": "sum",
            "seconds": 1.25,
            "missing": [2, 5],
            "leads": True,
        }
    else:
        assert line.endswith(
            'Z info    round-over series=1 number=3 outcome="sum" seconds=1.25 missing=[2, 5] leads=true'
        )


def test_extra_of_logging_is_fields_too(written):
    LOGGER.warning("refused", extra={"client": 3, "reason": "late"})
    (line,) = lines(written)
    assert '"client": 3' in line or 'client=3 reason="late"' in line


def forms(secret: bytes):
    """How a secret could show: as bytes, hexadecimal, base64, words of a vector, a number."""
    words = np.frombuffer(secret, dtype=np.uint64)
    return [
        secret,
        bytearray(secret),
        memoryview(secret),
        secret.hex(),
        base64.b64encode(secret).decode(),
        base64.urlsafe_b64encode(secret).decode().rstrip("="),
        int.from_bytes(secret),
        words,
        words.tolist(),
        {"share": secret},
        secret.hex() * 100,
        base64.b64encode(secret * 100).decode(),
        repr(secret * 100),
        str(words.tolist() * 100),
        "so many words " * 42 + secret.hex(),
        "so many words " * 42 + "and more " + base64.b64encode(secret).decode(),
        str(words),
        str(words.tolist()),
        repr(secret),
        words.astype(float) / 1e19,
        str((words.astype(float) / 1e19).tolist()),
    ]


#: Beginnings of secrets that other patterns could stumble over.
STARTS = (b"", b" ", b"'", b'"', b"'\"", b"\\", b"\\'", b"//x@", b"bearer ", b"b'", b"\n", b"=")


def traces(secret: bytes):
    """Parts of a secret that would be found in a log."""
    words = np.frombuffer(secret, dtype=np.uint64)
    encoded = [secret.hex(), base64.b64encode(secret).decode(), base64.urlsafe_b64encode(secret).decode()]
    found = [text[start : start + 16] for text in encoded for start in range(len(text) - 16)]
    return found + [str(word) for word in words.tolist()] + [repr(secret)[2:20], str(int.from_bytes(secret))[:18]]


def test_secrets_that_are_fed_in_do_not_come_out(written):
    draw = random.Random(7)
    every = [start + draw.randbytes(32 - len(start)) for start in STARTS for _ in range(2)]
    for secret in every:
        for form in forms(secret):
            event("fed", value=form, values=[form, form], text=f"it was {form!s} then")
            LOGGER.error("it is %s", form)
            logging.getLogger("uvicorn.error").error("failed for Bearer %s", form)
            try:
                raise ValueError(form)
            except ValueError as error:
                LOGGER.exception("failed")
                event("failed", error=error)
    text = written.getvalue()
    assert text.count("\n") == len(every) * len(forms(every[0])) * 5
    assert [trace for secret in every for trace in traces(secret) if trace in text] == []


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("postgresql://hub:secret@db/ccesa is away", "postgresql://...@db/ccesa is away"),
        ("Authorization: Bearer abc", "Authorization: Bearer ..."),
        ("clients 1, 2, 3, 4, 5, 6, 7, 8, 9 and 10 have dropped", None),
        ("step mask: 11 of 20 clients answered", None),
        ("round 17 of series 2", None),
        ("digest 5e1c9a4077d201bb5e1c9a4077d201bb", "digest 5e1c9a40..."),
    ],
)
def test_what_helps_is_kept_and_what_hurts_is_not(text, kept):
    assert plain(text) == (kept or text)


def test_an_error_is_told_with_places_and_without_locals(written):
    def fails(vector):
        raise RuntimeError("it failed")

    try:
        fails([123456] * 3)
    except RuntimeError:
        LOGGER.exception("engine-stopped")
    (line,) = lines(written)
    assert "RuntimeError: it failed" in line
    assert "test_service_logs.py" in line
    assert "123456" not in line
    assert "raise RuntimeError" not in line


@given(st.text(), st.text(min_size=1))
def test_names_from_others_are_one_printable_line_and_short(name, long):
    for text in (name, long * 1000):
        shown = plain(text)
        assert shown.isascii()
        assert shown.isprintable()
        assert len(shown) < 250


@given(st.recursive(st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary(), st.lists))
def test_whatever_is_logged_is_json(value):
    assert len(json.dumps(plain(value))) < 10_000_000
    json.loads(json.dumps(plain(value)))


def test_fields_cannot_pose_as_others(written):
    event("round-over", time="never", level="none", event="x", logger="y", fields=1, msg="z", args=3)
    assert "never" not in lines(written)[0]


def test_less_grave_lines_of_others_are_left_out(written):
    logging.getLogger("uvicorn.access").info("GET /v1/federation")
    LOGGER.debug("fine")
    assert lines(written) == []


def test_another_format_is_refused():
    with pytest.raises(ConfigError, match="text, json, got xml"):
        set_up("xml")
