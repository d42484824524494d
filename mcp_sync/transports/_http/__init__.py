"""Streamable HTTP.

A call goes through three modules, there and back:

- ``channel``: what the engine sees. It posts a request, and reads the response until the call is settled;
- ``endpoint``: the POST, GET and DELETE of the protocol, with the headers of session and revision;
- ``senders``: what every request needs beside them: URL, headers of the user, authorization, cookies,
  redirects; through our adapter, or through a session of the user.

Beside them:

- ``target``: what the user says about the server;
- ``responses``: what a response means: its messages are passed on, its refusal is raised;
- ``reply``: a response whose body is read as it comes (``user_session``: through a session of the user), and
  decompressed (``inflating``);
- ``redirects``: which of them are followed;
- ``streams``: GET streams, the standalone one and those taken up again;
- ``exchange``: the deadline of a request, and how another thread ends it;
- ``errors``: what the libraries below raise, in our terms;
- ``adapter``: the `requests` adapter that sends, a package of its own.
"""
