"""What a request finds out about its user's grant, in one query."""

from __future__ import annotations

from typing import Any, Optional

from ...auth._records import Grant, ServerRecord
from ...auth._store import Stored
from ...auth._vault import Kept, Vault
from ...errors import MCPError
from .stores import ModelTokenStore


class OneQueryVault(Vault):
    """A vault that asks a `ModelTokenStore` for both records that lead to a grant at once; others one by one.

    Where a grant is kept follows from the record of its server. It has not changed, mostly: so both are asked
    for as they were named the last time, and the answer counts if the name was right.
    """

    def grant(self, server: str) -> Optional[Kept]:
        """See `Vault.grant`."""
        store = self.store._store
        if not isinstance(store, ModelTokenStore):
            return super().grant(server)
        key = self._server_key(server)
        try:
            record, guessed, grant = store.get_both(key)
        except MCPError:
            raise
        except Exception as error:
            raise self.store._failed(error) from error
        found = self._understood(ServerRecord, key, record) if record is not None else None
        if found is None:
            return None
        grant_key = self._grant_key(server, found.issuer, found.resource)
        if guessed != grant_key:
            store.guess(key, grant_key)
            return self.grant_under(grant_key)
        return self._kept(grant_key, grant)

    def _kept(self, key: Any, stored: Optional[Stored]) -> Optional[Kept]:
        grant = self._understood(Grant, key, stored) if stored is not None else None
        return None if grant is None or stored is None else Kept(grant, stored.version)
