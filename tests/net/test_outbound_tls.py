"""Over TLS the pinned address must still prove the name."""

import shutil
import socket
import ssl
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace

import pytest
from sites import Site, http_site

from matins.net.outbound import AddressRefused, HttpClient, Unreachable

pytestmark = pytest.mark.skipif(not shutil.which("openssl"), reason="makes its certificate with openssl")
NAME = "hooks.example"


@dataclass
class Secure:
    site: Site
    names: list[str | None] = field(default_factory=list)
    """What clients asked for before the handshake."""

    def url(self, host: str = NAME) -> str:
        return f"https://{host}:{self.site.port}/"


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Key and certificate of one name, in one file."""
    file = tmp_path_factory.mktemp("tls") / "both.pem"
    command = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -keyout - -out -"
    extensions = ["-addext", f"subjectAltName=DNS:{NAME}", "-addext", "keyUsage=critical,digitalSignature,keyCertSign"]
    made = subprocess.run([*command.split(), "-subj", f"/CN={NAME}", *extensions], capture_output=True, check=True)
    file.write_bytes(made.stdout)
    return file


@pytest.fixture
def secure(certificate: Path) -> Iterator[Secure]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)

    def wrap(sock: socket.socket) -> socket.socket:
        return context.wrap_socket(sock, server_side=True, do_handshake_on_connect=False)

    with http_site(wrap) as site:
        server = Secure(site)
        context.sni_callback = lambda _sock, name, _context: server.names.append(name)
        yield server


@pytest.fixture
def trusted(certificate: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))


def door(*allowed: str) -> HttpClient:
    return HttpClient(allowed, lambda host, port: ["127.0.0.1"])


@pytest.mark.usefixtures("trusted")
def test_the_name_goes_into_the_handshake_and_the_host_header(secure: Secure) -> None:
    assert door(NAME).send("POST", secure.url(), body=b"x").status == 200
    assert secure.names == [NAME]
    assert secure.site.seen[0][2]["host"] == f"{NAME}:{secure.site.port}"


@pytest.mark.usefixtures("trusted")
def test_the_usual_port_is_not_named(secure: Secure, monkeypatch: pytest.MonkeyPatch) -> None:
    connect = socket.create_connection
    monkeypatch.setattr(
        socket, "create_connection", lambda address, timeout: connect((address[0], secure.site.port), timeout)
    )
    door(NAME).send("GET", f"https://{NAME}/")
    assert secure.site.seen[0][2]["host"] == NAME


@pytest.mark.usefixtures("trusted")
def test_a_certificate_of_another_name_is_not_accepted(secure: Secure) -> None:
    with pytest.raises(Unreachable, match="Hostname mismatch"):
        door("other.example").send("POST", secure.url("other.example"), body=b"x")
    with pytest.raises(Unreachable, match="IP address mismatch"):
        door("127.0.0.1").send("POST", secure.url("127.0.0.1"), body=b"x")
    assert secure.site.seen == []


def test_a_certificate_that_nobody_signed_is_not_accepted(secure: Secure) -> None:
    with pytest.raises(Unreachable, match=r"self.signed certificate") as failed:
        door(NAME).send("POST", secure.url(), body=b"x")
    assert "SSL_CERT_FILE" in (failed.value.hint or "")
    assert secure.site.seen == []


@pytest.mark.usefixtures("trusted")
def test_https_is_never_redirected_to_http(secure: Secure, site: Site) -> None:
    secure.site.pages["/"] = (308, {"Location": site.url()}, b"")
    with pytest.raises(AddressRefused, match="not encrypted"):
        door(NAME, site.host).send("POST", secure.url(), body=b"x")
    assert site.seen == []


@pytest.mark.usefixtures("trusted")
def test_http_may_be_redirected_to_https(secure: Secure, site: Site) -> None:
    site.pages["/"] = (308, {"Location": secure.url()}, b"")
    assert door(NAME, site.host).send("POST", site.url(), body=b"x").status == 200
    assert secure.site.seen[0][3] == b"x"


def test_a_server_without_tls_can_be_tried_again(site: Site) -> None:
    with pytest.raises(Unreachable, match="WRONG_VERSION_NUMBER"):
        door(site.host).send("GET", f"https://{site.host}/")


def test_the_time_holds_for_the_handshake_too(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    now, opened, connect = [0.0], [], socket.create_connection

    def slow(address: tuple[str, int], timeout: float) -> socket.socket:
        now[0] += 16
        opened.append(connect(address, timeout))
        return opened[0]

    monkeypatch.setattr(socket, "create_connection", slow)
    monkeypatch.setattr("matins.net.outbound.time", SimpleNamespace(monotonic=lambda: now[0]))
    with pytest.raises(Unreachable, match="no complete answer in time"):
        door(site.host).send("GET", f"https://{site.host}/")
    assert opened[0].fileno() == -1
