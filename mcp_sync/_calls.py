"""What all verbs share: the options and the deadline of a call, and the pages of a list."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from typing import Any, Callable, Optional, TypeVar

from pydantic import BaseModel

from ._arguments import as_dict, check_callback, check_instance, page_params
from ._concurrency.cancel import CancelToken
from ._concurrency.deadline import Deadline
from ._engine.call_options import NO_OPTIONS, CallOptions
from ._engine.engine import Engine
from ._protocol.brief import excerpt
from ._protocol.headers import checked_headers
from ._protocol.methods import MethodSpec
from ._protocol.versions import LATEST_MODERN, TRAITS
from .errors import InvalidParams, InvalidResult, UsageError
from .handlers import ProgressCallback
from .options import UNSET, Limits, TimeoutArgument, Timeouts, check_seconds

M = TypeVar("M", bound=BaseModel)
Meta = Optional[Mapping[str, Any]]
Headers = Optional[Mapping[str, str]]


class Calls:
    """How the verbs make their calls."""

    _engine: Engine
    _timeout: TimeoutArgument
    _timeouts: Timeouts
    _limits: Limits

    def _deadline(self, timeout: TimeoutArgument) -> Deadline:
        """Return the deadline of a call."""
        if timeout is UNSET:
            timeout = self._timeout
        if timeout is UNSET:
            return Deadline(self._timeouts.total, self._timeouts.silence)
        return deadline_of(timeout)

    def _call(
        self,
        spec: MethodSpec,
        params: dict[str, Any],
        model: type[M],
        options: CallOptions,
        timeout: TimeoutArgument,
    ) -> M:
        return self._engine.call(spec, params, model, options, self._deadline(timeout))

    def _page(
        self,
        spec: MethodSpec,
        model: type[M],
        cursor: Optional[str],
        options: CallOptions,
        timeout: TimeoutArgument,
    ) -> M:
        return self._call(spec, page_params(cursor), model, options, timeout)

    def _all(self, fetch: Callable[[Optional[str]], Any], items: str) -> Iterator[Any]:
        """Iterate over the items of all pages: see `_pages`."""
        return chain.from_iterable(self._pages(fetch, items))

    def _pages(self, fetch: Callable[[Optional[str]], Any], items: str) -> Iterator[Iterable[Any]]:
        """Follow the pages that ``fetch`` returns, up to ``Limits.pages``, and give the items of each.

        Where pages are kept, one may hold a cursor that the server does not know any more. Then it begins
        anew, once, and leaves out what there was already.

        Raises:
            InvalidResult: A cursor came twice, or there are too many pages. A list is never cut silently.
        """
        cursor: Optional[str] = None
        seen: set[str] = set()
        keeps = self._engine.plan.cache is not None
        given: set[str] = set()
        begins_anew = False
        while True:
            try:
                page = fetch(cursor)
            except InvalidParams:
                if not cursor or begins_anew or not keeps:
                    raise
                cursor, seen, begins_anew = None, set(), True
                continue
            cursor = page.next_cursor
            # Some servers send an empty cursor for "no more".
            if cursor and cursor in seen:
                shown = excerpt(repr(cursor))
                raise InvalidResult(f"the server sent the cursor {shown} twice while listing {items}")
            found = getattr(page, items)
            yield _news(found, given, begins_anew) if keeps else found
            if not cursor:
                return
            seen.add(cursor)
            if len(seen) >= self._limits.pages:
                raise InvalidResult(f"more than {self._limits.pages} pages of {items} (Limits.pages)")


def _news(page: Iterable[Any], given: set[str], begins_anew: bool) -> Iterator[Any]:
    """Iterate over a page, after a new beginning without what was given before; note what is given."""
    for item in page:
        name = _name_of(item)
        if begins_anew and name in given:
            continue
        given.add(name)
        yield item


def _name_of(item: Any) -> str:
    """Return what tells an item of a list from the others; those of extensions are dicts."""
    values = item if isinstance(item, Mapping) else getattr(item, "__dict__", {})
    return str(values.get("uri") or values.get("uri_template") or values.get("name") or item)


def call_options(
    meta: Meta = None,
    cancel: Optional[CancelToken] = None,
    headers: Headers = None,
    progress: Optional[ProgressCallback] = None,
    wants_progress: bool = False,
    cache: str = "use",
) -> CallOptions:
    """Return what goes with one call, checked."""
    has_some = meta is not None or cancel is not None or headers is not None or progress is not None
    if not has_some and not wants_progress and cache == "use":
        return NO_OPTIONS
    if cache not in ("use", "refresh", "bypass"):
        raise UsageError(f'cache must be "use", "refresh" or "bypass", not {cache!r}')
    if cancel is not None:
        check_instance("cancel", cancel, CancelToken)
    check_callback("progress_callback", progress, 3)
    return CallOptions(
        as_dict("meta", meta),
        checked_headers(headers) or {},
        cancel,
        progress,
        wants_progress,
        cache=cache,
    )


def pausing(options: CallOptions, on_input: str) -> CallOptions:
    """Return the options of a call whose input requests are answered, or raised."""
    if on_input == "answer":
        return options
    if on_input != "raise":
        raise UsageError(f'on_input must be "answer" or "raise", not {on_input!r}')
    # Whoever has the requests raised can have a person answer any elicitation. What needs a program
    # (sampling, roots) is declared by its callback, as ever.
    modes = TRAITS[LATEST_MODERN].elicitation_modes
    return options._replace(pause=True, capabilities={"elicitation": {mode: {} for mode in modes}})


def resumable(
    options: CallOptions, token: Optional[str], take: Optional[Callable[[str], None]]
) -> CallOptions:
    """Return the options of a call that can be taken up again, or that takes one up."""
    check_callback("on_resumption_token_update", take, 1)
    if token is not None:
        check_instance("resumption_token", token, str)
        if not token:
            raise UsageError("resumption_token is empty")
    return options._replace(resumption_token=token or "", on_resumption_token=take)


def deadline_of(timeout: TimeoutArgument) -> Deadline:
    """Return the deadline that a timeout sets; ``None`` sets none."""
    check_seconds("timeout", timeout)
    assert timeout is None or isinstance(timeout, (int, float))
    return Deadline(timeout)
