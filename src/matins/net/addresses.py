"""Which addresses may be reached, and which addresses a host in a URL means."""

from __future__ import annotations

import re
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address

# The first network that holds the address gives the reason, so the narrow ones come first.
_FORBIDDEN_V4 = [
    (IPv4Network(network), why)
    for network, why in (
        ("0.0.0.0/32", "the unspecified address"),
        ("0.0.0.0/8", "an address of this network"),
        ("10.0.0.0/8", "a private address"),
        ("100.64.0.0/10", "a shared address behind a carrier's NAT"),
        ("127.0.0.0/8", "a loopback address"),
        ("168.63.129.16/32", "a cloud's own service"),
        ("169.254.169.254/32", "a cloud's metadata service"),
        ("169.254.0.0/16", "a link-local address"),
        ("172.16.0.0/12", "a private address"),
        ("192.0.0.0/24", "a reserved address"),
        ("192.0.2.0/24", "a documentation address"),
        ("192.88.99.0/24", "a 6to4 relay"),
        ("192.168.0.0/16", "a private address"),
        ("198.18.0.0/15", "a benchmarking address"),
        ("198.51.100.0/24", "a documentation address"),
        ("203.0.113.0/24", "a documentation address"),
        ("224.0.0.0/4", "a multicast address"),
        ("255.255.255.255/32", "the broadcast address"),
        ("240.0.0.0/4", "a reserved address"),
    )
]
_FORBIDDEN_V6 = [
    (IPv6Network(network), why)
    for network, why in (
        ("::/128", "the unspecified address"),
        ("::1/128", "a loopback address"),
        ("64:ff9b::/96", "a NAT64 address"),
        ("64:ff9b:1::/48", "a NAT64 address"),
        ("2001::/32", "a Teredo address"),
        ("2001:2::/48", "a benchmarking address"),
        ("2001::/23", "a reserved address"),
        ("2001:db8::/32", "a documentation address"),
        ("2002::/16", "a 6to4 address"),
        ("3fff::/20", "a documentation address"),
        ("fc00::/7", "a private address"),
        ("fe80::/10", "a link-local address"),
        ("fec0::/10", "a site-local address"),
        ("ff00::/8", "a multicast address"),
    )
]
_GLOBAL_V6 = IPv6Network("2000::/3")

_NUMBER = re.compile(r"[0-9]+|0x[0-9a-f]*")
_NAME = re.compile(r"(?=.{1,253}$)[a-z0-9_-]{1,63}(\.[a-z0-9_-]{1,63})*")


def refusal_reason(address: str) -> str | None:
    """Why an IP address may not be reached; None when it may."""
    try:
        parsed = ip_address(address)
    except ValueError:
        return "not an IP address"
    return _refusal_reason_v4(parsed) if isinstance(parsed, IPv4Address) else _refusal_reason_v6(parsed)


def canonical_host(host: str) -> str:
    """The canonical spelling of a host, IPv6 with or without brackets. Raises ValueError for anything but a name or
    a plain address."""
    name = host.lower().removesuffix(".")
    if ":" in name:
        return _canonical_v6(name)
    if _NUMBER.fullmatch(name.rpartition(".")[2]):
        return _canonical_v4(name)
    if not _NAME.fullmatch(name):
        raise ValueError("is not a host name")
    return name


def literal_addresses(host: str) -> list[str]:
    """The addresses of a canonical host that needs no resolver; empty for other hosts."""
    if host == "localhost" or host.endswith(".localhost"):
        return ["127.0.0.1", "::1"]
    is_address = ":" in host or _NUMBER.fullmatch(host.rpartition(".")[2])
    return [host] if is_address else []


def _refusal_reason_v4(address: IPv4Address) -> str | None:
    return next((why for network, why in _FORBIDDEN_V4 if address in network), None)


def _refusal_reason_v6(address: IPv6Address) -> str | None:
    why = next((why for network, why in _FORBIDDEN_V6 if address in network), None)
    if why:
        return why
    inner = address.ipv4_mapped or _compatible(address)
    if inner:
        return _refusal_reason_v4(inner)
    return None if address in _GLOBAL_V6 else "a reserved address"


def _compatible(address: IPv6Address) -> IPv4Address | None:
    """`::a.b.c.d`, the old way to write IPv4 as IPv6."""
    return IPv4Address(int(address)) if int(address) < 2**32 else None


def _canonical_v4(name: str) -> str:
    """The address, written as four plain numbers: resolvers read 127.1 and 0177.0.0.1 in unexpected ways."""
    try:
        return str(IPv4Address(name))
    except ValueError:
        raise ValueError("is a number that is not a plain IPv4 address") from None


def _canonical_v6(name: str) -> str:
    text = name[1:-1] if name.startswith("[") and name.endswith("]") else name
    try:
        address = IPv6Address(text)
    except ValueError:
        raise ValueError("is not an IPv6 address") from None
    if address.scope_id:
        raise ValueError("names a network interface")
    return address.compressed
