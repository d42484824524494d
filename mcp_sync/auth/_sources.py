"""Where a token of the user comes from: a text, or a function, a file or a variable that has it."""

from __future__ import annotations

import os
import re
from typing import Any, Callable, Union

from .._arguments import check_callback, check_instance
from ..errors import AuthError, MCPError, UsageError
from ._settings import as_path

# Of all ways to look at every character the fastest: tokens are long, and looked at before each request.
_VISIBLE = re.compile("[!-~]+")

TokenSource = Union[str, Callable[[], str]]


def check_source(name: str, source: Any) -> None:
    """Refuse what can give no token.

    Args:
        name: What it is called in an error.

    Raises:
        UsageError: It is neither a token nor a function.
    """
    if isinstance(source, str):
        check_token(name, source)
    elif source is None:
        raise UsageError(f"{name} must be a string, or a function that returns one")
    else:
        check_callback(name, source)


def read_source(name: str, source: TokenSource) -> str:
    """Return the token that a source has now.

    Raises:
        AuthError: The function failed; what it raised is the cause.
        UsageError: What it returned is no token.
    """
    if isinstance(source, str):
        return source
    try:
        token = source()
    except MCPError:
        raise
    except Exception as error:
        raise AuthError(f"{name} could not be had: {type(error).__name__}") from error
    check_token(name, token)
    return token


def check_token(name: str, token: Any) -> None:
    """Refuse what cannot be sent in a header. Says nothing of what it holds.

    Raises:
        UsageError: It is no string of visible ASCII characters.
    """
    if not isinstance(token, str):
        raise UsageError(f"{name} must be a string, not {type(token).__name__}")
    if not token:
        raise UsageError(f"{name} is empty")
    if not _VISIBLE.fullmatch(token):
        raise UsageError(f"{name} holds white space, a control character, or one that is not ASCII")


class TokenFile:
    """Reads a token from a file, anew each time, because whoever put it there replaces it."""

    def __init__(self, path: Union[str, os.PathLike[str]]) -> None:
        self.path = str(as_path("path", path))

    def __call__(self) -> str:
        """Return what the file holds now, without white space around it.

        Raises:
            AuthError: It cannot be read.
        """
        try:
            with open(self.path, encoding="ascii") as file:
                return file.read().strip()
        except (OSError, ValueError) as error:
            why = error.strerror if isinstance(error, OSError) else "it is no ASCII text"
            raise AuthError(f"the token file {self.path} cannot be read: {why}") from None

    def __repr__(self) -> str:
        return f"TokenFile({self.path!r})"


class TokenVariable:
    """Reads a token from an environment variable, anew each time."""

    def __init__(self, name: str) -> None:
        check_instance("name", name, str)
        self.name = name

    def __call__(self) -> str:
        """Return what the variable holds now, without white space around it.

        Raises:
            AuthError: It is not set, or empty.
        """
        value = os.environ.get(self.name, "").strip()
        if not value:
            raise AuthError(f"the environment variable {self.name} holds no token")
        return value

    def __repr__(self) -> str:
        return f"TokenVariable({self.name!r})"
