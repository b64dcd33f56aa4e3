"""Rounds with noise: every site adds its own before it masks, so that nobody sees a sum without it.

    python examples/noisy_rounds.py

Three rounds were agreed on. Each site charges its vectors to a ledger of its own, and sends no fourth one.
"""

from functools import partial

import numpy as np

import ccesa
from ccesa.plan import plan
from ccesa.protocol.round import run_round

SITES, PARAMETERS = 30, 2000
ASKED = ccesa.DifferentialPrivacy(epsilon=8.0, delta=1e-5, rounds=3, norm=1.0)


def main() -> None:
    """Plan, run four rounds, and say what came of each."""
    planned = plan(SITES, dropout=0.1, length=PARAMETERS, privacy=ASKED)
    models = np.random.default_rng().normal(size=(SITES, PARAMETERS))
    models *= 0.9 * ASKED.norm / np.linalg.norm(models, axis=1, keepdims=True)
    quantizer = ccesa.NoisyQuantizer.for_model([models[0]], planned.mechanism)
    # In a federation every site keeps its own on disk: Ledger.new("ledger", epsilon=..., delta=...)
    ledgers = [ccesa.Ledger.in_memory(epsilon=ASKED.epsilon, delta=ASKED.delta) for _ in range(SITES)]
    print(f"no sum of fewer than {planned.min_survivors} sites is opened, {quantizer.length} words each")
    for number in range(4):
        config = planned.config()  # with a fresh series_id
        sites = [site(config, i, models[i], quantizer, ledgers[i], planned.floor) for i in range(SITES)]
        try:
            found = run_round(ccesa.Server(config), partial(carry, sites))
        except ccesa.BudgetSpent as refusal:
            print(f"round {number}: {refusal}")
            break
        many = len(found.survivors)
        (mean,) = quantizer.decode(found.vector, many, config.context).arrays
        error = np.std(mean - models[list(found.survivors)].mean(axis=0))
        expected = planned.mechanism.noise(many) / many
        print(f"round {number}: a mean of {many} sites, off by {error:.2g} ({expected:.2g} expected)")
        print(f"  site 0 has spent epsilon = {ledgers[0].spent().epsilon:.2f} of {ASKED.epsilon}")


def site(config, number, model, quantizer, ledger, floor):
    """A site's client: it draws noise when it is asked for its vector, which is charged before it leaves.

    It insists on as many survivors as the noise counts on, whatever the server proposes.
    """
    return ccesa.Client(
        config,
        number,
        lambda: quantizer.encode([model], config.context).vector,
        floor=floor,
        account=ledger.account(quantizer.mechanism),
    )


def carry(sites, step, requests):
    """Carry messages, as a network would; two sites are gone when vectors are asked for."""
    for number, request in requests.items():
        if not (step.name == "mask" and number in (3, 7)):
            yield number, sites[number].receive(request)


if __name__ == "__main__":
    main()
