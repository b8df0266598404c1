"""Built-in policies, which the service plays. Pass them to `VectorEnv.rollout` as `policy`.

A policy chooses an action for each lane before each step. It draws random numbers from its own
stream, never from the board's. See the page "The policies of the service".
"""

from __future__ import annotations

import contextlib
import math
import os
import zipfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from os import PathLike
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from twofold import _arguments, _text
from twofold.client.session import Session
from twofold.errors import InvalidArgument, ResourceExhausted
from twofold.games.game2048 import Game2048
from twofold.v1 import envelope_pb2 as envelope
from twofold.v1 import rollout_pb2 as wire

# The bytes of weights in one request.
_PIECE_BYTES = 16 << 20


class Policy:
    """A built-in policy, which the service executes.

    Attributes:
        slot: The name of the field of `RolloutRequest` that contains the policy.
        layers: The number of the player's moves that the policy looks ahead, shown on rule cards.
    """

    slot: ClassVar[str]
    layers: ClassVar[int] = 0

    @property
    def name(self) -> str:
        """The name in reports."""
        return self.slot.replace("_", "-")

    @property
    def card(self) -> dict[str, Any]:
        """The policy's entries for the rule card."""
        return {"search_max_layers": self.layers, "symmetry_averaging": False, "weights_mb": 0.0}

    def write(self, request: wire.RolloutRequest) -> None:
        """Adds the policy to a rollout request. A network must be uploaded first."""
        getattr(request, self.slot).SetInParent()


@dataclass(frozen=True)
class Random(Policy):
    """A policy that plays a random legal action. All legal actions are equally likely."""

    slot = "random"


@dataclass(frozen=True)
class FixedOrder(Policy):
    """A policy that plays the first legal action.

    In 2048, this is the first of up, right, down and left. In Concentration, it is the first card
    that can be flipped, so the policy soon flips the same two cards forever. The policy uses no
    random numbers. It is the baseline that a trained policy must beat: on 4 x 4 boards, it scores
    twice as much as random play.
    """

    slot = "fixed_order"


@dataclass(frozen=True)
class Greedy(Policy):
    """A policy that plays the action with the highest merge score, breaking ties at random."""

    slot, layers = "greedy", 1


@dataclass(frozen=True)
class Expectimax(Policy):
    """A full-width search for 2048 on 4 x 4 boards. A heuristic evaluates the final afterstates.

    Args:
        depth: The number of player moves that the search looks ahead, 1 ... 8. Depth 2 means
            max, mean, max: "2 max layers", or 3 plies including the new tile.
        extension: If the search would end on an afterstate with at most this many empty cells, it
            looks one move further; 0 ... 16, 0 for never.
    """

    slot = "expectimax"
    depth: int = 2
    extension: int = 3

    def __post_init__(self) -> None:
        _arguments.integer("depth", self.depth, 1, 8)
        _arguments.integer("extension", self.extension, 0, 16)

    @property
    def name(self) -> str:
        """The name in reports, with the depth and the extension."""
        name = f"expectimax, depth {self.depth}"
        if self.extension:
            name += f" and one more at {self.extension} empty cells or fewer"
        return name

    @property
    def card(self) -> dict[str, Any]:
        """The policy's entries for the rule card."""
        return super().card | {"search_max_layers": self.depth}

    def write(self, request: wire.RolloutRequest) -> None:
        """Adds the search to a rollout request."""
        request.expectimax.depth, request.expectimax.extension = self.depth, self.extension


@dataclass(frozen=True)
class Optimal(Policy):
    """A policy that plays optimally for the environment's `objective`.

    The board may have at most nine cells, and the service needs the table that `twofold solve`
    makes (see the page "Optimal play on small boards"). Of equally good actions, the policy plays
    the one with the lowest number.
    """

    slot = "optimal"


