"""A round between processes over TCP: one server, many clients, some of them vanish.

    python examples/two_machines.py              # everything on this machine, one process per client
    python examples/two_machines.py serve --host 0.0.0.0     # or by hand: the server ...
    python examples/two_machines.py join 0 --host SERVER     # ... and one of these for each client, anywhere

The protocol has no clock; the waiting happens here. Messages travel behind their length as four bytes. The
transport vouches for who a client is: over a real network use TLS with client certificates.
"""

import argparse
import asyncio
import multiprocessing
import struct

import numpy as np

import ccesa

CLIENTS, LENGTH = 12, 1000
JOIN_SECONDS, STEP_SECONDS = 60.0, 3.0
MOST_BYTES = 1 << 20
VANISH = {3: "share", 7: "mask"}  # client -> the step in which it leaves


def configuration() -> ccesa.RoundConfig:
    """Agreed on beforehand. A real federation draws a fresh series_id every time and sends it along."""
    return ccesa.RoundConfig(
        clients=CLIENTS, length=LENGTH, graph=ccesa.Harary(degree=8), series_id=b"an example, so not at random 32b"
    )


async def read(stream: asyncio.StreamReader) -> bytes:
    (size,) = struct.unpack(">I", await stream.readexactly(4))
    if size > MOST_BYTES:
        raise OSError(f"a message of {size} bytes")
    return await stream.readexactly(size)


def write(stream: asyncio.StreamWriter, data: bytes) -> None:
    stream.write(struct.pack(">I", len(data)) + data)


class Hub:
    """The server's side of the transport: connections by client, one deadline per step."""

    def __init__(self, config: ccesa.RoundConfig) -> None:
        self.server, self.streams, self.all_here = ccesa.Server(config), {}, asyncio.Event()

    async def greet(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.streams[int.from_bytes(await read(reader), "big")] = (reader, writer)
        if len(self.streams) == CLIENTS:
            self.all_here.set()

    async def ask(self, client: int, request: bytes) -> None:
        reader, writer = self.streams[client]
        try:
            write(writer, request)
            self.server.receive(client, await asyncio.wait_for(read(reader), STEP_SECONDS))
        except (TimeoutError, OSError, asyncio.IncompleteReadError):
            print(f"  client {client} is gone")
        except ccesa.FaultyClient as fault:
            print(f"  refused: {fault}")

    async def run(self) -> ccesa.Aggregate:
        try:
            await asyncio.wait_for(self.all_here.wait(), JOIN_SECONDS)
        except TimeoutError:
            print(f"{len(self.streams)} of {CLIENTS} clients came in time")
        requests = self.server.open()
        while requests:
            print(f"step {self.server.step.name}: {len(requests)} clients")
            known = {client: request for client, request in requests.items() if client in self.streams}
            await asyncio.gather(*(self.ask(client, request) for client, request in known.items()))
            requests = self.server.close()
        return self.server.result()


async def serve(host: str, port: int) -> None:
    hub = Hub(configuration())
    try:
        listener = await asyncio.start_server(hub.greet, host, port, limit=1 << 26)
    except OSError as error:
        raise SystemExit(f"cannot listen on {host}:{port}, take another --port: {error}") from error
    print(f"waiting for {CLIENTS} clients on {host}:{listener.sockets[0].getsockname()[1]}")
    aggregate = await hub.run()
    for _, writer in hub.streams.values():
        writer.close()
    expected = sum(aggregate.survivors) * 10
    print(f"sum over {aggregate.survivors}: {aggregate.vector[:3]} … (each element should be {expected})")
    if not (aggregate.vector == expected).all():
        raise SystemExit("wrong sum")


async def join(host: str, port: int, number: int) -> None:
    """A client that contributes ten times its own number, and leaves in the step it was told to."""
    client = ccesa.Client(configuration(), number, np.full(LENGTH, 10 * number, np.uint32))
    for _ in range(100):  # the server may be starting
        try:
            reader, writer = await asyncio.open_connection(host, port, limit=1 << 26)
            break
        except OSError:
            await asyncio.sleep(0.1)
    else:
        raise SystemExit(f"no server on {host}:{port}")
    write(writer, number.to_bytes(4, "big"))
    for step in ("advertise", "share", "mask", "unmask"):
        try:
            request = await read(reader)
        except asyncio.IncompleteReadError:
            return
        if VANISH.get(number) == step:
            writer.close()
            return
        write(writer, client.receive(request))
        await writer.drain()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("role", nargs="?", choices=["serve", "join"], help="by default everything at once")
    parser.add_argument("number", nargs="?", type=int, help="this client's number, for join")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=4870)
    given = parser.parse_args()
    if given.role == "join":
        if given.number is None or not 0 <= given.number < CLIENTS:
            parser.error(f"join needs this client's number, 0 to {CLIENTS - 1}")
        asyncio.run(join(given.host, given.port, given.number))
        return
    workers = []
    if given.role is None:
        for number in range(CLIENTS):
            arguments = (given.host, given.port, number)
            workers.append(multiprocessing.Process(target=_join_process, args=arguments))
            workers[-1].start()
    try:
        asyncio.run(serve(given.host, given.port))
    finally:
        for worker in workers:
            worker.join(STEP_SECONDS)
            worker.terminate()


def _join_process(host: str, port: int, number: int) -> None:
    asyncio.run(join(host, port, number))


if __name__ == "__main__":
    main()
