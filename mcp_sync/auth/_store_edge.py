"""The edge to a store, which may be somebody else's: what it raises becomes an error of ours."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Optional

from .._concurrency.deadline import Deadline
from ..errors import AuthError, MCPError
from ._records import Key
from ._store import Store, Stored


class StoreEdge:
    """A store as it is, but for the errors that it does not know of.

    An error of a database driver would count as one of the connection to the MCP server, and its text may
    hold a password. So the message names its type alone; the error itself is the cause.

    Args:
        store: The store.

    Raises:
        AuthError: From every method: the store has failed.
    """

    def __init__(self, store: Store) -> None:
        self._store = store

    def get(self, key: Key) -> Optional[Stored]:
        """See `Store.get`."""
        try:
            return self._store.get(key)
        except MCPError:
            raise
        except Exception as error:
            raise self._failed(error) from error

    def put(self, key: Key, value: Optional[Mapping[str, Any]], expected: Optional[str]) -> bool:
        """See `Store.put`."""
        try:
            return self._store.put(key, value, expected)
        except MCPError:
            raise
        except Exception as error:
            raise self._failed(error) from error

    @contextmanager
    def lock(self, key: Key, deadline: Deadline) -> Iterator[None]:
        """See `Store.lock`."""
        of_the_block: Optional[BaseException] = None
        try:
            with self._store.lock(key, deadline):
                try:
                    yield
                except BaseException as error:
                    of_the_block = error
                    raise
        except MCPError:
            raise
        except Exception as error:
            if error is of_the_block:
                raise
            raise self._failed(error) from error
        finally:
            of_the_block = None  # A frame that knows its own error is a circle.

    def _failed(self, error: Exception) -> AuthError:
        return AuthError(f"the store {type(self._store).__name__} failed: {type(error).__name__}")
