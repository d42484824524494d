"""Every exception that this library raises on its own account.

::

    MCPError
    |- UsageError                ClientClosed, NotSupported, Forked
    |  |- EnvelopeRejected       .reason: what was kept of a call cannot be resumed
    |  |- AnswerInvalid          .key .faults: what is wrong with an answer, field by field
    |  |- InvalidHandle          .reason: what was kept of a task does not fit this client
    |  `- FolderRefused          .path: a skill or a result cannot be written there
    |- TransportError            .request_sent: could the server have acted?
    |  |- ConnectFailed          spawn, DNS, TLS, refused
    |  |- ConnectionLost         stream ended, process exited
    |  |- HTTPStatusError        .status .headers .body_excerpt .retry_after
    |  |- SessionExpired
    |  `- MessageTooLarge        .limit
    |- CallTimeout               also a TimeoutError
    |- CallCancelled
    |- ProtocolError             the peer broke the rules
    |  |- InvalidMessage  InvalidResult  UnsafeURL
    |  |- NegotiationFailed      .client_versions .server_versions
    |  |- InputRoundsExceeded
    |  |- SkillRejected          .uri .path .reason: what the server sends of a skill is not to be used
    |  |  `- DigestMismatch      .expected .actual: a file is not the one that was described
    |  `- AppRejected            .uri .reason: the page of an app is not to be shown
    |- RemoteError               a JSON-RPC error: .code .message .data
    |  |- ParseError InvalidRequest MethodNotFound InvalidParams InternalError
    |  |- HeaderMismatch UnsupportedProtocolVersion MissingClientCapability
    |  |- UrlElicitationRequired ResourceNotFound
    |  `- TaskGone               .task_id: the server has forgotten the task
    |- InputRequired             the call was asked to pause for input: .requests .to_json()
    |- ToolFailed                only with ``raise_on_error=True`` or ``result_type``
    |- OutputInvalid             only with ``validation="strict"`` or ``result_type``
    `- AuthError                 raised by the authorization hooks: .url .transient
       |- AuthorizationRequired  AccessDenied  RegistrationFailed
       |- TokenRequestFailed     .error .status
       `- IssuerMismatch         InsufficientScope (.scopes)

All of them can be pickled. A message names method and peer where there are any, never a secret.
"""

from __future__ import annotations

from ._auth import (
    AccessDenied,
    AuthError,
    AuthorizationRequired,
    InsufficientScope,
    IssuerMismatch,
    RegistrationFailed,
    TokenRequestFailed,
)
from ._base import (
    CallCancelled,
    CallTimeout,
    ClientClosed,
    Forked,
    MCPError,
    NotSupported,
    UsageError,
    another,
    unsent,
)
from ._extensions import AppRejected, DigestMismatch, FolderRefused, InvalidHandle, SkillRejected, TaskGone
from ._input import AnswerInvalid, EnvelopeRejected, InputRequired, UnsafeURL
from ._protocol import (
    InputRoundsExceeded,
    InvalidMessage,
    InvalidResult,
    NegotiationFailed,
    OutputInvalid,
    ProtocolError,
    ToolFailed,
)
from ._remote import (
    HeaderMismatch,
    InternalError,
    InvalidParams,
    InvalidRequest,
    MethodNotFound,
    MissingClientCapability,
    ParseError,
    RemoteError,
    ResourceNotFound,
    UnsupportedProtocolVersion,
    UrlElicitationRequired,
    remote_error,
)
from ._transport import (
    ConnectFailed,
    ConnectionLost,
    HTTPStatusError,
    MessageTooLarge,
    SessionExpired,
    TransportError,
)

__all__ = [
    "AccessDenied",
    "AnswerInvalid",
    "AppRejected",
    "AuthError",
    "AuthorizationRequired",
    "CallCancelled",
    "CallTimeout",
    "ClientClosed",
    "ConnectFailed",
    "ConnectionLost",
    "DigestMismatch",
    "EnvelopeRejected",
    "FolderRefused",
    "Forked",
    "HTTPStatusError",
    "HeaderMismatch",
    "InputRequired",
    "InputRoundsExceeded",
    "InsufficientScope",
    "InternalError",
    "InvalidHandle",
    "InvalidMessage",
    "InvalidParams",
    "InvalidRequest",
    "InvalidResult",
    "IssuerMismatch",
    "MCPError",
    "MessageTooLarge",
    "MethodNotFound",
    "MissingClientCapability",
    "NegotiationFailed",
    "NotSupported",
    "OutputInvalid",
    "ParseError",
    "ProtocolError",
    "RegistrationFailed",
    "RemoteError",
    "ResourceNotFound",
    "SessionExpired",
    "SkillRejected",
    "TaskGone",
    "TokenRequestFailed",
    "ToolFailed",
    "TransportError",
    "UnsafeURL",
    "UnsupportedProtocolVersion",
    "UrlElicitationRequired",
    "UsageError",
    "another",
    "remote_error",
    "unsent",
]

# Where a class is defined is nobody's business: it is shown, and pickled, by its public name.
for _name in __all__:
    globals()[_name].__module__ = __name__
