"""A task is what a round works on, by its digest. It is known only when step 2 opens."""

from ccesa.errors import ConfigError, quoted
from ccesa.protocol.messages import TASK_BYTES


def checked_task(task: object) -> bytes:
    """Return the task; raise ConfigError where it is not a digest."""
    if not isinstance(task, bytes) or len(task) != TASK_BYTES:
        raise ConfigError(f"a task is a digest of {TASK_BYTES} bytes, not {quoted(task)}")
    return task
