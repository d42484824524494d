"""Authorization of clients: anything here is an ``auth=`` of `Client`, and of requests.

Which one:

- a person at this machine logs in: `OAuth`, with `LoopbackBrowser` (the default), `PasteBack`, or an
  `Interaction` of your own;
- a user of a web application logs in: `OAuth` with ``redirect_uri``; `OAuth.begin`, `OAuth.finish`, `Flow`;
- a person logs in with any browser, by a code: `DeviceCode`;
- the application itself logs in: `ClientCredentials`;
- the platform vouches for the workload: `WorkloadIdentity`;
- the identity provider of an enterprise vouches for its users: `EnterpriseManaged`;
- a token that you have: `BearerToken`.

Where grants are kept: `MemoryStore`, `FileStore`, `SQLiteStore`, `KeyringStore`, or a `Store` of your own.
What is kept is a `Grant`; what is there, without asking anybody, a `Status`. A store of your own takes a
`Key`, returns a `Stored`, and waits for a lock until a `Deadline`. What waits for a user is a `Flow` with its
`Pending`. An interaction of your own gives an `Asking`.

How it is made, from above to below:

- ``_oauth``, ``_machine``, ``_enterprise``, ``_device``: the ways to a grant; ``_flow``: one in two steps;
  ``_bearer``: a token that the user has; ``_sources``: where it comes from; ``_settings``: what may be set;
- ``_hook``: the hook of requests that they share; ``_attempt``: what comes after a refusal; ``_decisions``:
  what to do about it (pure); ``_resending``, ``_proofs``: how a request is sent again;
- ``_access``: what a request to one server needs, got by one thread (``_turn``) and one process at a time;
  ``_work``: what is done to its end, whoever waits; ``_under_way``: what the end of a process waits for;
  ``_grant_in_use``, ``_current``: the grant; ``_authority``: the authorization server; ``_login``: a login
  that is to be done; ``_status``: what there is;
- ``_interaction``, ``_callback_server``, ``_paste_back``: how a person is asked;
- ``_fetching``, ``_addresses``, ``_errand``: how authorization servers are asked, where they may be, how
  long it takes;
- ``_discovery``, ``_registration``, ``_code_flow``, ``_granted``, ``_token_request``: the conversations,
  which are generators without I/O; ``_steps``, ``_challenge``, ``_rules``, ``_answers``, ``_pkce``: what
  they rest on;
- ``_signing``, ``_dpop``: signatures; the libraries for them load with the first one;
- ``_vault``, ``_records``, ``_reading``: what is kept, and how it is read; ``_news``: that it has
  changed; ``_store``, ``_file_store``, ``_sqlite_store``, ``_keyring_store``: where; ``_store_edge``: what
  becomes of their errors; ``_locks``, ``_private_files``: what those rest on.

Names load when they are used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .._concurrency.lazy import lazy

if TYPE_CHECKING:
    from .._concurrency.deadline import Deadline
    from ._bearer import BearerToken
    from ._device import DeviceCode, DevicePrompt
    from ._enterprise import EnterpriseManaged
    from ._file_store import FileStore
    from ._flow import Flow
    from ._interaction import Asking, Interaction, LoopbackBrowser
    from ._keyring_store import KeyringStore
    from ._machine import ClientCredentials, WorkloadIdentity
    from ._oauth import OAuth
    from ._paste_back import PasteBack
    from ._records import Grant, Key, Pending
    from ._sqlite_store import SQLiteStore
    from ._status import Status
    from ._store import MemoryStore, Store, Stored

__all__ = [
    "Asking",
    "BearerToken",
    "ClientCredentials",
    "Deadline",
    "DeviceCode",
    "DevicePrompt",
    "EnterpriseManaged",
    "FileStore",
    "Flow",
    "Grant",
    "Interaction",
    "Key",
    "KeyringStore",
    "LoopbackBrowser",
    "MemoryStore",
    "OAuth",
    "PasteBack",
    "Pending",
    "SQLiteStore",
    "Status",
    "Store",
    "Stored",
    "WorkloadIdentity",
]

_HOMES = {
    "Asking": "_interaction",
    "BearerToken": "_bearer",
    "ClientCredentials": "_machine",
    "Deadline": "._concurrency.deadline",
    "DeviceCode": "_device",
    "DevicePrompt": "_device",
    "EnterpriseManaged": "_enterprise",
    "FileStore": "_file_store",
    "Flow": "_flow",
    "Grant": "_records",
    "Interaction": "_interaction",
    "Key": "_records",
    "KeyringStore": "_keyring_store",
    "LoopbackBrowser": "_interaction",
    "MemoryStore": "_store",
    "OAuth": "_oauth",
    "PasteBack": "_paste_back",
    "Pending": "_records",
    "SQLiteStore": "_sqlite_store",
    "Status": "_status",
    "Store": "_store",
    "Stored": "_store",
    "WorkloadIdentity": "_machine",
}

__getattr__, __dir__ = lazy(__name__, _HOMES)