class NTuple(Policy):
    """A policy that plays the action with the highest merge score + V(afterstate).

    V is the value function of an n-tuple network: the sum of one weight for each tuple and, if
    `symmetric`, for each rotation and reflection of the board (Szubert and Jaśkowski 2014). A
    weight's index in its tuple's table is a number in base `exponents`. Digit k of this number,
    counted from the least significant digit, is the exponent in the tuple's k-th cell, but at most
    exponents - 1. Sums are float32: the weights are added within each tuple first, and then across
    tuples.

    The policy keeps the given arrays, and sends them to the service when a rollout first needs
    them. Do not change the arrays afterwards; make another policy instead.

    Args:
        tuples: The 1 ... 12 cells of each tuple, numbered row by row.
        weights: One table for each tuple, float32 (exponents ** cells,).
        exponents: The number of distinct exponents, 2 ... 32; larger exponents count as the
            largest.
        symmetric: Whether V sums over all rotations and reflections of a board.
        size: The size of the boards that the network plays, an int or (rows, columns); None for
            every size. A trained network has the size of its training, because its cells have other
            places on boards of other sizes.

    Attributes:
        tuples, weights, exponents, symmetric, size: The arguments.

    Raises:
        InvalidArgument: An argument is wrong; `field` names it, and `lane` is the tuple's index.
    """

    slot, layers = "ntuple", 1

    def __init__(
        self,
        tuples: Sequence[Sequence[int]],
        weights: Sequence[ArrayLike],
        *,
        exponents: int = 16,
        symmetric: bool = True,
        size: int | tuple[int, int] | None = None,
    ) -> None:
        self.exponents = _arguments.integer("exponents", exponents, 2, 32)
        self.symmetric = _arguments.boolean("symmetric", symmetric)
        self.size = None if size is None else _arguments.sides(size, *Game2048.sides)
        rows, columns = self.size or (8, 8)
        self.tuples = read_tuples("tuples", tuples, rows * columns)
        given = _arguments.elements("weights", weights, "a list of tables")
        tables = [_arguments.array("weights", table) for table in given]
        if len(tables) != len(self.tuples):
            raise InvalidArgument(
                f"weights contains {len(tables)} tables; expected one for each of the "
                f"{len(self.tuples)} tuples",
                field="weights",
            )
        for index, (cells, table) in enumerate(zip(self.tuples, tables, strict=True)):
            shape = (self.exponents ** len(cells),)
            check_table(f"weights[{index}]", table, shape, field="weights", lane=index)
        self.weights: tuple[NDArray[np.float32], ...] = tuple(
            np.ascontiguousarray(table, "<f4") for table in tables
        )

    @property
    def card(self) -> dict[str, Any]:
        """The policy's entries for the rule card."""
        size = sum(table.nbytes for table in self.weights) / 1e6
        return super().card | {"symmetry_averaging": self.symmetric, "weights_mb": size}

    def arrays(self) -> dict[str, Any]:
        """Returns the arrays of the network's file, by name."""
        arrays: dict[str, Any] = {"exponents": self.exponents, "symmetric": self.symmetric}
        if self.size is not None:
            arrays["size"] = np.array(self.size)
        for index, (cells, table) in enumerate(zip(self.tuples, self.weights, strict=True)):
            arrays[f"tuple_{index}"] = np.array(cells, np.uint8)
            arrays[f"weights_{index}"] = table
        return arrays

    def save(self, path: str | PathLike[str]) -> None:
        """Writes the network to a numpy .npz file, which appears only when it is complete."""
        with _text.whole_file(path) as file:
            np.savez(file, **self.arrays())

    @classmethod
    def load(cls, path: str | PathLike[str]) -> NTuple:
        """Loads the network from a file that `save` wrote.

        Raises:
            InvalidArgument: The file has another format or is damaged; `field` is "path".
            OSError: The file can't be read.
        """
        with read_arrays(path, "n-tuple network") as arrays:
            tuples = tuples_of(arrays)
            return cls(
                tuples,
                [arrays[f"weights_{index}"] for index in range(len(tuples))],
                exponents=int(arrays["exponents"]),
                symmetric=bool(arrays["symmetric"]),
                size=tuple(arrays["size"].tolist()) if "size" in arrays else None,
            )


@contextlib.contextmanager
def read_arrays(path: str | PathLike[str], content: str, field: str = "path") -> Iterator[Any]:
    """Opens a numpy .npz file whose `content` the body reads.

    Raises:
        InvalidArgument: The body failed, or the file has another format or is damaged; `field` is
            the path's argument.
        MemoryError, ResourceExhausted: There is too little memory for the body.
        OSError: The file can't be read.
    """
    with _text.open_file(path, field) as file:
        try:
            if not file.peek(2).startswith(b"PK"):  # numpy would take it for a pickle
                raise InvalidArgument("it is not a zip")
            left = os.fstat(file.fileno()).st_size
            with np.load(file, allow_pickle=False) as arrays:
                for each in arrays.zip.infolist():
                    left -= _check_entry(arrays.zip, each, left)
                yield arrays
        except (MemoryError, OSError, ResourceExhausted):  # the file is not to blame
            raise
        except Exception as error:  # numpy, zipfile and zlib each raise their own
            raise InvalidArgument(
                f"{path} is not a readable {content}: {error}", field=field
            ) from error


def tuples_of(arrays: Any) -> list[list[int]]:
    """Returns the tuples of cells in the arrays of a network's file."""
    # Counts tables, too, because a network without one of its tuples is not the saved network.
    names = [name.partition("_") for name in arrays.files]
    count = len({index for kind, _, index in names if kind in ("tuple", "weights")})
    tuples = [arrays[f"tuple_{index}"] for index in range(count)]
    for index, cells in enumerate(tuples):
        if cells.dtype.kind not in "iu":
            raise InvalidArgument(f"tuple_{index} is {cells.dtype}; expected integers")
    return [cells.tolist() for cells in tuples]


