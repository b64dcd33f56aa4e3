"""Draws the two pictures of the front page: ``make pictures``.

``round.png`` is a real round. Forty clients hold a handwritten digit each, from the data that scikit-learn
brings along; three of them vanish before they send it. The picture has what some of the clients hold, the
very words that reached the server in its place, and the sum that came out. Digits and dropouts come from a
seed. Keys do not: they are fresh in every round, so the noise in the picture is another one every time.

``costs.png`` is what a client pays against the number of clients: bytes, which are the same everywhere, and
time, from the speed of the machine that draws it.
"""

from pathlib import Path
from typing import NamedTuple

import numpy as np
from matplotlib.figure import Figure
from sklearn.datasets import load_digits

import ccesa
from ccesa import words
from ccesa.plan import calibrate
from ccesa.protocol import messages
from experiments import cost_curve

HERE = Path(__file__).parent
CLIENTS, VANISH, SHOWN, DIGIT, SEED = 40, 3, 6, 3, 1
#: 0 to 16 in each of 8 x 8 pixels: the sum over forty clients fits into 16 bits.
SIDE, BITS, INK = 8, 16, 16
DEMANDS = {"dropout": 0.1, "collusion": None, "guard": "curious", "length": 1_000_000}
#: Both are 400 pixels wide on the page: side by side on a desk, one below the other on a phone.
SIZE, DPI, EDGE = (4.0, 4.3), 220, 0.023
PAPER, PEN, FAINT = "#ffffff", "#1f2328", "#59636e"
TITLES = ("Bytes per client on top of its vector", "Processor time per client")
COLOURS = {"conventional (SA)": "#b35900", "the paper's rule": "#6639ba", "ccesa": "#0969da"}

#: Where each line is named, and how.
NAMES = {
    "conventional (SA)": (50, 6e6, "everyone with everyone (SA)"),
    "the paper's rule": (1800, 5.5e4, "the paper's rule, p*"),
    "ccesa": (1800, 1.75e4, "ccesa, as planned"),
}


class Round(NamedTuple):
    """What a round began with, what the server received, and what came out."""

    held: dict[int, np.ndarray]
    received: dict[int, np.ndarray]
    total: np.ndarray
    survivors: tuple[int, ...]


def handwriting() -> tuple[dict[int, np.ndarray], set[int]]:
    """Give each client an image of the same digit, by different hands, and say who will vanish."""
    images, labels = load_digits(return_X_y=True)
    rng = np.random.default_rng(SEED)
    chosen = rng.choice(np.flatnonzero(labels == DIGIT), CLIENTS, replace=False)
    gone = set(rng.choice(CLIENTS, VANISH, replace=False).tolist())
    return dict(enumerate(images[chosen].astype(np.uint16))), gone


def play(held: dict[int, np.ndarray], gone: set[int]) -> Round:
    """Run the round; whoever is gone answers until its vector is asked for."""
    config = ccesa.plan.plan(CLIENTS, dropout=0.1, length=SIDE**2, bits=BITS).config()
    clients = {i: ccesa.Client(config, i, held[i]) for i in held}
    server, received = ccesa.Server(config), {}
    requests = server.open()
    while requests:
        for i, request in requests.items():
            reply = clients[i].receive(request)
            message = messages.decode(reply, len(reply))
            if isinstance(message, messages.MaskReply):
                if i in gone:
                    continue
                received[i] = words.from_bytes(message.vector, BITS)
            server.receive(i, reply)
        requests = server.close()
    result = server.result()
    return Round(held, received, result.vector, result.survivors)


def round_picture(round: Round) -> Figure:
    """Draw three rows: what clients hold, what the server received, what came out and what should."""
    figure = Figure(figsize=SIZE, facecolor=PAPER)
    gone = sorted(round.held.keys() - round.received.keys())
    shown = sorted([*sorted(round.received)[: SHOWN - 1], gone[0]])
    wide, gap = 0.14, EDGE
    _say(figure, 0.945, "What each client holds", f"{SHOWN} of {len(round.held)}")
    _say(figure, 0.695, "What the server receives", "masked vectors")
    for place, client in enumerate(shown):
        left = gap + place * (wide + gap)
        _tile(figure, (left, 0.785, wide), round.held[client], INK)
        if client in round.received:
            _tile(figure, (left, 0.535, wide), round.received[client], 2**BITS - 1)
        else:
            _missing(figure, (left, 0.535, wide))
    plain = np.sum([round.held[i] for i in round.survivors], axis=0)
    if not np.array_equal(round.total, plain):
        raise ArithmeticError("the sum that came out is not that of the survivors: nothing is drawn")
    large, low = 0.335, 0.075
    _say(figure, 0.44, "What comes out", f"the sum over {len(round.survivors)}")
    _tile(figure, (gap, low, large), round.total, round.total.max())
    _tile(figure, (1 - gap - large, low, large), plain, plain.max())
    figure.text(0.5, low + 0.17, "=", fontsize=26, ha="center", va="center", color=PEN)
    figure.text(0.5, low + 0.08, "every bit\nthe same", fontsize=9, ha="center", va="center", color=FAINT)
    figure.text(gap + large / 2, 0.022, "from masked vectors", fontsize=9, ha="center", color=FAINT)
    figure.text(1 - gap - large / 2, 0.022, "added up openly", fontsize=9, ha="center", color=FAINT)
    return figure


