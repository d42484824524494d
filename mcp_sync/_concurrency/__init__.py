"""Time, threads and processes: what waits, what wakes it, and what a forked child has to do.

- ``deadline``: the one clock of a public call; ``pending``: one request in flight, and who waits for it;
  ``cancel``: ends a call from another thread; ``bell``: waits for whatever changes;
- ``threads``: the one place where threads are made; ``workers``: threads that run jobs; ``loans``: threads
  beyond a bound; ``expiry``: ends what waits for too long;
- ``locks``: locks in which signal handlers cannot get stuck; ``fork``: tells live objects of a fork;
- ``notes``: log messages of threads that must go on; ``lazy``: names that load when they are used.
"""
