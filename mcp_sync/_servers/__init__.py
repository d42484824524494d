"""What groups, registries and configurations share.

- ``shelf``: servers by name, and their clients;
- ``making``: a client of whatever names a server;
- ``filtered``: a client that offers and calls some of the tools only;
- ``status``: what there is to say of a server, without asking it;
- ``together``: the same with many servers at once.
"""