def _say(figure: Figure, height: float, title: str, more: str) -> None:
    figure.text(EDGE, height, title, fontsize=11.5, fontweight="bold", color=PEN)
    figure.text(1 - EDGE, height, more, fontsize=9.5, ha="right", color=FAINT)


def _tile(figure: Figure, place: tuple[float, float, float], values: np.ndarray, most: float) -> None:
    """Draw 8 x 8 values, black for the largest."""
    panel = _panel(figure, place)
    panel.imshow(values.reshape(SIDE, SIDE), cmap="gray_r", vmin=0, vmax=most, interpolation="nearest")


def _missing(figure: Figure, place: tuple[float, float, float]) -> None:
    panel = _panel(figure, place)
    panel.set(facecolor="#f6f8fa")
    panel.text(0.5, 0.5, "dropped\nout", ha="center", va="center", fontsize=8.5, color=FAINT)


def _panel(figure: Figure, place: tuple[float, float, float]):
    left, bottom, wide = place
    panel = figure.add_axes((left, bottom, wide, wide * SIZE[0] / SIZE[1]), xticks=[], yticks=[])
    panel.spines[:].set(color="#d1d9e0", linewidth=0.8)
    return panel


def costs_picture(made: list[ccesa.plan.Plan], rates: ccesa.plan.Rates) -> Figure:
    """Draw bytes over seconds, on one axis of clients, with names on the lines and the last price at each."""
    figure = Figure(figsize=SIZE, facecolor=PAPER)
    panels = figure.subplots(2, 1, sharex=True)
    figure.subplots_adjust(left=0.155, right=0.83, top=0.93, bottom=0.115, hspace=0.25)
    curves = cost_curve.curves(made, rates)
    for panel, title, unit, lines in zip(panels, TITLES, (_bytes, _seconds), curves.values(), strict=True):
        for name, (clients, values) in lines.items():
            panel.plot(clients, values, color=COLOURS[name], linewidth=2)
            last = f" {unit(values[-1])}"
            panel.text(clients[-1], values[-1], last, color=COLOURS[name], fontsize=9.5, va="center")
        panel.set(xscale="log", yscale="log", xlim=(clients[0], clients[-1]))
        figure.text(EDGE, panel.get_position().y1 + 0.018, title, fontsize=11.5, fontweight="bold", color=PEN)
        panel.grid(alpha=0.25)
        panel.tick_params(labelsize=9, colors=FAINT, which="both")
        panel.spines[["top", "right"]].set_visible(False)
    for name, (*place, text) in NAMES.items():
        panels[0].text(*place, text, color=COLOURS[name], fontsize=9.5)
    panels[0].set_yticks([1e4, 1e5, 1e6, 1e7], ["10 kB", "100 kB", "1 MB", "10 MB"])
    panels[1].set_yticks([1e-2, 1e-1, 1, 10], ["10 ms", "0.1 s", "1 s", "10 s"])
    panels[1].set_ylim(top=50)
    panels[1].set_xticks([100, 1000, 10_000, 100_000], ["100", "1,000", "10,000", "100,000"])
    panels[1].set_xlabel("clients", fontsize=9.5, color=FAINT)
    return figure


def _bytes(many: float) -> str:
    return f"{many / 1e6:.2g} MB" if many >= 1e6 else f"{many / 1e3:.2g} kB"


def _seconds(many: float) -> str:
    return f"{many:.2g} s" if many >= 1 else f"{1000 * many:.2g} ms"


def main() -> None:
    held, gone = handwriting()
    round = play(held, gone)
    print(f"a round of {CLIENTS} clients, {len(gone)} of whom vanished: the sum over {len(round.survivors)}")
    made = cost_curve.plans(DEMANDS)
    for name, figure in {"round": round_picture(round), "costs": costs_picture(made, calibrate())}.items():
        figure.savefig(HERE / f"{name}.png", dpi=DPI)
        print(HERE / f"{name}.png")


if __name__ == "__main__":
    main()