def _check_entry(archive: zipfile.ZipFile, entry: zipfile.ZipInfo, left: int) -> int:
    """Checks an array, and returns its size in bytes, which must be at most `left`.

    Entries may overlap, so the sizes of all arrays together could exceed the file's.

    The zip's directory has no checksum, so damage there could hide an array. If an array's name is
    damaged, opening it fails, because the name in front of the array differs. A comment is refused,
    because it could contain the directory's next entries.
    """
    if entry.comment:
        raise InvalidArgument(f"{entry.filename} has a comment")
    if entry.compress_type != zipfile.ZIP_STORED:
        raise InvalidArgument(f"{entry.filename} is compressed; write the file with numpy.savez")
    if entry.header_offset < 0:  # zipfile would raise an OSError
        raise InvalidArgument(f"{entry.filename} starts before the file")
    with archive.open(entry) as array:
        np.lib.format.read_magic(array)
        shape, _, dtype = np.lib.format.read_array_header_1_0(array)
    if not dtype.itemsize:
        raise InvalidArgument(f"{entry.filename} is {dtype} {shape}, whose elements have no size")
    if min(shape, default=0) < 0:
        raise InvalidArgument(f"{entry.filename} is {dtype} {shape}, which has a negative length")
    size = math.prod(shape) * dtype.itemsize
    if size > left:
        raise InvalidArgument(
            f"with {entry.filename}, {dtype} {shape}, the arrays are larger than the file"
        )
    return size


NAMES: dict[str, Policy] = {
    "random": Random(),
    "fixed-order": FixedOrder(),
    "greedy": Greedy(),
    "expectimax": Expectimax(),
    "optimal": Optimal(),
}


def check_table(name: str, table: NDArray[Any], shape: tuple[int, ...], **place: Any) -> None:
    """Raises InvalidArgument at `place` if a table is not float32 of this shape, and finite."""
    if table.dtype != np.float32 or table.shape != shape:
        raise InvalidArgument(
            f"{name} is {table.dtype} {table.shape}; expected float32 {shape}", **place
        )
    if not np.isfinite(table).all():
        raise InvalidArgument(
            f"{name} has values that are not finite; expected finite numbers", **place
        )


def read_tuples(name: str, tuples: object, board: int) -> tuple[tuple[int, ...], ...]:
    """Returns an argument's tuples of cells, 1 ... 256 tuples, on boards with `board` cells.

    Raises:
        InvalidArgument: The argument is wrong; `field` is its name, `lane` the tuple's index.
    """
    given = _arguments.elements(name, tuples, "a list of tuples of cells")
    if not 1 <= len(given) <= 256:
        raise InvalidArgument(
            f"{name} contains {len(given)} tuples; expected 1 ... 256", field=name
        )
    checked = []
    for index, cells in enumerate(given):
        each = f"{name}[{index}]"
        try:
            listed = _arguments.elements(each, cells, "a tuple of cells")
            one = tuple(_arguments.integer(f"a cell of {each}", c, 0, board - 1) for c in listed)
            if not 1 <= len(one) <= 12 or len(set(one)) != len(one):
                raise _arguments.wrong(each, list(one), "1 ... 12 different cells")
        except InvalidArgument as error:
            raise InvalidArgument(str(error), field=name, lane=index) from None
        checked.append(one)
    return tuple(checked)


def network_form(
    tuples: Sequence[Sequence[int]], exponents: int, *, symmetric: bool
) -> wire.NTupleForm:
    """Returns the form of a network as a message."""
    return wire.NTupleForm(
        tuples=[wire.NTuple(cells=bytes(cells)) for cells in tuples],
        exponents=exponents,
        symmetric=symmetric,
    )


def upload(session: Session, network: NTuple) -> None:
    """Uploads the network to the session's service, unless the service already has it.

    If an upload is interrupted or times out, the next call resumes it.

    Raises:
        InvalidArgument: The network is for boards of another size.
    """
    rules = session.create.game2048
    if network.size is not None and session.create.HasField("game2048"):
        rows, columns = network.size
        if (rows, columns) != (rules.rows, rules.columns):
            raise InvalidArgument(
                f"the network plays boards of {rows} x {columns}; the environment's are "
                f"{rules.rows} x {rules.columns}",
                field="policy",
            )
    if session.network is not network:
        session.network = None
        form = network_form(network.tuples, network.exponents, symmetric=network.symmetric)
        session.call(envelope.Request(policy=wire.PolicyRequest(network=form)))
        session.network = network
    end = 0
    for table in network.weights:
        begin, end = end, end + table.nbytes
        while session.received < end:
            part = wire.WeightsPiece(offset=session.received)
            start = session.received - begin
            stop = start + session.link.largest_payload(_PIECE_BYTES)
            piece = table.view(np.uint8)[start:stop].tobytes()
            session.call(envelope.Request(policy=wire.PolicyRequest(weights=part)), piece)
