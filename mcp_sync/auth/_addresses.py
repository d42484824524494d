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

# Carrier-grade NAT (RFC 6598) is neither private nor global.
_SHARED = ipaddress.ip_network("100.64.0.0/10")
# IPv6 addresses in whose end or middle there is one of IPv4 (RFC 6052, RFC 8215, RFC 3056, RFC 4291).
_NAT64 = (ipaddress.ip_network("64:ff9b::/96"), ipaddress.ip_network("64:ff9b:1::/48"))
_COMPATIBLE = ipaddress.ip_network("::/96")
# Alibaba's and Oracle's metadata services are at addresses that look like any other.
_METADATA = frozenset({"100.100.100.200", "192.0.0.192", "fd00:ec2::254", "fd20:ce::254"})
_METADATA_NAMES = frozenset({"metadata", "metadata.google.internal", "metadata.goog", "instance-data"})
_PRIVATE_ENDINGS = (".internal", ".local", ".localdomain", ".lan", ".home.arpa", ".intranet", ".corp")


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
            found = _unwrapped(ipaddress.ip_address(address.partition("%")[0]))
        except ValueError:
            return "it is no address"
        if str(found) in _METADATA or found.is_link_local:
            return "that is where metadata services are"
        if found.is_unspecified or found.is_multicast:
            return "that is no address of a server"
        if found.is_loopback:
            return "" if self._allow_loopback else "that is this machine"
        if found.is_global and found not in _SHARED:
            return ""
        return "" if self._allow_private else "that is a private address"

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


def _unwrapped(address: Address) -> Address:
    """Return the address of IPv4 that one of IPv6 stands for, or the address itself."""
    if isinstance(address, ipaddress.IPv4Address):
        return address
    if address.ipv4_mapped is not None:
        return address.ipv4_mapped
    if address.sixtofour is not None:
        return address.sixtofour
    if any(address in network for network in _NAT64) or (address in _COMPATIBLE and int(address) > 1):
        return ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
    return address
