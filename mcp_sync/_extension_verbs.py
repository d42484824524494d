"""The verbs for extensions that come with the library. What does their work loads when they are used."""

from __future__ import annotations

from typing import TYPE_CHECKING, Optional, Union

from ._concurrency.cancel import CancelToken
from ._concurrency.fork import no_fork
from ._tool_verbs import ToolVerbs
from .options import UNSET, TimeoutArgument

if TYPE_CHECKING:
    from . import types
    from .apps import App
    from .skills import ServerSkills


class ExtensionVerbs(ToolVerbs):
    """What `ClientSession` documents, as far as it concerns skills and apps."""

    @property
    def skills(self) -> ServerSkills:
        """The skills of the server, to be listed, read and downloaded; see `mcp_sync.skills`.

        Raises:
            UsageError: The client was not given the extension `mcp_sync.skills.Skills`.
        """
        with no_fork():
            from .skills import skills_of
        return skills_of(self)

    def app(
        self,
        app: Union[str, types.Tool],
        *,
        timeout: TimeoutArgument = UNSET,
        cancel: Optional[CancelToken] = None,
    ) -> App:
        """Read the page of an app, with what it may be allowed; see `mcp_sync.apps`.

        Args:
            app: Its URI (``ui://...``), or a tool that needs it.
            timeout: See the class.
            cancel: See the class.

        Raises:
            AppRejected: It is no page of an app, or asks for what cannot be allowed.
            UsageError: That is no URI of an app, or no tool that needs one.
        """
        with no_fork():
            from .apps import read_app
        return read_app(self, app, timeout=timeout, cancel=cancel)
