"""Flower's SecAgg+ doing the same: its own client mod and its own workflow, without a network.

Times are processor time: on a machine that others use, a minute by the clock says little.
"""

import copy
import importlib
import logging
import os
import time
from collections.abc import Iterable
from typing import Any

import numpy as np

try:
    import flwr

    # The package exports a function of the same name, which hides the module.
    mod = importlib.import_module("flwr.client.mod.secure_aggregation.secaggplus_mod")
    from flwr.common import Code, ConfigRecord, FitRes, Message, RecordDict, Status, ndarrays_to_parameters
    from flwr.common.secure_aggregation.crypto import shamir, symmetric_encryption
    from flwr.common.secure_aggregation.secaggplus_constants import Key
    from flwr.common.secure_aggregation.secaggplus_utils import share_keys_plaintext_concat
    from flwr.compat.common import recorddict_compat as compat
    from flwr.supercore.primitives import asymmetric

    VERSION = str(flwr.__version__)
except ImportError:
    VERSION = ""

#: Of the processor, and that on the wall.
CLOCKS = time.process_time, time.perf_counter


def _state(threshold: int, shares: int) -> Any:
    state = mod.SecAggPlusState()
    record = ConfigRecord(
        {
            Key.SAMPLE_NUMBER: shares,
            Key.SHARE_NUMBER: shares,
            Key.THRESHOLD: threshold,
            Key.CLIPPING_RANGE: 8.0,
            Key.TARGET_RANGE: 1 << 22,
            Key.MOD_RANGE: 1 << 32,
            Key.MAX_WEIGHT: 1000.0,
        }
    )
    mod._setup(state, record)
    return state


def _neighbours(state: Any, count: int) -> dict[int, Any]:
    """Both key pairs of neighbours 1..count; the client itself is 0."""
    state.nid, pair = 0, asymmetric.generate_key_pairs
    return {i: (pair(), pair()) for i in range(1, count + 1)}


def _public(state: Any, pairs: dict[int, Any]) -> Any:
    bundles = {
        str(i): [asymmetric.public_key_to_bytes(one[1]), asymmetric.public_key_to_bytes(two[1])]
        for i, (one, two) in pairs.items()
    }
    return ConfigRecord({"0": [state.pk1, state.pk2], **bundles})


def sharing_ms(neighbours: int, threshold: int) -> float:
    """``_share_keys`` of one client."""
    state = _state(threshold, neighbours + 1)
    record = _public(state, _neighbours(state, neighbours))
    start = time.process_time()
    mod._share_keys(state, record)
    return (time.process_time() - start) * 1e3


