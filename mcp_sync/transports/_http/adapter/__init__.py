"""A `requests` adapter that does without repeated work, and keeps the bounds of an exchange.

From above to below: ``adapter`` finds the pool and writes the request as bytes; ``pool`` keeps the idle
connections of one server (``socks``: through a SOCKS proxy); ``connection`` connects, sends and reads;
``timed_socket`` is each single wait for the system's socket; ``response`` is the head that comes back, and
the `requests.Response` made of it.
"""
