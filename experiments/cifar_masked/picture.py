"""The figure: accuracy by round of both arms, and where the seconds of a round go."""

from typing import Any

NAMES = {"masked": "every mask real", "plain": "no masks"}


def draw(result: dict[str, Any]) -> Any:
    from matplotlib.figure import Figure  # the machine that trains may not have it

    from experiments import chart

    figure = Figure(figsize=(11, 4.2), layout="constrained")
    learning, lasting = figure.subplots(1, 2)
    rounds = result["rounds"]
    numbers = [round["number"] + 1 for round in rounds]
    for place, (arm, name) in enumerate(NAMES.items()):
        look = chart.style(place)
        accuracy = [100 * round["accuracy"][arm] for round in rounds]
        learning.plot(numbers, accuracy, label=name, ms=7 - 3 * place, lw=2 - place, **look)
        lasting.plot(numbers, [round["seconds"][arm] for round in rounds], label=name, ms=4, **look)
    learning.set(xlabel="round", ylabel="test accuracy (%)", ylim=(0, None))
    lasting.set(xlabel="round", ylabel="seconds", ylim=(0, None))
    chart.finish(learning, f"n = {result['clients']:,}, {result['parameters']:,} parameters")
    chart.finish(lasting, result["device"])
    return figure
