"""Masks come off the sums of a training through an executor."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from ccesa import workers
from ccesa.errors import ConfigError
from ccesa.flower import SecureGrid
from flower_grid import MemoryGrid, make_app, number
from flower_rounds import NODES, assert_mean, enrol, one_round


class Counting(ThreadPoolExecutor):
    """Counts what it is given."""

    count = 0

    def submit(self, work, /, *arguments):
        self.count += 1
        return super().submit(work, *arguments)


@pytest.mark.parametrize("settings", [{}, {"post_quantum": True}, {"charter": True}], ids=str)
def test_every_kind_of_round_has_it(settings, tmp_path, monkeypatch):
    monkeypatch.setattr(workers, "PART_BYTES", 64)
    monkeypatch.setattr(workers, "PART_STREAM_BYTES", 64)
    configs = {}
    if "charter" in settings:
        settings["charter"], configs = enrol(tmp_path, NODES)
    with Counting(2) as pool:
        grid = MemoryGrid(make_app(), NODES, node_configs=configs)
        assert_mean(one_round(grid, executor=pool, **settings), number(NODES))
        assert pool.count > 1


def test_what_is_no_executor_is_refused_at_once():
    with pytest.raises(ConfigError, match="executor: expected Executor, got str"):
        SecureGrid(MemoryGrid(make_app(), NODES), executor="processes")
