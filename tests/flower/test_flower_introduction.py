"""A node's introduction: whose place it takes."""

from flwr.app import Context, Message

from ccesa.flower import secure_mod
from ccesa.policy import Policy
from flower_grid import SILENT, MemoryGrid, lose, make_app, number, step_of
from flower_rounds import NODES, assert_mean, enrol, one_round


def test_an_introduction_is_of_one_node(tmp_path, said):
    """The answer of 1003 does not arrive. Node 1004 has seen it, and gives it as its own."""
    charter, configs = enrol(tmp_path, NODES + 1)
    seen = {}

    def repeat(message: Message, context: Context, call_next) -> Message:
        reply = call_next(message, context)
        if step_of(message) == "introduce":
            record = reply.content.config_records["ccesa"]
            seen[context.node_id] = record["reply"]
            if context.node_id == 1004:
                record["reply"] = seen[1003]
        return reply

    grid = MemoryGrid(
        make_app(outer=[repeat, secure_mod]), NODES, node_configs=configs, faults=lose(SILENT, "introduce", 1003)
    )
    reply = one_round(grid, charter=charter, policy=Policy.wait_for_all(1.0))
    assert_mean(reply, [node for node in number(NODES) if node not in (1003, 1004)])
    assert any("1004" in line and "it does not have this key" in line for line in said)
