"""Every route and everybody: who may come in, what a post needs, what a rater's page may not say (R21)."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from annotation_server import FORM, LocalServer, Server, make_study, talks
from starlette.responses import Response
from starlette.routing import Route

from dialeval.annotation import AnnotationProject
from dialeval.annotation.app import make_app
from dialeval.annotation.store import DiskFullError
from dialeval.annotation.web import PersonalLinks
from dialeval.dialogues import dialogue

NOBODY, ANN, BOB, HEAD = "nobody", "ann", "bob", "coordinator"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = make_study(tmp_path_factory.mktemp("routes") / "study", experts=["eve"])
    with Server(folder) as running:
        yield running


# path, method, then the status for nobody, ann, bob (who is at another item), the coordinator, the expert
TABLE: list[tuple[str, str, int, int, int, int, int]] = [
    ("/", "GET", 401, 303, 303, 303, 303),
    ("/style.css", "GET", 200, 200, 200, 200, 200),
    ("/app.js", "GET", 200, 200, 200, 200, 200),
    ("/in/{token}", "GET", 401, 401, 401, 401, 401),  # with a token that is not one
    ("/rate", "GET", 401, 303, 303, 403, 200),
    ("/rate/{place:int}", "GET", 401, 200, 200, 403, 404),
    ("/rate/{place:int}", "POST", 401, 422, 422, 403, 404),
    ("/undo", "POST", 401, 303, 303, 403, 303),
    ("/study", "GET", 401, 403, 403, 200, 403),
    ("/study/item/{item:int}", "GET", 401, 403, 403, 200, 403),
    ("/study/item/{item:int}/reject", "POST", 401, 403, 403, 409, 403),
    ("/study/item/{item:int}/adjudicate", "POST", 401, 403, 403, 422, 403),
    ("/study/export/{name}", "GET", 401, 403, 403, 200, 403),
]
EXAMPLES = {"token": "A" * 22, "place": "1", "item": "0", "name": "scores.csv"}


def path_of(route: str) -> str:
    return re.sub(r"\{(\w+)(:int)?\}", lambda found: EXAMPLES[found[1]], route)


def test_the_table_knows_every_route(tmp_path: Path) -> None:
    study = AnnotationProject(make_study(tmp_path / "s"))
    routes = make_app(study).app.routes
    study.close()
    there = {(one.path, method) for one in routes if isinstance(one, Route) for method in one.methods or ()}
    assert {(path, method) for path, method in there if method != "HEAD"} == {row[:2] for row in TABLE}


@pytest.mark.parametrize(("route", "method", "nobody", "ann", "bob", "head", "eve"), TABLE)
def test_every_route_for_everybody(
    server: Server, route: str, method: str, nobody: int, ann: int, bob: int, head: int, eve: int
) -> None:
    for name, status in ((None, nobody), (ANN, ann), (BOB, bob), (HEAD, head), ("eve", eve)):
        client = server.client(name)
        fields = {"code": code_of(client, name)} if name else {"code": "x"}
        path = path_of(route)
        answer = client.get(path) if method == "GET" else client.post(path, fields)
        assert answer.status == status, (route, name, answer.text[:300])
        assert_headers(answer)
        if method == "POST" and name:  # the same without its code, or with another person's
            for wrong in ("", "0" * 32, code_of(server.client(BOB if name == ANN else ANN), "any")):
                assert client.post(path, {"code": wrong}).status == 403
            assert client.post(path, {}).status == 403
            assert client.ask("POST", path, "code=" + fields["code"], content_type="text/plain").status in (
                403,
                415,
            )
            elsewhere = client.post(path, fields, origin="http://evil.invalid")
            assert elsewhere.status == 403
        client.close()


def code_of(client: Any, name: str | None) -> str:
    page = client.get("/study/item/0") if name == HEAD else client.item()[1]
    found = re.search(r'name="code" value="(\w+)"', page.text)
    return found[1] if found else server_code(client)


def server_code(client: Any) -> str:
    """An expert without a sample has no form: the code is in none of the pages, so make one up."""
    import hashlib
    import hmac

    token = client.cookie.partition("=")[2]
    return hmac.new(SECRET[0], b"form " + token.encode(), hashlib.sha256).hexdigest()[:32]


SECRET: list[bytes] = []


@pytest.fixture(scope="module", autouse=True)
def secret(server: Server) -> None:
    folder = Path(server.process.args[4])  # type: ignore[index]
    study = AnnotationProject(folder)
    SECRET[:] = [study.secret]
    study.close()


def assert_headers(answer: Any) -> None:
    policy = answer.headers["content-security-policy"]
    assert policy.startswith("default-src 'none';")
    assert "unsafe" not in policy and "http" not in policy and "*" not in policy
    assert (
        "frame-ancestors 'none'" in policy and "base-uri 'none'" in policy and "form-action 'self'" in policy
    )
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["x-frame-options"] == "DENY"
    assert answer.headers["cache-control"] == "no-store"
    assert answer.headers["referrer-policy"] == "same-origin"
    assert "server" not in answer.headers


def test_tokens_have_128_bits_and_the_cookie_is_out_of_reach(server: Server) -> None:
    tokens = [link.rsplit("/", 1)[1] for link in server.links.values()]
    assert len(set(tokens)) == len(tokens) == 5
    assert all(re.fullmatch(r"[\w-]{22}", token) for token in tokens)
    client = server.client()
    answer = client.get(f"/in/{tokens[0]}")
    cookie = answer.headers["set-cookie"].lower()
    assert "httponly" in cookie and "samesite=lax" in cookie
    for wrong in (tokens[0][:-1], tokens[0] + "A", tokens[0].swapcase(), "", "%00", "é", "a" * 5000):
        other = server.client()
        path = f"/in/{wrong}".encode("ascii", "ignore").decode()
        assert other.get(path).status in (401, 404), wrong
        assert not other.cookie
    stolen = server.client()
    stolen.cookie = client.cookie[:-1] + ("A" if client.cookie[-1] != "A" else "B")
    assert stolen.get("/rate").status == 401


def test_the_name_of_the_cookie_tells_nothing_of_the_secret(tmp_path: Path) -> None:
    with LocalServer(make_study(tmp_path / "study")) as local:
        name = local.client("ann").cookie.partition("=")[0].removeprefix("dialeval-")
        assert len(name) == 12 and name[:6] not in local.study.secret.hex()


def test_an_empty_token_is_nobodys() -> None:
    links = PersonalLinks(lambda: {"ann": ("rater", "")}, b"x", lambda _: Response(), {})
    assert links.person("") is None


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("127.0.0.1", 401),
        ("localhost:1234", 401),
        ("[::1]:80", 401),
        ("LOCALHOST", 401),
        ("evil.invalid", 421),
        ("127.0.0.1.evil.invalid", 421),
        ("evil.invalid@127.0.0.1", 421),
        ("localhost, evil.invalid", 421),
        ("0.0.0.0", 421),
        ("[", 421),
        ("", 421),
    ],
)
def test_the_host_header_is_checked(server: Server, host: str, status: int) -> None:
    assert server.client().get("/rate", host=host).status == status


def test_bodies_have_a_limit(server: Server) -> None:
    client = server.client(ANN)
    code = code_of(client, ANN)
    large = "x" * (300 * 1024)
    assert client.post("/rate/1", {"code": code, "q9": large}).status == 413
    client.close()
    client = server.client(ANN)
    chunks = iter([f"code={code}&x=".encode(), *[b"y" * 8192] * 60])
    client.connection.request(
        "POST", "/rate/1", chunks, {"cookie": client.cookie, "content-type": FORM}, encode_chunked=True
    )
    try:
        status = client.connection.getresponse().status
    except (BrokenPipeError, ConnectionResetError):
        status = 413
    assert status == 413
    client.close()
    client = server.client(ANN)
    many = "&".join(f"a{number}=1" for number in range(6000))
    assert client.ask("POST", "/rate/1", f"code={code}&{many}", content_type=FORM).status == 400
    assert client.ask("POST", "/rate/1", b"code=\xff\xfe", content_type=FORM).status == 400
    assert client.ask("PUT", "/rate/1").status == 405
    assert client.ask("DELETE", "/study").status == 405
    assert client.get("/nonsense").status == 404
    assert client.get("/rate/999999999999999999999").status == 404
    assert client.get("/../../etc/passwd").status == 404


def test_a_rater_cannot_reach_anothers_item_or_answer(tmp_path: Path) -> None:
    scheme = """
