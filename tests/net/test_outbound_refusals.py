"""Where the door does not go, and whom its owner lets in all the same."""

import pytest
from sites import PUBLIC, Resolver, Site, nowhere

from matins.errors import InvalidInput
from matins.net.outbound import AddressRefused, HttpClient, check_url

BAD_URLS = {
    "": "is empty",
    "https://exa mple.com/": "contains spaces",
    "https://example.com\\@127.0.0.1/": "backslashes",
    "https://example.com/\r\nX: 1": "contains spaces",
    " https://example.com/": "contains spaces",
    "https://bücher.example/": "non-ASCII",
    "https://127。0。0。1/": "non-ASCII",
    "example.com": "no scheme",
    "//example.com/": "no scheme",
    "file:///etc/passwd": "begins with file",
    "ftp://example.com/": "begins with ftp",
    "gopher://127.0.0.1:25/": "begins with gopher",
    "unix:///var/run/docker.sock": "begins with unix",
    "https://": "is not a host",
    "https:///path": "is not a host",
    "https:example.com": "is not a host",
    "https://:443/": "is not a host",
    "https://[::1": "cannot be read",
    "https://user:hunter2@example.com/": "user name",
    "https://@example.com/": "user name",
    "https://example.com@127.0.0.1/": "user name",
    "https://example.com:0/": "not a port",
    "https://example.com:65536/": "not a port",
    "https://example.com:port/": "is not a host",
    "https://example.com:80:80/": "is not a host",
    "https://ex%61mple.com/": "not a host name",
    "https://%31%32%37.0.0.1/": "number",
    "http://2130706433/": "number",
    "http://0x7f000001/": "number",
    "http://0x7f.1/": "number",
    "http://0177.0.0.1/": "number",
    "http://127.1/": "number",
    "http://127.1./": "number",
    "http://0/": "number",
    "http://[fe80::1%25eth0]/": "not an IPv6 address|names a network",
    "http://127.0.0.1/": "loopback",
    "http://127.0.0.1./": "loopback",
    "http://[::1]/": "loopback",
    "http://[0:0:0:0:0:0:0:1]:8080/": "loopback",
    "http://[::ffff:127.0.0.1]/": "loopback",
    "http://[::127.0.0.1]/": "loopback",
    "http://localhost/": "loopback",
    "http://LOCALHOST./": "loopback",
    "http://api.localhost/": "loopback",
    "http://169.254.169.254/latest/meta-data/": "metadata",
    "http://[::ffff:a9fe:a9fe]/": "metadata",
    "http://[64:ff9b::7f00:1]/": "NAT64",
    "http://[64:ff9b:1::a9fe:a9fe]/": "NAT64",
    "http://[2002:7f00:1::]/": "6to4",
    "http://10.0.0.1:8080/": "private",
    "http://[fd00:ec2::254]/": "private",
}


@pytest.mark.parametrize(("url", "said"), BAD_URLS.items())
def test_bad_urls_are_refused_when_they_are_written_and_when_they_are_used(url: str, said: str) -> None:
    for use in (lambda: check_url(url), lambda: HttpClient(resolve=nowhere).send("GET", url)):
        with pytest.raises(AddressRefused, match=said) as refused:
            use()
        assert (refused.value.code, refused.value.field, refused.value.retryable) == ("address_refused", "url", False)
        assert refused.value.hint
        assert "hunter2" not in f"{refused.value} {refused.value.value}"


@pytest.mark.parametrize(
    "url", ["https://example.com", "http://EXAMPLE.com:8080/a?b#c", "https://8.8.8.8/", "https://[2606:4700::1111]/"]
)
def test_good_urls_need_no_network_to_be_written(url: str) -> None:
    check_url(url)


def test_the_refusal_says_what_to_write() -> None:
    with pytest.raises(AddressRefused) as refused:
        check_url("http://10.0.0.1:8080/secret-path?key=1")
    assert str(refused.value) == "http://10.0.0.1:8080 leads to 10.0.0.1, a private address."
    assert refused.value.value == "10.0.0.1"
    assert refused.value.hint == 'If this is intended, add "10.0.0.1" to allowed_hosts.'


