"""Which addresses may be reached, and what a host stands for."""

import ipaddress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from matins.net.outbound import canonical_host, literal_addresses, refusal_reason

REFUSED = {
    "0.0.0.0": "unspecified",
    "0.1.2.3": "this network",
    "10.0.0.1": "private",
    "100.64.0.1": "carrier",
    "100.100.100.200": "carrier",
    "100.127.255.255": "carrier",
    "127.0.0.1": "loopback",
    "127.255.255.255": "loopback",
    "168.63.129.16": "cloud",
    "169.254.1.1": "link-local",
    "169.254.169.254": "metadata",
    "172.16.0.1": "private",
    "172.31.255.255": "private",
    "192.0.0.192": "reserved",
    "192.0.2.1": "documentation",
    "192.88.99.1": "6to4",
    "192.168.1.1": "private",
    "198.18.0.1": "benchmarking",
    "198.19.255.255": "benchmarking",
    "198.51.100.7": "documentation",
    "203.0.113.7": "documentation",
    "224.0.0.1": "multicast",
    "239.255.255.255": "multicast",
    "240.0.0.1": "reserved",
    "255.255.255.255": "broadcast",
    "::": "unspecified",
    "::1": "loopback",
    "::ffff:127.0.0.1": "loopback",
    "::ffff:a9fe:a9fe": "metadata",
    "::ffff:10.1.2.3": "private",
    "::127.0.0.1": "loopback",
    "::169.254.169.254": "metadata",
    "::ffff:0:127.0.0.1": "reserved",
    "64:ff9b::7f00:1": "NAT64",
    "64:ff9b::8.8.8.8": "NAT64",
    "64:ff9b:1::1": "NAT64",
    "64:ff9b:1:ffff::a00:1": "NAT64",
    "100::1": "reserved",
    "2001::1": "Teredo",
    "2001:2::1": "benchmarking",
    "2001:20::1": "reserved",
    "2001:db8::1": "documentation",
    "2002:7f00:1::": "6to4",
    "3fff::1": "documentation",
    "5f00::1": "reserved",
    "fc00::1": "private",
    "fd00:ec2::254": "private",
    "fe80::1": "link-local",
    "fe80::1%eth0": "link-local",
    "fec0::1": "site-local",
    "ff02::1": "multicast",
    "4000::1": "reserved",
}
REACHED = [
    "1.1.1.1",
    "8.8.8.8",
    "93.184.216.34",
    "100.63.255.255",
    "100.128.0.1",
    "172.15.255.255",
    "172.32.0.1",
    "192.0.1.1",
    "198.17.255.255",
    "198.20.0.1",
    "223.255.255.255",
    "2606:4700::1111",
    "2a00:1450:4001::200e",
    "2001:4860:4860::8888",
    "::ffff:8.8.8.8",
    "::8.8.8.8",
]
ODD_NUMBERS = [
    "2130706433",
    "0x7f000001",
    "0x7F.1",
    "0x7f.0.0.1",
    "0177.0.0.1",
    "017700000001",
    "127.1",
    "127.0.1",
    "127.0.0.01",
    "127.0.0.0x1",
    "127.0.0.1.1",
    "127.0.0.256",
    "1",
    "0",
    "0x",
    "evil.example.0x7f",
    "٣٢٫1",
]


@pytest.mark.parametrize(("address", "why"), REFUSED.items())
def test_addresses_inside_are_refused_with_the_reason(address: str, why: str) -> None:
    assert why in (refusal_reason(address) or "")


@pytest.mark.parametrize("address", REACHED)
def test_public_addresses_are_reached(address: str) -> None:
    assert refusal_reason(address) is None


@pytest.mark.parametrize("text", ["", "localhost", "example.com", *ODD_NUMBERS])
def test_what_is_not_a_plain_address_is_refused(text: str) -> None:
    assert refusal_reason(text) == "not an IP address"


@given(st.ip_addresses(v=4) | st.ip_addresses(v=6).filter(lambda address: int(address) >= 2**48))
def test_nothing_that_python_calls_private_is_reached(address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> None:
    """A second opinion: ours may only be the stricter one."""
    if address.is_private or address.is_multicast or address.is_reserved or address.is_link_local:
        assert refusal_reason(str(address))


@given(st.ip_addresses(v=4))
def test_mapped_and_compatible_are_judged_by_the_address_inside(inner: ipaddress.IPv4Address) -> None:
    mapped = refusal_reason(f"::ffff:{inner}")
    assert mapped == refusal_reason(str(inner))
    assert bool(refusal_reason(f"::{inner}")) == bool(mapped)


@pytest.mark.parametrize("host", ODD_NUMBERS)
def test_numbers_in_odd_spellings_are_no_hosts(host: str) -> None:
    with pytest.raises(ValueError, match="is "):
        canonical_host(host)


NO_NAMES = ["", ".", "a..b", "-" * 64, "a" * 300, "a b", "a/b", "*.example.com", "ex%61mple.com", "bücher.example"]
TOO_LONG = ".".join(["a" * 60] * 5)
NO_IPV6 = ["[::1", "::1]", "[]", "[::g]", "[127.0.0.1]", "fe80::1%eth0", "[2606:4700::1%1]", "1:2"]


@pytest.mark.parametrize("host", [*NO_NAMES, TOO_LONG, *NO_IPV6])
def test_what_is_no_host_is_refused(host: str) -> None:
    with pytest.raises(ValueError, match=r"is |names "):
        canonical_host(host)


@pytest.mark.parametrize(
    ("host", "canonical"),
    [
        ("Example.COM", "example.com"),
        ("example.com.", "example.com"),
        ("127.0.0.1.", "127.0.0.1"),
        ("[::FFFF:127.0.0.1]", ipaddress.IPv6Address("::ffff:127.0.0.1").compressed),
        ("0:0::1", "::1"),
        ("a_b.1x.example-2", "a_b.1x.example-2"),
        ("xn--bcher-kva.example", "xn--bcher-kva.example"),
    ],
)
def test_a_host_has_one_spelling(host: str, canonical: str) -> None:
    assert canonical_host(host) == canonical


def test_addresses_and_localhost_need_no_resolver() -> None:
    assert literal_addresses("10.0.0.1") == ["10.0.0.1"]
    assert literal_addresses("::1") == ["::1"]
    assert literal_addresses("localhost") == literal_addresses("api.localhost") == ["127.0.0.1", "::1"]
    assert literal_addresses("example.com") == literal_addresses("notlocalhost") == []
