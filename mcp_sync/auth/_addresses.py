"""Which addresses an authorization server may have: what an MCP server names must not lead into this network.

Whoever runs an MCP server chooses the URLs that are asked on its behalf. Without a guard it could have this
process send requests to machines that only this process can reach (server-side request forgery).
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable
from typing import Optional, Union
from urllib.parse import urlsplit

from .._protocol.urls import is_loopback

Address = Union[ipaddress.IPv4Address, ipaddress.IPv6Address]

# What is not for everybody, whatever the version of Python says: shared (RFC 6598), for protocols (RFC 6890),
# relays (RFC 7526), documentation (RFC 3849, RFC 9637). Teredo (RFC 4380) is among 2001::/23.
_SPECIAL = tuple(
    ipaddress.ip_network(text)
    for text in (
        "100.64.0.0/10",
        "192.0.0.0/24",
        "192.88.99.0/24",
        "2001::/23",
        "2001:db8::/32",
        "3fff::/20",
    )
)
# All other addresses of IPv6 are those of machines or of networks that are not the internet (RFC 4291, 2.4).
_GLOBAL = ipaddress.ip_network("2000::/3")
# Prefixes of IPv6 behind which there is an address of IPv4 (RFC 4291, RFC 2765, RFC 6052), and that of local
# translators (RFC 8215), where it may be at two places.
_WITH_IPV4 = tuple(map(ipaddress.ip_network, ("::/96", "::ffff:0:0/96", "::ffff:0:0:0/96", "64:ff9b::/96")))
_LOCAL_NAT64 = ipaddress.ip_network("64:ff9b:1::/48")
_NO_HOST = ipaddress.ip_network("0.0.0.0/8")
_ISATAP = (0x00005EFE, 0x02005EFE)  # RFC 5214, section 6.1
# AWS, Google, Scaleway; Alibaba, Oracle and Azure, whose addresses look like any other.
_METADATA = frozenset(
    {"fd00:ec2::254", "fd20:ce::254", "fd00:42::42", "100.100.100.200", "192.0.0.192", "168.63.129.16"}
)
_METADATA_NAMES = frozenset({"metadata", "metadata.google.internal", "metadata.goog", "instance-data"})
_PRIVATE_ENDINGS = (
    *(".internal", ".local", ".localdomain", ".lan", ".home", ".home.arpa", ".intranet", ".corp"),
    *(".private", ".svc"),
)


class Guard:
    """Decides where requests may go.

    Args:
        server: The URL of the MCP server. It is trusted with itself, and where it is on this machine, all
            that is on this machine may be asked.
        trusted: More URLs that the user has given: their hosts may have any address.
        allow_private: Whether private addresses may be asked. Those of metadata services never may.
    """

    def __init__(self, server: str = "", trusted: Iterable[str] = (), allow_private: bool = False) -> None:
        self._trusted = {_place(url) for url in (server, *trusted) if url}
        self._allow_private = allow_private
        self._allow_loopback = allow_private or is_loopback(urlsplit(server).hostname)

    def trusts(self, url: str) -> bool:
        """Whether the user has named the host of a URL."""
        try:
            return _place(url) in self._trusted
        except ValueError:
            return False  # It is no URL.

    def objection(self, host: str, port: Optional[int], address: str) -> str:
        """Say why an address may not be connected to, ``""`` if it may.

        Args:
            host: The host that has this address.
            port: The port.
            address: The address, as the system has resolved it.
        """
        if (host.lower().rstrip("."), port) in self._trusted:
            return ""
        try:
            found = _meant(ipaddress.ip_address(address.partition("%")[0]))
        except ValueError:
            return "it is no address"
        return next(filter(None, map(self._objection_to, found)), "")

    def _objection_to(self, found: Address) -> str:
        if str(found) in _METADATA or found.is_link_local:
            return "that is where metadata services are"
        if found.is_unspecified or found.is_multicast:
            return "that is no address of a server"
        if found.is_loopback:
            return "" if self._allow_loopback else "that is this machine"
        if _is_global(found) or self._allow_private:
            return ""
        return "that is a private address"

    def objection_to_name(self, host: str, port: Optional[int]) -> str:
        """Say why a host may not be asked, as far as its name tells: for those that a proxy resolves."""
        name = host.lower().rstrip(".")
        if (name, port) in self._trusted:
            return ""
        if name in _METADATA_NAMES:
            return "that is a metadata service"
        if _is_literal(name):
            return self.objection(host, port, name)
        if is_loopback(name):
            return "" if self._allow_loopback else "that is this machine"
        is_private = "." not in name or name.endswith(_PRIVATE_ENDINGS)
        return "that is a private name" if is_private and not self._allow_private else ""


def _place(url: str) -> tuple[str, Optional[int]]:
    parts = urlsplit(url)
    default = {"http": 80, "https": 443}.get(parts.scheme.lower())
    return (parts.hostname or "").rstrip("."), parts.port or default


def _is_literal(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        # Other spellings of IPv4, which some resolvers take: 127.1, 0x7f000001, 2130706433.
        last = name.rpartition(".")[2]
        return last.isdigit() or last.startswith("0x")
    return True


def _is_global(address: Address) -> bool:
    if isinstance(address, ipaddress.IPv6Address) and address not in _GLOBAL:
        return False
    return address.is_global and not any(address in network for network in _SPECIAL)


def _meant(address: Address) -> list[Address]:
    """Return where packets for an address may arrive: at the one of IPv4 in it, or at both."""
    if isinstance(address, ipaddress.IPv4Address):
        return [address]
    bits = int(address)
    last = ipaddress.IPv4Address(bits & 0xFFFFFFFF)
    if address.sixtofour is not None:
        return [address.sixtofour]
    if any(address in network for network in _WITH_IPV4) and bits > 1:
        return [last]
    if address.teredo is not None:
        return [address, *address.teredo]
    if address in _LOCAL_NAT64:
        middle = ipaddress.IPv4Address((bits >> 64 & 0xFFFF) << 16 | bits >> 40 & 0xFFFF)
        return [address, *(each for each in (last, middle) if each not in _NO_HOST)]
    return [address, last] if bits >> 32 & 0xFFFFFFFF in _ISATAP else [address]
