"""Requests that nobody should send: a share of bench/fuzz.py, on little models."""

from __future__ import annotations

import json
import random
import select
import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
import schemathesis
import uvicorn
from bench.clients import At
from bench.fuzz import Golden, Tally, ask, described, named, pipelined
from bench.odd import Case, Offer, cases, mutated, post, valid
from starlette.requests import Request
from starlette.responses import Response

from regard.serve.config import Limits
from regard.serve.server import Patient, _socket
from regard.serve.wire import known
from tests.serve.toys import MODELS, Service, make_model, service

OFFER = Offer({"source": "en", "target": "de"}, "teller")
CASES = cases(OFFER)
OTHERS = MODELS / "bert", MODELS / "choice"


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """A service that is as well at the end as it was at the beginning."""
    folder = tmp_path_factory.mktemp("models")
    models = f"en-de={make_model(folder / 'translator')}", make_model(folder / "teller", "language"), *OTHERS
    with service(*models) as found:
        at, tally = At(found.url), Tally()
        golden = Golden(at, tally)
        yield found
        golden.check("all of these")
        assert not tally.faults
        assert at.get("/ready")["restarts"] == 0
        assert not [line for line in found.log if "Traceback" in line]


@pytest.mark.parametrize("case", [case for case in CASES if not case.slow], ids=lambda case: case.name)
def test_what_nobody_should_send_is_answered_or_refused(case: Case, found: Service) -> None:
    answer = ask(found.port, case.sent)
    assert not answer.fault
    assert answer.status in (*case.statuses, 503)


@pytest.mark.full
def test_what_never_comes_to_an_end_is_ended(found: Service) -> None:
    tally = Tally()
    named(found.port, [case for case in CASES if case.slow], tally)
    assert not tally.faults


def unfinished(port: int, count: int) -> list[socket.socket]:
    """Connections whose bodies never come to an end."""
    ways = [socket.create_connection(("127.0.0.1", port), timeout=20) for _ in range(count)]
    for way in ways:
        way.sendall(post("/translate", b'{"q":', size=90))
    return ways


def test_who_does_not_finish_sending_keeps_nobody_out(found: Service) -> None:
    with ExitStack() as stack:
        ways = [stack.enter_context(way) for way in unfinished(found.port, Limits().requests + 9)]
        for _ in range(3):
            assert ask(found.port, post("/translate", {"q": "a", **OFFER.pair})).status == 200
        assert ways[0].recv(1 << 16).startswith(b"HTTP/1.1 408")  # it gave way
        ways[-1].sendall(b'"a", "source": "en", "target": "de"}'.ljust(85))
        assert ways[-1].recv(1 << 16).startswith(b"HTTP/1.1 200")  # the newest are waited for


def test_without_a_key_nobody_is_kept_out_either(found: Service, tmp_path: Path) -> None:
    with service(make_model(tmp_path / "en-de"), env={"REGARD_API_KEYS": "k"}) as keyed, ExitStack() as stack:
        ways = [stack.enter_context(way) for way in unfinished(keyed.port, Limits().requests + 9)]
        keys: list[tuple[dict[str, str], list[bytes]]] = [({}, [b"Authorization: Bearer k"]), ({"api_key": "k"}, [])]
        for more, lines in keys:
            assert ask(keyed.port, post("/translate", {"q": "a", **OFFER.pair, **more}, *lines)).status == 200
        assert ways[0].recv(1 << 16).startswith(b"HTTP/1.1 408")
        for head in (b"Authorization: Bearer x", b"Authorization: Bearer"):  # refused without its body
            way = stack.enter_context(socket.create_connection(("127.0.0.1", keyed.port), timeout=5))
            way.sendall(post("/translate", b"", head, size=90))
            assert way.recv(1 << 16).startswith(b"HTTP/1.1 401")


