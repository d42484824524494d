"""A server that is reached over WebSocket (RFC 6455), one JSON-RPC message in each text message.

``target`` is what the user says about it; ``channel`` writes the requests, and ``reader`` reads the answers
and minds the connection; ``handshake`` opens it, through the senders of `_http` with their authorization,
proxies and TLS; ``frames`` builds frames and cuts what was read into messages; ``stream`` is the socket,
which one thread reads and any thread writes.
"""
