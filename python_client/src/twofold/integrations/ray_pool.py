"""Ray actors for `twofold.integrations.ray`, started on all nodes and restarted when lost.

The pool uses actors, not tasks. If a node stops responding, Ray repeats a task only after a
connection times out, by default after seven minutes. It repeats an actor's call as soon as it
declares the node dead.
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

# The maximum number of repeats of a part whose worker or node was lost.
_RETRIES = 3
# The time limit in seconds for actors to end their sessions on a server.
_PATIENCE = 5


class Pool:
    """A context manager with actors that play parts of a task.

    On exit, it cancels the parts whose results were not fetched, and ends the actors.

    Args:
        actor: The class of the actors, which has a method `close`.
        options: The actors' options, which override the pool's.
    """

    def __init__(self, actor: type[Any], number: int, options: Mapping[str, Any] | None) -> None:
        # Actors reserve no CPU, so that actors of a lost node can restart on the other nodes.
        given = {"max_restarts": -1, "max_task_retries": _RETRIES}
        remote, strategies = _ray.remote(actor), itertools.cycle(_strategies())
        self.workers = []
        for _ in range(number):
            every = {**given, "scheduling_strategy": next(strategies), **(options or {})}
            self.workers.append(remote.options(**every).remote())
        self._parts: dict[Any, str] = {}

    def begun(self, ref: Any, what: str, part: range) -> Any:
        """Records a started part, for use in messages, and returns `ref`."""
        self._parts[ref] = f"{what} {part.start} ... {part.stop - 1}"
        return ref

    def first_of(self, refs: Sequence[Any]) -> Any:
        """Returns the first reference whose result is ready."""
        [ref], _ = _ray.wait(refs, num_returns=1)
        return ref

    def result(self, ref: Any) -> Any:
        """Waits for the result of a part and returns it.

        Raises:
            TransportError: The part was lost too many times.
            TwofoldError: The part raised this error.
        """
        try:
            result = _ray.get(ref)
        except _ray.exceptions.RayTaskError as error:
            if isinstance(error.cause, TwofoldError):
                raise error.cause from error
            raise
        except _ray.exceptions.RayError as error:
            raise TransportError(f"Ray lost {self._parts[ref]}: {error}") from error
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
            # Ray logs errors that are never fetched.
            with contextlib.suppress(_ray.exceptions.RayError):
                _ray.get(ref)
        for worker in self.workers:
            _ray.kill(worker)


def number_of_workers(workers: int | None) -> int:
    """Returns the given number, or the cluster's number of CPUs. Starts Ray if necessary."""
    if workers is not None:
        workers = _arguments.integer("workers", workers, 1)
    if not _ray.is_initialized():
        _ray.init()
    return workers or max(1, int(_ray.cluster_resources().get("CPU", 1)))


def _strategies() -> list[Any]:
    """Returns one scheduling strategy per CPU, alternating between the nodes.

    By default, Ray may start all actors on one node. An actor moves to another node if its own node
    is lost or lacks a required resource.
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
    """Puts a plan into the cluster's object store and returns a reference.

    The plan is pickled here, because Ray would make its arrays read-only, including the policy's.
    """
    try:
        pickled = _ray.cloudpickle.dumps(plan)
    except Exception as error:  # the policy's classes may raise anything
        raise InvalidArgument(
            f"the policy can't be pickled: {type(error).__name__}: {error}", field="policy"
        ) from error
    return _ray.put(pickled)


def unpacked(packed: list[Any]) -> Any:
    """Unpickles a plan in an actor, and gives the actor's service one thread per assigned CPU.

    Args:
        packed: A list with the reference. Outside a list, Ray would fetch the plan before the call.
    """
    cpus = _ray.get_runtime_context().get_assigned_resources().get("CPU", 1)
    os.environ.setdefault("TWOFOLD_THREADS", str(max(1, int(cpus))))
    pickled = _ray.get(packed[0])
    try:
        return _ray.cloudpickle.loads(pickled)
    except Exception as error:
        raise InvalidArgument(
            f"the policy can't be unpickled on a worker: {type(error).__name__}: {error}; "
            "ray.init(runtime_env={'working_dir': '.'}) copies this folder's modules to workers",
            field="policy",
        ) from error


def stop_if_canceled(*_: object) -> None:
    """Raises TaskCancelledError if the pool has cancelled this actor's part. Used as `progress`."""
    if _ray.get_runtime_context().is_canceled():
        raise _ray.exceptions.TaskCancelledError
