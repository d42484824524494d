"""The extension itself, which a client is given."""

from __future__ import annotations

from ..extensions import Extension, Method

IDENTIFIER = "io.modelcontextprotocol/skills"
LIST = "skills/list"
GET = "skills/get"
READ_DIRECTORY = "resources/directory/read"


class Skills(Extension):
    """Lets a client use the skills of servers (SEP-2640).

    They belong to revision 2026-07-28; servers that declare them in a handshake are taken by their word.

    Example:
        >>> client = Client(url, extensions=[Tasks(), Skills()])
        >>> for skill in client.skills.list(): ...
    """

    identifier = IDENTIFIER
    handshake = True
    methods = (
        Method(LIST, idempotent=True, handshake=True, cacheable=True),
        Method(GET, idempotent=True, handshake=True, cacheable=True),
        Method(READ_DIRECTORY, idempotent=True, handshake=True),
    )
