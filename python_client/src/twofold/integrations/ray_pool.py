"""Ray's actors for `twofold.integrations.ray`: started on all nodes, and restarted after a loss.

They are actors and not tasks. Ray repeats a task of a silent node after a connection's timeout,
seven minutes by default, but an actor's call as soon as the node counts as lost.
"""

from __future__ import annotations

import contextlib
import itertools
import os
from collections.abc import Mapping, Sequence
from typing import Any

from typing_extensions import Self

from twofold import _arguments
from twofold._optional import optional_import
from twofold.errors import InvalidArgument, TransportError, TwofoldError

_PURPOSE = "evaluations and datasets on several machines"
_ray: Any = optional_import("ray", _PURPOSE, "ray")
_scheduling: Any = optional_import("ray.util.scheduling_strategies", _PURPOSE, "ray")

# The number of new tries of a part after the loss of its worker or node.
_RETRIES = 3
# Seconds for actors to end their sessions on a server.
_PATIENCE = 5


class Pool:
    """Actors that play parts, and the parts that they have begun; a context manager.

    At its end, parts that nobody has fetched are canceled, and the actors ended.

    Args:
        actor: The actors' class; it needs a method `close`.
        number: How many.
        options: Their options, besides those here.

    Attributes:
        workers: The actors.
    """

    def __init__(self, actor: type[Any], number: int, options: Mapping[str, Any] | None) -> None:
        # They don't keep their CPU, so that actors of a lost node find room on the others.
        given = {"max_restarts": -1, "max_task_retries": _RETRIES}
        remote, strategies = _ray.remote(actor), itertools.cycle(_strategies())
        self.workers = []
        for _ in range(number):
            every = {**given, "scheduling_strategy": next(strategies), **(options or {})}
            self.workers.append(remote.options(**every).remote())
        self._parts: dict[Any, str] = {}

    def begun(self, ref: Any, what: str, part: range) -> Any:
        """Notes that a part was begun, for messages; returns the reference to its result."""
        self._parts[ref] = f"{what} {part.start} ... {part.stop - 1}"
        return ref

    def first_of(self, refs: Sequence[Any]) -> Any:
        """Returns the first reference whose result is ready."""
        [ref], _ = _ray.wait(refs, num_returns=1)
        return ref

    def result(self, ref: Any) -> Any:
        """Waits for the result of a part.

        Raises:
            TransportError: The part was lost too often.
            TwofoldError: The error that it raised.
        """
        try:
            result = _ray.get(ref)
        except _ray.exceptions.RayTaskError as error:
            if isinstance(error.cause, TwofoldError):
                raise error.cause from error
            raise
        except _ray.exceptions.RayError as error:
            raise TransportError(f"{self._parts[ref]} were lost: {error}") from error
        del self._parts[ref]
        return result

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for ref in self._parts:
            _ray.cancel(ref)
        refs = [*self._parts, *(worker.close.remote() for worker in self.workers)]
        done, _ = _ray.wait(refs, num_returns=len(refs), timeout=_PATIENCE)
        for ref in done:
            # Ray logs errors that were never fetched.
            with contextlib.suppress(_ray.exceptions.RayError):
                _ray.get(ref)
        for worker in self.workers:
            _ray.kill(worker)


def number_of_workers(workers: int | None) -> int:
    """Returns the given number, or the cluster's number of CPUs; first starts Ray if necessary.

    Raises:
        InvalidArgument: The number is wrong.
    """
    if workers is not None:
        workers = _arguments.integer("workers", workers, 1)
    if not _ray.is_initialized():
        _ray.init()
    return workers or max(1, int(_ray.cluster_resources().get("CPU", 1)))


def _strategies() -> list[Any]:
    """Nodes for actors, in turn, and each as often as it has CPUs.

    An actor goes elsewhere if its node is lost, or lacks something that it needs. (Ray itself may
    begin all of them on one node.)
    """
    prefer = _scheduling.NodeAffinitySchedulingStrategy
    turns = sorted(
        (turn, node["NodeID"])
        for node in _ray.nodes()
        if node["Alive"]
        for turn in range(int(node["Resources"].get("CPU", 0)))
    )
    return [prefer(node, soft=True) for _, node in turns] or ["SPREAD"]


def packed(plan: Any) -> Any:
    """Returns a reference to a plan in the cluster's store.

    It is pickled here because arrays that Ray itself sends are read-only, also a policy's own.

    Raises:
        InvalidArgument: The policy can't be pickled.
    """
    try:
        pickled = _ray.cloudpickle.dumps(plan)
    except Exception as error:  # the policy's classes may raise anything
        raise InvalidArgument(
            f"the policy can't be pickled: {type(error).__name__}: {error}", field="policy"
        ) from error
    return _ray.put(pickled)


def unpacked(packed: list[Any]) -> Any:
    """Returns the plan, in an actor; its service then has as many threads as the actor has CPUs.

    Args:
        packed: The reference, in a list: so Ray fetches the plan only here.

    Raises:
        InvalidArgument: The policy can't be unpickled on this machine.
    """
    cpus = _ray.get_runtime_context().get_assigned_resources().get("CPU", 1)
    os.environ.setdefault("TWOFOLD_THREADS", str(max(1, int(cpus))))
    pickled = _ray.get(packed[0])
    try:
        return _ray.cloudpickle.loads(pickled)
    except Exception as error:
        raise InvalidArgument(
            f"the policy can't be unpickled on a worker: {type(error).__name__}: {error}; "
            "ray.init(runtime_env={'working_dir': '.'}) brings modules of this folder",
            field="policy",
        ) from error


def stop_if_canceled(*_: object) -> None:
    """Raises in an actor if the pool has canceled the part that it plays; takes any progress."""
    if _ray.get_runtime_context().is_canceled():
        raise _ray.exceptions.TaskCancelledError