def masking_ms(neighbours: int, length: int) -> tuple[float, float]:
    """``_collect_masked_vectors`` of one client, on a vector that is already there, by both clocks."""
    state = _state(neighbours // 2 + 1, neighbours + 1)
    pairs = _neighbours(state, neighbours)
    state.public_keys_dict = {int(i): (v[0], v[1]) for i, v in _public(state, pairs).items()}
    texts = []
    for i, (_, (private, _public_key)) in pairs.items():
        ours = asymmetric.bytes_to_public_key(state.pk2)
        key = symmetric_encryption.generate_shared_key(private, ours)
        state.ss2_dict[i] = key
        texts.append(symmetric_encryption.encrypt(key, share_keys_plaintext_concat(i, 0, bytes(52), bytes(52))))
    record = ConfigRecord({Key.CIPHERTEXT_LIST: texts, Key.SOURCE_LIST: list(pairs)})
    parameters = ndarrays_to_parameters([np.random.default_rng(0).normal(size=length).astype(np.float32)])
    start = [clock() for clock in CLOCKS]
    mod._collect_masked_vectors(state, record, 1, parameters)
    processor, wall = ((clock() - then) * 1e3 for clock, then in zip(CLOCKS, start, strict=True))
    return processor, wall


def joining_ms(threshold: int, holders: int) -> float:
    """``combine_shares`` of one 32-byte secret."""
    shares = shamir.create_shares(os.urandom(32), threshold, holders)[:threshold]
    start = time.process_time()
    shamir.combine_shares(shares)
    return (time.process_time() - start) * 1e3


class _Memory:
    """A Grid that hands every message straight to the client mod. Some clients fail in the mask stage."""

    def __init__(self, length: int, lost: set[int]) -> None:
        from flwr.common import Context

        self._new_context: Any = Context
        self._contexts: dict[int, Any] = {}
        self._length, self._lost, self._stage = length, lost, 0
        self.copying_ms = 0.0  # stands for the network; not counted

    def send_and_receive(self, messages: Iterable[Any], *, timeout: float | None = None) -> list[Any]:
        self._stage += 1
        asked = [one for one in messages if not (self._stage == 3 and one.metadata.dst_node_id in self._lost)]
        return [self._answer(one) for one in asked]

    def _answer(self, message: Any) -> Any:
        number = message.metadata.dst_node_id
        if number not in self._contexts:
            self._contexts[number] = self._new_context(1, number, {}, RecordDict(), {})
        start = time.process_time()
        message = copy.deepcopy(message)
        self.copying_ms += (time.process_time() - start) * 1e3
        return mod.secaggplus_mod(message, self._contexts[number], self._train)

    def _train(self, message: Any, _: Any) -> Any:
        values = np.full(self._length, 0.5, np.float32)
        result = FitRes(Status(code=Code.OK, message=""), ndarrays_to_parameters([values]), 1, {})
        return Message(compat.fitres_to_recorddict(result, False), reply_to=message)


def round_ms(clients: int, shares: int, threshold: int, length: int, lost: int) -> tuple[float, float]:
    """The whole SecAgg+ workflow, clients and server, in one process: processor time, and by the clock."""
    from flwr.app import ArrayRecord
    from flwr.common import Context
    from flwr.server import LegacyContext, ServerConfig, SimpleClientManager
    from flwr.server.client_proxy import ClientProxy
    from flwr.server.strategy import FedAvg
    from flwr.server.workflow import SecAggPlusWorkflow
    from flwr.server.workflow.constant import MAIN_CONFIGS_RECORD, MAIN_PARAMS_RECORD
    from flwr.server.workflow.constant import Key as WorkflowKey
    from flwr.supercore.task_identity import TaskIdentity

    class Proxy(ClientProxy):  # type: ignore[misc]
        def __init__(self, number: int) -> None:
            super().__init__(str(number))
            self.node_id = number

        get_properties = get_parameters = fit = evaluate = reconnect = None

    logging.getLogger("flwr").setLevel(logging.ERROR)
    TaskIdentity.task_id = TaskIdentity.run_id = 1  # as inside a ServerApp
    TaskIdentity.node_id = 0
    manager = SimpleClientManager()
    for number in range(1, clients + 1):
        manager.register(Proxy(number))
    strategy = FedAvg(fraction_fit=1.0, min_fit_clients=clients, min_available_clients=clients)
    context = LegacyContext(Context(1, 0, {}, RecordDict(), {}), ServerConfig(1), strategy, manager)
    context.state.config_records[MAIN_CONFIGS_RECORD] = ConfigRecord({WorkflowKey.CURRENT_ROUND: 1})
    start_values = [np.zeros(length, np.float32)]
    context.state.array_records[MAIN_PARAMS_RECORD] = ArrayRecord(start_values)
    workflow = SecAggPlusWorkflow(shares, threshold, max_weight=1.0)
    start = [clock() for clock in CLOCKS]
    grid = _Memory(length, set(range(1, lost + 1)))
    workflow(grid, context)
    processor, wall = ((clock() - then) * 1e3 - grid.copying_ms for clock, then in zip(CLOCKS, start, strict=True))
    mean = context.state.array_records[MAIN_PARAMS_RECORD].to_numpy_ndarrays()[0]
    if not np.allclose(mean, 0.5, atol=1e-2):
        raise RuntimeError("SecAgg+ did not finish its round; the comparison would mean nothing")
    return processor, wall
