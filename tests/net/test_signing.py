"""Standard Webhooks: what we send can be checked by others, and the other way round."""

import base64
import re

import pytest

from matins.errors import InvalidInput
from matins.net.signing import new_secret, sign, verify

# The example of the specification's own libraries.
SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
MESSAGE_ID = "msg_p5jXN8AQM9LWM0D4loKWxJek"
BODY = b'{"test": 2432232314}'
NOW = 1614265330
OTHER = "whsec_" + base64.b64encode(bytes(range(32))).decode()


def test_the_signature_of_the_specification() -> None:
    assert sign(SECRET, MESSAGE_ID, NOW, BODY) == {
        "webhook-id": MESSAGE_ID,
        "webhook-timestamp": str(NOW),
        "webhook-signature": "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
    }


def test_several_secrets_sign_several_times() -> None:
    both = sign(f"{SECRET} {OTHER}", MESSAGE_ID, NOW, BODY)["webhook-signature"]
    each = [sign(secret, MESSAGE_ID, NOW, BODY)["webhook-signature"] for secret in (SECRET, OTHER)]
    assert both == " ".join(each)


@pytest.mark.parametrize("secrets", [SECRET, [SECRET], [OTHER, SECRET], f"{OTHER} {SECRET}"])
def test_any_of_the_secrets_will_do(secrets: str | list[str]) -> None:
    verify(secrets, sign(SECRET, MESSAGE_ID, NOW, BODY), BODY, NOW)


def test_one_good_signature_among_others_will_do() -> None:
    headers = sign(SECRET, MESSAGE_ID, NOW, BODY)
    others = f"v1a,AAAA v1,ÿ v1 {headers['webhook-signature']}"
    verify([SECRET], {**headers, "webhook-signature": others}, BODY, NOW)


def test_header_names_may_have_any_case() -> None:
    headers = {name.title(): value for name, value in sign(SECRET, MESSAGE_ID, NOW, BODY).items()}
    verify([SECRET], headers, BODY, NOW)


@pytest.mark.parametrize(
    "change",
    [
        {"webhook-id": "msg_another"},
        {"webhook-timestamp": str(NOW + 1)},
        {"webhook-signature": "v1,AAAA"},
        {"webhook-signature": "v1,ÿ"},
        {"webhook-signature": "v1,"},
        {"webhook-signature": "v2,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="},
        {"webhook-signature": "g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="},
    ],
)
def test_a_changed_header_does_not_pass(change: dict[str, str]) -> None:
    with pytest.raises(InvalidInput, match="does not match"):
        verify([SECRET], {**sign(SECRET, MESSAGE_ID, NOW, BODY), **change}, BODY, NOW)


@pytest.mark.parametrize("body", [b"", BODY + b" ", b'{"test":2432232314}'])
def test_a_changed_or_re_encoded_body_does_not_pass(body: bytes) -> None:
    with pytest.raises(InvalidInput, match="does not match"):
        verify([SECRET], sign(SECRET, MESSAGE_ID, NOW, BODY), body, NOW)


def test_another_secret_does_not_pass() -> None:
    with pytest.raises(InvalidInput, match="does not match"):
        verify([OTHER], sign(SECRET, MESSAGE_ID, NOW, BODY), BODY, NOW)


@pytest.mark.parametrize(("now", "said"), [(NOW + 301, "301 s old"), (NOW - 301, "301 s in the future")])
def test_five_minutes_either_way(now: int, said: str) -> None:
    headers = sign(SECRET, MESSAGE_ID, NOW, BODY)
    verify([SECRET], headers, BODY, NOW + 300)
    verify([SECRET], headers, BODY, NOW - 300)
    with pytest.raises(InvalidInput, match=said) as refused:
        verify([SECRET], headers, BODY, now)
    assert refused.value.field == "webhook-timestamp"
    verify([SECRET], headers, BODY, now, tolerance_s=301)


@pytest.mark.parametrize("timestamp", ["soon", "-5", "1.5", " 1", "1_0", "٣", "9" * 5000])
def test_a_timestamp_is_a_number_of_seconds(timestamp: str) -> None:
    with pytest.raises(InvalidInput, match="number of seconds"):
        verify([SECRET], {**sign(SECRET, MESSAGE_ID, NOW, BODY), "webhook-timestamp": timestamp}, BODY, NOW)


@pytest.mark.parametrize("missing", ["webhook-id", "webhook-timestamp", "webhook-signature"])
def test_every_header_is_needed(missing: str) -> None:
    headers = sign(SECRET, MESSAGE_ID, NOW, BODY)
    for without in ({**headers, missing: ""}, {name: headers[name] for name in headers if name != missing}):
        with pytest.raises(InvalidInput, match=f"{missing} is missing"):
            verify([SECRET], without, BODY, NOW)


@pytest.mark.parametrize("message_id", ["", "a.b", "a b", "a\r\nX-Evil: 1", "ä"])
def test_an_id_that_could_be_read_in_two_ways_is_refused(message_id: str) -> None:
    with pytest.raises(InvalidInput, match="message id"):
        sign(SECRET, message_id, NOW, BODY)


@pytest.mark.parametrize(
    ("secret", "said"),
    [
        ("", "No signing secret"),
        ("  ", "No signing secret"),
        (SECRET.removeprefix("whsec_"), "does not begin"),
        ("whsec_%%%%", "not base64"),
        ("whsec_ä", "not base64"),
        ("whsec_" + base64.b64encode(bytes(23)).decode(), "23 bytes"),
        ("whsec_" + base64.b64encode(bytes(65)).decode(), "65 bytes"),
        (f"{SECRET} hunter2", "does not begin"),
    ],
)
def test_a_bad_secret_is_named_but_not_shown(secret: str, said: str) -> None:
    for use in (lambda: sign(secret, MESSAGE_ID, NOW, BODY), lambda: verify(secret, {}, BODY, NOW)):
        with pytest.raises(InvalidInput, match=said) as refused:
            use()
        error = refused.value
        assert error.field == "secret"
        assert error.hint
        assert error.value is None
        assert "hunter2" not in f"{error.message}{error.hint}{error.allowed}"


def test_no_secret_at_all_is_refused() -> None:
    with pytest.raises(InvalidInput, match="No signing secret"):
        verify([], sign(SECRET, MESSAGE_ID, NOW, BODY), BODY, NOW)


def test_new_secrets_are_32_random_bytes() -> None:
    secrets = {new_secret() for _ in range(100)}
    assert len(secrets) == 100
    for secret in secrets:
        assert re.fullmatch(r"whsec_[A-Za-z0-9+/]{43}=", secret)
        verify(secret, sign(secret, MESSAGE_ID, NOW, BODY), BODY, NOW)
