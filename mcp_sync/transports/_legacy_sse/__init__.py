"""HTTP with SSE, the transport over HTTP of revision 2024-11-05.

The server sends everything on one event stream, which a GET opens and a thread of the channel reads. Its
first event names the URL that messages are sent to, each with a POST of the thread that has it.

- ``target``: what the user says about the server;
- ``channel``: what the engine sees. It posts messages; requests are answered on the stream;
- ``stream``: the event stream, and the thread that reads it.

How requests are sent (authorization, cookies, redirects, TLS, proxies) is that of `_http`.
"""