def test_a_body_of_two_lengths_is_refused_and_nothing_after_it_is_read(found: Service) -> None:
    body = json.dumps({"q": "a", **OFFER.pair}).encode()
    chunks = b"%x\r\n%s\r\n0\r\n\r\n" % (len(body), body)
    head = post("/translate", chunks, b"Transfer-Encoding: chunked", size=4).replace(b"Connection: close\r\n", b"")
    with socket.create_connection(("127.0.0.1", found.port), timeout=10) as way:
        way.sendall(head + b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")
        answer = b""
        while data := way.recv(1 << 16):
            answer += data
    assert answer.startswith(b"HTTP/1.1 400")
    assert answer.count(b"HTTP/1.1") == 1


def test_requests_in_one_packet_are_all_answered(found: Service) -> None:
    assert pipelined(found.port, 100) == 100


def test_changed_bytes_do_no_harm(found: Service) -> None:
    draw, base = random.Random(7), valid(OFFER)
    changed = [mutated(draw, base) for _ in range(200)]
    with ThreadPoolExecutor(16) as pool:
        answers = pool.map(lambda sent: ask(found.port, sent, patient=False), changed)
        assert not [(sent, answer) for sent, answer in zip(changed, answers, strict=True) if answer.fault]


@pytest.mark.slow
@pytest.mark.parametrize("examples", [6, pytest.param(40, marks=pytest.mark.full)])
def test_answers_are_as_the_description_has_them(examples: int, found: Service) -> None:
    answers, wrong = described(found.url, examples=examples, seed=7)
    assert not wrong
    assert {200, 400} <= {answer.status for answer in answers}
    assert not [answer for answer in answers if answer.fault]


ASKED: list[tuple[str, dict[str, Any]]] = [
    ("/translate", {"q": "a", "source": "en", "target": "de"}),
    ("/translate", {"q": ["a", "b"], "source": "auto", "target": "de", "alternatives": 2}),
    ("/detect", {"q": ["a", "b"]}),
    ("/v1/completions", {"model": "teller", "prompt": ["a", "b"], "n": 2, "logprobs": 2, "stop": ["e"]}),
    ("/v1/completions", {"model": "teller", "stream": True, "max_tokens": None}),
    ("/api/translate", {"text": ["a", ""], "beam": 2, "best": 2, "alignment": True}),
    ("/api/attention", {"text": "a dog", "output": "a"}),
    ("/api/attention", {"text": "a dog", "model": "bert"}),
    ("/api/run", {"text": ["a dog", ""], "options": {"beam": 2, "num_best": 2}}),
    ("/api/run", {"text": ["a [MASK]", " "], "model": "bert", "options": {"num_best": 2}}),
    ("/api/run", {"text": "a\tb\tc", "model": "choice"}),
    ("/v1/embeddings", {"model": "bert", "input": ["a", "b"], "encoding_format": "base64", "dimensions": None}),
]
ODD_RUNS: list[dict[str, Any]] = [
    {"text": "a", "options": {"beam": 17}},
    {"text": "a", "options": {"num_best": 0}},
    {"text": "a", "options": {"beam": 1e400}},
    {"text": "a", "options": {"top_p": "nan"}},
    {"text": "a", "options": {"tag": "none"}},
    {"text": ["a"] * 64, "options": {"max_tokens": 1024}},
    {"text": "a", "model": "teller", "options": {"prompt": "a"}},
    {"text": "a", "model": "teller", "options": {"examples": "/etc/passwd"}},
    {"text": "a", "model": "teller", "options": {"seed": 1 << 80}},
    {"text": "a", "model": "teller", "options": {"temperature": 1e300, "sample": True}},
    {"text": "a", "model": "teller", "options": {"stop": [""]}},
    {"text": "a", "model": "teller", "options": {"labels": "good,bad", "template": "no places"}},
    {"text": "a", "model": "bert", "options": {"near": "/etc/passwd"}},
    {"text": "a", "model": "bert", "options": {"num_best": 1 << 40}},
    {"text": "a", "model": "choice"},
    {"text": "a\t" * 2_000, "model": "choice"},
    {"text": "a", "model": "none"},
]


@pytest.mark.parametrize("body", ODD_RUNS, ids=str)
def test_a_run_that_nobody_can_do_is_refused_in_words(body: dict[str, Any], found: Service) -> None:
    answer = ask(found.port, post("/api/run", body))
    assert answer.status in (400, 404)


@pytest.mark.parametrize("model", ["bert", "choice"])
def test_odd_texts_are_answered_by_models_of_every_kind(model: str, found: Service) -> None:
    odd = [
        "\0",
        "\x1c",
        "\u200b",
        "[MASK]" * 800,
        "[MASK]\n[MASK]",
        "\ufdfa" * 5000,
        "a\t\t",
        "\t\t\ta",
        "世" * 5000,
        "a\r\fb",
    ]
    for text in odd:
        for path, body in (("/api/run", {"text": text}), ("/api/attention", {"text": text})):
            answer = ask(found.port, post(path, {"model": model, **body}))
            assert not answer.fault, (path, text[:20])
            assert answer.status in (200, 400, 503)


@pytest.mark.parametrize(("path", "body"), ASKED)
def test_what_is_offered_is_answered_as_described(path: str, body: dict[str, Any], found: Service) -> None:
    schema = schemathesis.openapi.from_url(f"{found.url}/openapi.json")
    answer = schema[path]["POST"].Case(body=body, media_type="application/json").call_and_validate()
    assert answer.status_code == 200


@pytest.mark.parametrize("given", [b"Basic \xff\xfe", b"Basic a", b"Basic /w==", b"Basic", b"\xff", b"Bearer \xff"])
def test_what_is_no_key_is_none(given: bytes) -> None:
    scope: dict[str, Any] = {"type": "http", "query_string": b"", "headers": [(b"authorization", given)]}
    assert not known(("k",), Request(scope))


def test_a_body_does_not_wait_until_its_head_has_arrived() -> None:
    with _socket("127.0.0.1", 0) as listening:
        assert listening.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


@contextmanager
def waiting(size: int) -> Iterator[int]:
    """The port of a server that is as patient as ours, and answers with so many bytes."""

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await Response(bytes(size))(scope, receive, send)

    with _socket("127.0.0.1", 0) as listening:
        server = uvicorn.Server(uvicorn.Config(app, http=Patient, ws="none", lifespan="off", log_level="error"))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
        thread.start()
        try:
            yield listening.getsockname()[1]
        finally:
            server.should_exit = True
            thread.join()


def test_a_head_that_comes_byte_by_byte_does_not_gain_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Patient, "seconds", 0.3)
    with waiting(1) as port, socket.create_connection(("127.0.0.1", port), timeout=10) as way:
        for _ in range(200):
            way.sendall(b"a")
            if select.select([way], [], [], 0.05)[0]:
                break
        else:
            pytest.fail("it took ten seconds")
        assert way.recv(1) == b""


def test_who_sends_a_second_request_in_parts_is_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Patient, "seconds", 1.0)
    with waiting(1) as port, socket.create_connection(("127.0.0.1", port), timeout=10) as way:
        for _ in range(6):  # each within its time, together beyond it
            way.sendall(b"GET / HTTP/1.1\r\n")
            time.sleep(0.2)
            way.sendall(b"Host: localhost\r\n\r\n")
            answer = b""
            while not answer.endswith(b"\r\n\r\n\0"):
                answer += way.recv(1 << 16)
            assert answer.startswith(b"HTTP/1.1 200")


def test_who_takes_no_answer_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Patient, "taking", 0.3)
    size = 1 << 25  # more than the buffers between them
    with waiting(size) as port, socket.create_connection(("127.0.0.1", port), timeout=10) as way:
        way.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
        time.sleep(1)
        taken = 0
        while data := way.recv(1 << 20):
            taken += len(data)
        assert 0 < taken < size
