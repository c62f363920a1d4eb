"""Redirects lead to places that are judged like any other."""

import pytest
from sites import Resolver, Site

from matins.net.outbound import AddressRefused, HttpClient


@pytest.mark.parametrize(
    ("location", "said"),
    [
        ("http://169.254.169.254/latest/meta-data/", "metadata"),
        ("//169.254.169.254/", "metadata"),
        ("http://127.0.0.1:1/", "loopback"),
        ("http://2130706433/", "number"),
        ("http://[::ffff:169.254.169.254]/", "metadata"),
        ("http://inner.example/", "private"),
        ("file:///etc/passwd", "redirect's URL begins with file"),
        ("http://user@example.com/", "redirect's URL contains a user name"),
        ("http://[::1", "redirect's URL cannot be read"),
        ("http://a b/", "redirect's URL is empty or contains spaces"),
    ],
)
@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_each_redirect_is_judged(site: Site, dialled: list[str], status: int, location: str, said: str) -> None:
    site.redirect("/", location, status)
    with pytest.raises(AddressRefused, match=said):
        HttpClient([site.host], Resolver(["10.0.0.7"])).send("POST", site.url(), body=b"x")
    assert len(dialled) == len(site.seen) == 1


def test_a_redirect_within_the_site_keeps_everything(site: Site) -> None:
    site.redirect("/a/b", "../c?d", 307)
    answer = HttpClient([site.host]).send("POST", site.url("/a/b"), body=b"x", headers={"Authorization": "key"})
    assert answer.status == 200
    (method, path, headers, body) = site.seen[1]
    assert (method, path, body, headers["authorization"]) == ("POST", "/c?d", b"x", "key")


@pytest.mark.parametrize(
    ("status", "method", "body"),
    [(301, "POST", b"x"), (302, "POST", b"x"), (303, "GET", b""), (307, "POST", b"x"), (308, "POST", b"x")],
)
def test_only_see_other_turns_a_post_into_a_get(site: Site, status: int, method: str, body: bytes) -> None:
    site.redirect("/", "/there", status)
    HttpClient([site.host]).send("POST", site.url(), body=b"x")
    assert (site.seen[1][0], site.seen[1][3]) == (method, body)


def test_keys_do_not_follow_to_another_origin(site: Site) -> None:
    site.redirect("/", site.url("/there", host="other.example"), 308)
    headers = {"Authorization": "key", "Cookie": "key", "X-Api-Key": "key", "Content-Type": "a/b", "Webhook-Id": "7"}
    door = HttpClient([site.host, "other.example"], Resolver(["127.0.0.1"]))
    door.send("POST", site.url(), body=b"x", headers=headers)
    arrived = site.seen[1][2]
    assert "key" not in arrived.values()
    assert (arrived["content-type"], arrived["webhook-id"]) == ("a/b", "7")
    assert arrived["host"] == f"other.example:{site.port}"


def test_three_redirects_and_no_more(site: Site) -> None:
    for number in range(5):
        site.redirect(f"/{number}", f"/{number + 1}")
    assert HttpClient([site.host]).send("GET", site.url("/2")).status == 200
    site.seen.clear()
    with pytest.raises(AddressRefused, match="more than 3 times"):
        HttpClient([site.host]).send("GET", site.url("/0"))
    assert len(site.seen) == 4


@pytest.mark.parametrize(("status", "headers"), [(302, {}), (304, {"Location": "/x"}), (300, {"Location": "/x"})])
def test_what_leads_nowhere_is_an_answer(site: Site, status: int, headers: dict[str, str]) -> None:
    site.pages["/"] = (status, headers, b"")
    assert HttpClient([site.host]).send("GET", site.url()).status == status
