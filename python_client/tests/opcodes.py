"""KeyboardInterrupts and signal handlers at chosen bytecodes of the package's own code."""

import dis
import functools
import inspect
import itertools
import sys
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import twofold

_PACKAGE = str(Path(twofold.__file__).parent)


class InterruptAt:
    """Raises KeyboardInterrupt before the n-th bytecode of the package that a call executes.

    Real interrupts occur only between some bytecodes; this one can occur between nearly any two. It
    omits a NOP, where no real interrupt occurs: the NOP of an inner `try` is outside the outer one.
    It also omits the last bytecode of the outermost function, its return, because an interrupt
    there looks the same as an interrupt just after the call.

    Args:
        moment: The bytecode's number, from 0.

    Attributes:
        handler: A function to call there, like a signal handler, instead of an interrupt.
        has_fired: Whether the call reached the bytecode.
    """

    def __init__(self, moment: int) -> None:
        self._left = moment
        self.handler: Callable[[], object] | None = None
        self._outermost: types.FrameType | None = None
        self.has_fired = False

    def call(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Calls a function. If the call has too few bytecodes, it is not interrupted."""
        before = sys.gettrace()
        # Python 3.12 traces no bytecodes if none were wanted when the tracing began.
        sys._getframe().f_trace_opcodes = True
        sys.settrace(self._enter)
        try:
            return function(*arguments)
        finally:
            sys.settrace(before)

    def _enter(self, frame: types.FrameType, event: str, _: object) -> Any:
        if self.has_fired or not frame.f_code.co_filename.startswith(_PACKAGE):
            return None
        if self._is_dropped(frame):
            return None
        self._outermost = self._outermost or frame
        # In this order, because Python 3.13 traces the bytecodes of frames with a trace function.
        frame.f_trace, frame.f_trace_opcodes, frame.f_trace_lines = self._look, True, False
        return self._look

    def _look(self, frame: types.FrameType, event: str, _: object) -> Any:
        if event != "opcode" or self.has_fired:
            return self._look
        name = dis.opname[_bytecodes_of(frame.f_code)[frame.f_lasti]]
        if name == "NOP" or (frame is self._outermost and name.startswith("RETURN_")):
            return self._look
        # Python 3.14 traces how a generator is closed, and drops the exceptions from there.
        if frame.f_lineno is None and frame.f_code.co_flags & inspect.CO_GENERATOR:
            return self._look
        if self._left == 0:
            self.has_fired = True
            if self.handler is None:
                raise KeyboardInterrupt
            self.handler()
            return self._look
        self._left -= 1
        return self._look

    def _is_dropped(self, frame: types.FrameType | None) -> bool:
        """Returns True if a destructor is running. Python drops a destructor's exceptions."""
        while frame is not None and frame is not self._outermost:
            if frame.f_code.co_name == "__del__":
                return True
            frame = frame.f_back
        return False


def moments(stride: int = 1) -> Iterator[tuple[int, InterruptAt]]:
    """Yields bytecodes' numbers, each with its interrupt, until one is after the end of a call.

    The caller passes each interrupt one call, and may set its `handler` before.
    """
    for moment in itertools.count(step=stride):
        at = InterruptAt(moment)
        yield moment, at
        if not at.has_fired:
            return


@functools.cache
def _bytecodes_of(code: types.CodeType) -> bytes:
    """Returns the bytecodes of a function, which Python builds anew at each access."""
    return code.co_code
