"""The verbs for calls that run on threads of the client. What does their work loads when they are used."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Callable, Optional, TypeVar

from ._calls import Calls, Headers, Meta
from ._concurrency.cancel import CancelToken
from ._concurrency.fork import no_fork
from .options import UNSET, TimeoutArgument

if TYPE_CHECKING:
    from .futures import CallFuture
    from .streaming import ToolStream

T = TypeVar("T")


class FutureVerbs(Calls):
    """What `ClientSession` documents, as far as it concerns calls that nobody waits for."""

    name: str
    # What runs them, by the process.
    _jobs: dict[int, Any]

    def submit(self, method: Callable[..., T], *args: Any, **kwargs: Any) -> CallFuture[T]:
        """Make a call on a thread of the client, and return a `concurrent.futures.Future` at once.

        Its ``cancel(reason=None)`` ends the call even while it runs. Up to ``Limits.submit_threads`` calls
        run at a time, more of them wait. ``timeout=``, or that of the client, counts from now: a call that no
        thread is free for in time fails with `CallTimeout`, unsent. What a callback submits goes first, and
        the callback may wait for it: while it is not done, one call more may begin, which then goes on to its
        end. So at most ``submit_threads`` calls run besides those that wait for others or have waited, and
        one for each callback outside of them. Context variables are those of the caller. `close` fails those
        that have not ended with `ClientClosed`, and in a forked child those of the parent fail with `Forked`.

        Args:
            method: A method of this client: ``client.call_tool``. One that iterates (``client.tools``) gives
                a list of all.
            args: What to pass.
            kwargs: What to pass.

        Raises:
            UsageError: ``method`` is something else. What the method itself raises, the future has.
            ClientClosed: It is.

        Example:
            >>> future = client.submit(client.call_tool, "add", {"a": 1, "b": 2}, timeout=5)
            >>> future.result().structured_content
            {'result': 3}
        """
        with no_fork():
            from .futures import submit
        return submit(self, method, args, kwargs)

    def stream_tool(
        self,
        name: str,
        arguments: Optional[Mapping[str, Any]] = None,
        *,
        raise_on_error: bool = False,
        validation: Optional[str] = None,
        on_input: str = "answer",
        timeout: TimeoutArgument = UNSET,
        meta: Meta = None,
        cancel: Optional[CancelToken] = None,
        headers: Headers = None,
    ) -> ToolStream:
        """Call a tool, and iterate over its progress while it runs; then ask for the result.

        The call is made on a thread of the client (see `submit`). Leaving the ``with`` before its end cancels
        it. Over HTTP the server's messages are left unread while 1000 reports wait to be consumed; on
        channels that all calls share the oldest reports are dropped then, and counted.

        Args:
            name: The tool.
            arguments: As for ``call_tool``; so are all others.
            raise_on_error: See ``call_tool``.
            validation: See ``call_tool``.
            on_input: See ``call_tool``.
            timeout: See the class.
            meta: See the class.
            cancel: See the class.
            headers: See the class.

        Raises:
            ClientClosed: It is. Everything else, the iteration and the result raise.

        Example:
            >>> with client.stream_tool("build", {"target": "docs"}) as stream:
            ...     for step in stream:
            ...         print(step.progress, step.total, step.message)
            ...     print(stream.result().text)
        """
        with no_fork():
            from .streaming import ToolStream
        return ToolStream(
            self,
            (name, arguments),
            {
                "raise_on_error": raise_on_error,
                "validation": validation,
                "on_input": on_input,
                "timeout": timeout,
                "meta": meta,
                "cancel": cancel,
                "headers": headers,
            },
        )