name = "own"
title = "Own"
unit = "turn"
instructions = "Look."
raters_per_item = 1
[[questions]]
name = "words"
type = "text"
text = "Say."
"""
    with LocalServer(make_study(tmp_path / "s", scheme, raters=["ann", "bob"])) as server:
        ann, bob = server.client("ann"), server.client("bob")
        seen: dict[str, set[str]] = {"ann": set(), "bob": set()}
        for name, client in (("ann", ann), ("bob", bob)):
            for place in range(1, 12):
                page = client.get(f"/rate/{place}")
                if page.status == 200:
                    seen[name].add(re.findall(r"<mark>(.*?)</mark>", page.text)[0])
        assert len(seen["ann"]) == len(seen["bob"]) == 5
        assert not seen["ann"] & seen["bob"]
        place, page = ann.item()
        ann.answer(place, page, q0="a very private opinion")
        for path in ("/rate", *(f"/rate/{number}" for number in range(1, 12))):
            assert "private opinion" not in bob.get(path).text
        ticket = page.hidden("ticket")  # another's ticket and place are no key either
        code = bob.item()[1].hidden("code")
        bob.post(place, {"code": code, "ticket": ticket, "q0": "bob's", "shown": "0"})
        assert "a very private opinion" in ann.get(place).text


def test_pages_of_a_rater_are_blind(tmp_path: Path) -> None:
    chats = [
        dialogue(
            [
                ("system", "You are SECRET-prompt"),
                ("user", "Hi!"),
                ("SECRET-speaker", "Hello!"),
                ("user", "So?"),
            ],
            f"SECRET-id-{number}",
            system="SECRET-system",
            references={2: ["SECRET-reference"]},
            meta={"SECRET-key": "SECRET-value", "score": 4.25},
        )
        for number in range(3)
    ]
    for name in ("turn-quality", "wizard", "dialogue", "segment-acts", "coherence"):
        with LocalServer(make_study(tmp_path / name, name, chats, raters=["ann", "bob", "cem"])) as server:
            ann, bob = server.client("ann"), server.client("bob")
            fields: dict[str, Any] = {f"q{number}": "0" for number in range(6)}
            while True:
                place, page = ann.item()
                assert "SECRET" not in page.text and "4.25" not in page.text and "bob" not in page.text
                if "All done" in page.text:
                    break
                assert ann.answer(place, page, **fields).status == 303
            assert not re.search(r"\bann\b", bob.item()[1].text)


def test_going_on_where_one_was(server: Server) -> None:
    client = server.client("cem")
    place, page = client.item()
    assert client.answer(place, page).status == 422  # nothing chosen
    assert client.item()[0] == place
    assert client.answer(place, page, q0="1").status == 303
    following, page = client.item()
    assert following != place
    again = server.client("cem")  # another browser, or the same after a crash
    assert again.item()[0] == following
    assert "1</span> of 10 done" in page.text
    answer = client.post("/undo", {"code": page.hidden("code")})
    assert answer.place == place
    assert re.search(r'value="1"[^>]* checked', client.get(place).text)


def test_a_double_submit_is_one_row(server: Server) -> None:
    client = server.client(BOB)
    place, page = client.item()
    for _ in range(3):
        assert client.answer(place, page, q0="2").status == 303
    csv = server.client(HEAD).get("/study/export/scores.csv").text
    assert csv.count("human:bob") == 1


def test_search_and_mark_without_script(tmp_path: Path) -> None:
    with LocalServer(make_study(tmp_path / "s", "wizard", talks(4), raters=["ann"])) as server:
        client = server.client("ann")
        place, page = client.item()
        numbers = dict(re.findall(r'value="(\d+)"> <bdi>(.*?)</bdi>', page.text))
        by_text = {text: number for number, text in numbers.items()}
        assert len(by_text) == 8
        first = by_text["We could go to place 2."]
        answer = client.answer(place, page, action="search", q="home 3", q0=first)
        assert answer.status == 303 and "q=home+3" in answer.place
        _, found = client.follow(answer)
        shown = re.findall(r'name="q0" value="(\d+)"( checked)?> <bdi>(.*?)</bdi>', found.text)
        assert shown[0] == (first, " checked", "We could go to place 2.")  # what is marked stays in sight
        assert shown[1][2] == "Then we go home, 3."
        assert client.answer(place, found, q0=[first, shown[1][0]]).status == 303
        nothing = client.answer_next()
        assert nothing.status == 422 and "Mark at least one" in nothing.text
        assert client.answer_next(**{"q0.none": "1"}).status == 303
        votes = server.client(HEAD).get("/study/export/votes.jsonl").text
        assert votes.count("\n") == 3 and "We could go to place 2." in votes
        assert votes.count('"utterance":null') == 1, "none fits is a vote for nothing"


def test_outside_names_must_be_given(tmp_path: Path) -> None:
    folder = make_study(tmp_path / "s")
    with Server(folder, "--host", "0.0.0.0", "--allow-host", "Rating.Example") as server:
        assert server.links["ann"].startswith("http://rating.example:")
        assert server.client().get("/rate", host="rating.example").status == 401
        assert server.client().get("/rate", host="other.example").status == 421


def test_a_full_disk_is_said_on_every_page_that_writes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with LocalServer(make_study(tmp_path / "s")) as server:
        ann, head = server.client("ann"), server.client("coordinator")
        assert ann.answer_next(q0="2").status == 303
        place, page = ann.item()
        decide = {"code": head.get("/study/item/0").hidden("code"), "q0": "1"}

        def full() -> None:
            raise DiskFullError("the disk is full; nothing was changed")

        monkeypatch.setattr(server.study.store, "writing", full)
        answer = ann.answer(place, page, q0="1")
        assert (answer.status, "disk is full. Leave this page open" in answer.text) == (507, True)
        for client, path, fields in (
            (ann, "/undo", {"code": page.hidden("code")}),
            (head, "/study/item/0/adjudicate", decide),
        ):
            for _ in range(2):
                answer = client.post(path, fields)
                assert (answer.status, "Nothing was changed" in answer.text) == (507, True)
        monkeypatch.undo()
        assert head.post("/study/item/0/adjudicate", decide).status == 303
