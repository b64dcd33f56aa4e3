"""What a hub keeps: no vector, no key of a client, and no share longer than its round."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from ccesa.protocol import envelope
from ccesa.protocol import messages as m
from ccesa.service.store import open_store
from engines import CLIENTS, World, check, federation, vector
from series_rounds import GUARDS


def everything(folder: Path) -> bytes:
    """Every byte in a folder: the database, its write-ahead log, and whatever else was written."""
    return b"\0".join(path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file())


def shares(replies: list[bytes]) -> Iterator[bytes]:
    """What clients sent to have masks taken off."""
    for reply in replies:
        for message in envelope.unpack(reply):
            if m.kind_of(message) is m.UnmaskReply:
                yield bytes(message)[-48:]  # its end: shares, whatever stands before


@pytest.mark.parametrize("guard", GUARDS)
def test_a_hub_keeps_no_vector_and_no_share_longer_than_its_round(tmp_path, guard, caplog):
    caplog.set_level(0)
    world = World(f"sqlite:///{tmp_path}/a.db", federation(guard), seed=5, hubs=1)
    sent: list[bytes] = []
    answer = world._answer

    def kept(client, view):
        sent.append(answer(client, view))
        return sent[-1]

    world._answer = kept
    seen = 0
    for _ in range(400):
        world.go_on(0, chance=1.0)
        written = everything(tmp_path)
        seen += any(share in written for share in shares(sent[-CLIENTS:]))
        if world.hubs[0].view.state == "over":
            break
    assert seen, "shares are there as long as their round is, else this test looks at the wrong place"
    rows = check(world)
    written = everything(tmp_path)
    assert not any(share in written for share in shares(sent))
    for row in rows:
        for client in range(CLIENTS):
            plain = vector(client, row.task).tobytes()
            assert plain not in written
            assert plain.hex() not in caplog.text
    masked = [message for reply in sent for message in envelope.unpack(reply) if m.has_vector(m.kind_of(message))]
    assert len(masked) == 2 * CLIENTS
    assert not any(bytes(message)[-16:] in written for message in masked)
    world.close()
    assert open_store(world.url).rounds()
