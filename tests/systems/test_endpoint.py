"""The endpoint against a real server process that is kind, slow, failing, malformed, redirecting or huge."""

import json
import socket

import pytest
from serving import Server

from dialeval.errors import UsageError
from dialeval.models.endpoint import Endpoint, EndpointError

HELLO = [{"role": "user", "content": "Hello"}]


def quick(server: Server, way: str, **fields: object) -> Endpoint:
    return Endpoint(server.at(way), **{"backoff": 0.01, "timeout": 5.0, **fields})  # type: ignore[arg-type]


def test_what_is_sent_and_what_comes_back(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DIALEVAL_API_KEY", "s3cret")
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")  # would refuse: it must not be asked
    endpoint = quick(server, "shown", model="tiny", temperature=0.5, max_tokens=7)
    told = json.loads(endpoint.complete(HELLO))
    assert told == {
        "messages": HELLO,
        "model": "tiny",
        "temperature": 0.5,
        "max_tokens": 7,
        "key": "Bearer s3cret",
        "path": "/shown/v1/chat/completions",
    }
    assert "s3cret" not in repr(endpoint)


def test_a_whole_path_and_a_query_are_kept() -> None:
    assert Endpoint("https://x.org/a/chat/completions").path == "/a/chat/completions"
    assert Endpoint("https://x.org/v1/?version=2").path == "/v1/chat/completions?version=2"


def test_a_broken_key_is_not_shown(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DIALEVAL_API_KEY", "s3cret\nX-Evil: 1")
    with pytest.raises(EndpointError, match="DIALEVAL_API_KEY has characters") as caught:
        quick(server, "shown").complete(HELLO)
    assert "s3cret" not in str(caught.value)


def test_failures_that_pass_are_tried_again(server: Server) -> None:
    assert quick(server, "flaky").complete(HELLO) == "at last"
    assert server.count("flaky") == 3


def test_a_busy_server_is_left_alone_as_long_as_it_asks(server: Server) -> None:
    assert quick(server, "busy", backoff=3600).complete(HELLO) == "now", "not the hour of its own"
    assert server.count("busy") == 2


def test_tries_come_to_an_end(server: Server) -> None:
    with pytest.raises(EndpointError, match=r"broken/v1: HTTP 500: .*broken.*tried 3 times"):
        quick(server, "broken").complete(HELLO)
    assert server.count("broken") == 3


@pytest.mark.parametrize(
    ("way", "said"),
    [
        ("refused", "HTTP 401"),
        ("away", "redirects"),
        ("malformed", "not a chat completion: '<html>hello</html>'"),
        ("shapeless", "not a chat completion"),
        ("silent", "has no text"),
        ("huge", "larger than 4 MB"),
    ],
)
def test_what_would_be_the_same_again_fails_at_once(server: Server, way: str, said: str) -> None:
    with pytest.raises(EndpointError, match=said):
        quick(server, way).complete(HELLO)
    assert server.count(way) == 1
    assert server.count("elsewhere") == 0, "a redirect was followed"


@pytest.mark.parametrize("way", ["slow", "drip", "endless"])
def test_time_is_up_however_busy_the_line(server: Server, way: str) -> None:
    with pytest.raises(EndpointError, match=r"no answer in 0.4 s \(tried 2 times\)"):
        quick(server, way, timeout=0.4, tries=2).complete(HELLO)
    assert server.count(way) == 2


@pytest.mark.parametrize("way", ["cut", "rubbish"])
def test_a_broken_connection_is_tried_again(server: Server, way: str) -> None:
    with pytest.raises(EndpointError, match="tried 2 times"):
        quick(server, way, tries=2).complete(HELLO)
    assert server.count(way) == 2


def test_nobody_there() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with pytest.raises(EndpointError, match="no connection"):
        Endpoint(f"http://127.0.0.1:{port}", tries=2, backoff=0.01).complete(HELLO)


@pytest.mark.parametrize(
    "address",
    [
        "",
        "localhost:80",
        "ftp://x.org",
        "http://",
        "http://x.org:99999",
        "http://me:pw@x.org",
        "http://x.org/a b",
        "http://x.org/\n",
    ],
)
def test_no_address_at_all_is_refused(address: str) -> None:
    with pytest.raises(UsageError, match=r"not an address|no password"):
        Endpoint(address)
