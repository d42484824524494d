"""What makes the calls of one client.

A call goes through these, from above to below, and back:

- ``engine``: makes a call: takes a connection, has the request sent (again, where that is safe), goes from
  results that are not final to the one that is;
- ``lifecycle``: has a connection for it: opens, opens anew, closes; ``opening``: the negotiation on a new
  one; ``known_servers``: what came of earlier ones;
- ``connection``: sends the request on one live channel, and brings the call its answer; ``call_table``: the
  calls in flight there; ``call_options``: what was said of a call.

What else comes in on a connection:

- ``unasked``: has the calls that it concerns take note; ``router``: takes it to the callbacks; ``answers``:
  what they answer to the server; ``outbox``: sends that, and other small messages; ``progress``: that of one
  call, in order, before it returns;
- ``watchers``: who wants to know what becomes of the connection; ``oddities``: what came and fits no call.

Calls that are more than a request and its answer:

- ``interim``: a result of an extension's kind (``extensions``) is gone on from; ``pausing``: input is asked
  for, and the call goes on elsewhere; ``visits``: the user has to see a page first; ``resumption``: the
  stream of the response broke;
- ``listener``: keeps a subscription open, ``listening``: in one of two ways, ``feed``: its events on their
  way, ``subscribed``: what a session is subscribed to;
- ``cache``: keeps answers: ``cache_keys`` under what, ``cache_entry`` as what, ``cache_shelf`` in which
  store; ``flights``: one request for many who want the same;
- ``tools``: what was learned of tools that were listed; ``observing``: tells an observer; ``waits``: how a
  caller waits for something else than an answer.

How it is put together:

- ``assembly``: from what the user has said, which is the ``plan``; ``credentials``: for whom it asks;
- ``views``: engines for the users of ``Client.for_principal``; ``leaving``: the sessions of those forgotten.
"""
