"""The extension itself. It holds no application."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Callable, Optional, TypeVar

from flask import Blueprint, Flask

from ...errors import UsageError
from ...registry import Registry
from . import _csrf, _errors
from ._cli import make_group
from ._server import Server
from ._settings import DEFAULTS, PREFIX
from ._state import EXTENSION, AppState, logger, state_of
from ._stores import Loader, Saver
from ._views import make_blueprint

F = TypeVar("F", bound=Callable[..., Any])


class MCP:
    """MCP servers in Flask applications: ``mcp["alias"]`` is a server, for the user of the current request.

    At import and at start nothing is read and nothing opened. Several applications of one process share no
    client. Keys of the configuration, each with ``MCP_`` in front:

    - ``SERVERS``: by alias, as in a configuration file; ``CONFIG_FILE``: such a file; the former count;
    - ``TOKEN_STORE``: where grants are kept, `SQLAlchemyTokenStore` or any store of `mcp_sync.auth`; default:
      what `token_loader` and `token_saver` say, else the memory of the process;
    - ``ENCRYPTION_KEYS``: secrets, the newest first; default: ``SECRET_KEY`` and ``SECRET_KEY_FALLBACKS``;
    - ``DEADLINE``: seconds that all calls of a request have together (20);
    - ``BASE_URL``: where users find the application, if requests do not tell;
    - ``CLIENT_NAME``; ``CLIENT_METADATA``: whether the client is known by its metadata document (``False``);
    - ``INPUT_LIFE``: seconds for which a question can be answered (a week);
    - ``OPTIONS``: further arguments of all clients; ``ERROR_HANDLERS``: whether errors get pages (``True``).

    Args:
        app: An application, for which `init_app` is called.
    """

    def __init__(self, app: Optional[Flask] = None) -> None:
        self._principal: Optional[Callable[[], Any]] = None
        self._load: Optional[Loader] = None
        self._save: Optional[Saver] = None
        self.blueprint: Blueprint = make_blueprint()
        if app is not None:
            self.init_app(app)

    def init_app(self, app: Flask) -> None:
        """Have an application know MCP. Reads and opens nothing."""
        state = AppState(app.config, self)
        for key, value in DEFAULTS.items():
            app.config.setdefault(PREFIX + key, value)
        app.extensions[EXTENSION] = state
        app.jinja_env.globals.setdefault("mcp_csrf_field", _csrf.field)
        app.cli.add_command(make_group())
        if state.settings.get("ERROR_HANDLERS"):
            _errors.register(app)
        for warning in state.settings.unknown():
            logger.warning("%s", warning)

    def __getitem__(self, alias: str) -> Server:
        """Return a server of the current application.

        Raises:
            ConfigError: There is no such alias: the known ones are listed.
        """
        state = state_of()
        if alias not in state.faked:
            state.entry(alias)
        return Server(state, alias)

    def registry(self, app: Optional[Flask] = None) -> Registry:
        """Return the clients of an application, by default of the current one; see `Registry`."""
        return state_of(app).registry

    def client_for(self, alias: str, user: Optional[str] = None) -> Any:
        """Return the client of a server outside of requests: for a user, or the one that all share.

        For `mcp_sync.contrib.celery.use_servers`, which bounds its calls. Needs an application context.
        """
        server = self[alias]
        return server.client if user is None else server.for_user(user).client

    @staticmethod
    def csrf_field() -> Any:
        """Return the field for forms that are posted to the views; ``mcp_csrf_field()`` in templates."""
        return _csrf.field()

    # --- hooks -------------------------------------------------------------------------------------------

    def principal_getter(self, function: F) -> F:
        """Decorate the function that says who uses the application: a key, or ``None`` for nobody.

        Grants, cached answers and questions belong to this key. Without it each browser session is a user.
        """
        self._principal = function
        return function

    def token_loader(self, function: F) -> F:
        """Decorate ``load(key)``, which returns the text that is kept under a key by now, or ``None``."""
        self._load = function
        return function

    def token_saver(self, function: F) -> F:
        """Decorate ``save(key, text, old)``, which replaces ``old`` by ``text``; ``None`` is no text.

        It returns ``False`` if another text was there than ``old``, and commits what it has written, whatever
        becomes of the request. Texts are encrypted.
        """
        self._save = function
        return function

    # --- tests -------------------------------------------------------------------------------------------

    @contextmanager
    def use_fake(self, servers: Mapping[str, Any], app: Optional[Flask] = None) -> Iterator[None]:
        """Have fakes in the place of servers while the block runs; nobody has to log in to them.

        Args:
            servers: By alias: a `FakeServer`, or anything that a `Registry` takes.
            app: The application, by default the current one.
        """
        if not isinstance(servers, Mapping):
            raise UsageError("use_fake needs a mapping of aliases to servers")
        state = state_of(app)
        with state.registry.override(servers):
            state.faked.update(list(servers))
            try:
                yield
            finally:
                state.faked.subtract(list(servers))
                state.faked += type(state.faked)()