@pytest.mark.parametrize("inside", ["127.0.0.1", "169.254.169.254", "::1", "::ffff:127.0.0.1", "64:ff9b::a00:1"])
@pytest.mark.parametrize("first", [[], [PUBLIC]])
def test_one_bad_address_of_a_name_is_enough(inside: str, first: list[str], dialled: list[str]) -> None:
    with pytest.raises(AddressRefused, match=r"http://nip\.example leads to"):
        HttpClient(resolve=Resolver([*first, inside])).send("GET", "http://nip.example/")
    assert dialled == []


@pytest.mark.parametrize("answer", ["2130706433", "127.1", "localhost"])
def test_a_resolver_cannot_pass_off_a_name_as_an_address(answer: str, dialled: list[str]) -> None:
    with pytest.raises(AddressRefused, match="not an IP address"):
        HttpClient(resolve=Resolver([answer])).send("GET", "http://odd.example/")
    assert dialled == []


def test_a_rebinding_resolver_is_asked_once_and_the_pin_holds(site: Site, dialled: list[str]) -> None:
    resolver = Resolver([PUBLIC], ["127.0.0.1"])
    answer = HttpClient(resolve=resolver).send("GET", site.url("/x", host="rebind.example"))
    assert answer.status == 200
    assert resolver.asked == [("rebind.example", site.port)]
    assert dialled == [PUBLIC]
    assert site.seen[0][2]["host"] == f"rebind.example:{site.port}"


def test_a_name_is_judged_anew_for_each_request(site: Site, dialled: list[str]) -> None:
    door = HttpClient(resolve=Resolver([PUBLIC], ["127.0.0.1"]))
    door.send("GET", site.url(host="rebind.example"))
    with pytest.raises(AddressRefused, match="loopback"):
        door.send("GET", site.url(host="rebind.example"))
    assert dialled == [PUBLIC]


# hosts that the owner named


@pytest.mark.parametrize(
    ("allowed", "url"),
    [
        ("10.0.0.1", "http://10.0.0.1:8080/"),
        ("10.0.0.1:8080", "http://10.0.0.1:8080/"),
        ("10.0.0.1:80", "http://10.0.0.1/"),
        ("LocalHost", "http://localhost:11434/"),
        ("::1", "http://[::1]:11434/"),
        ("[::1]", "http://[0::1]/"),
        ("[::1]:11434", "http://[::1]:11434/"),
    ],
)
def test_hosts_that_are_named_may_have_any_address(allowed: str, url: str) -> None:
    check_url(url, [allowed])


@pytest.mark.parametrize(
    ("allowed", "url"),
    [
        ("10.0.0.1:8080", "http://10.0.0.1:8081/"),
        ("10.0.0.1:8080", "http://10.0.0.1/"),
        ("10.0.0.1", "http://10.0.0.11/"),
        ("localhost", "http://evil.localhost/"),
        ("127.0.0.1", "http://[::ffff:127.0.0.1]/"),
    ],
)
def test_the_name_must_be_exact(allowed: str, url: str) -> None:
    with pytest.raises(AddressRefused):
        check_url(url, [allowed])


@pytest.mark.parametrize("url", ["http://0x7f.1/", "ftp://127.0.0.1/", "http://u@127.0.0.1/"])
def test_a_named_host_is_still_reached_in_the_plain_way_only(url: str) -> None:
    with pytest.raises(AddressRefused):
        check_url(url, ["127.0.0.1"])


@pytest.mark.parametrize("entry", ["", "*", "*.example.com", "http://localhost", "localhost/x", "a@b", "127.1", "a:0"])
def test_a_bad_entry_among_the_allowed_hosts_is_named(entry: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        HttpClient([entry])
    assert (refused.value.field, refused.value.value) == ("allowed_hosts", entry)
