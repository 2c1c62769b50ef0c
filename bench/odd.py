"""Requests that nobody should send: by name, with the statuses that they may bring, and made by changing valid ones."""

from __future__ import annotations

import gzip
import json
import random
import select
import socket
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from bench.clients import PROMPT, TEXT

from regard.serve.config import Limits

JSON, FORM = b"application/json", b"application/x-www-form-urlencoded"
HELLO = bytes.fromhex("16030100c8010000c40303") + bytes(range(193))  # how TLS begins
SLOW = 0.25  # seconds between two bytes
MILLION = 10**6


@dataclass(frozen=True)
class Case:
    name: str
    sent: bytes | Callable[[socket.socket], None]
    statuses: tuple[int | None, ...]
    """That it may bring; None: closed without one."""
    slow: bool = False
    """It is ended by a limit of time."""
    long: bool = False
    """A text that is hard to read."""


def post(path: str, body: Any, *more: bytes, kind: bytes = JSON, size: int | None = None) -> bytes:
    """A request that closes; `more` are lines of its head, `size` what it says of its length."""
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    length = b"Content-Length: %d" % (len(data) if size is None else size)
    return _head(f"POST {path}", b"Content-Type: " + kind, length, *more) + data


def get(target: str, *more: bytes, method: str = "GET") -> bytes:
    return _head(f"{method} {target}", *more)


def _head(first: str, *lines: bytes) -> bytes:
    return b"\r\n".join([f"{first} HTTP/1.1".encode(), b"Host: localhost", b"Connection: close", *lines, b"", b""])


def chunked(path: str, body: bytes) -> bytes:
    return _head(f"POST {path}", b"Content-Type: " + JSON, b"Transfer-Encoding: chunked") + body


def dribble(data: bytes, first: bytes = b"") -> Callable[[socket.socket], None]:
    """A byte at a time, until there is an answer."""

    def drive(way: socket.socket) -> None:
        way.sendall(first)
        for i in range(len(data)):
            if select.select([way], [], [], SLOW)[0]:
                return
            way.sendall(data[i : i + 1])

    return drive


def half_closed(data: bytes) -> Callable[[socket.socket], None]:
    def drive(way: socket.socket) -> None:
        way.sendall(data)
        way.shutdown(socket.SHUT_WR)

    return drive


@dataclass(frozen=True)
class Offer:
    """What the service has: a pair of languages, and the name of a language model."""

    pair: dict[str, str]
    language: str


def cases(offer: Offer) -> list[Case]:
    kinds = (_slow, _framing, _heads, _bodies, _amounts, _targets, _texts)
    return [case for kind in kinds for case in kind(offer)]


def _slow(offer: Offer) -> list[Case]:
    """What waits until the service has enough of it, and what leaves in the middle."""
    whole = post("/translate", {"q": TEXT, **offer.pair})
    head = post("/translate", b"", size=90)
    return [
        Case("nothing is said", b"", (None,), slow=True),
        Case("half a head", b"GET /health HTT", (None,), slow=True),
        Case("a head byte by byte", dribble(b"GET /health HTTP/1.1\r\nX: " + b"a" * 60), (None,), slow=True),
        Case("a second head byte by byte", dribble(b"X" * 80, get("/health")[:-2] + b"\r\n"), (200,), slow=True),
        Case("a body that never comes", head, (408,), slow=True),
        Case("a body byte by byte", dribble(b" " * 80, head), (408,), slow=True),
        Case("a body shorter than told", post("/translate", {"q": TEXT, **offer.pair}, size=200), (408,), slow=True),
        Case("a chunk that never ends", chunked("/translate", b"5\r\n{"), (408,), slow=True),
        Case("a chunk of 16 hexadecimal digits", chunked("/translate", b"f" * 16 + b"\r\n{}"), (408, 400), slow=True),
        Case("half-closed after all", half_closed(whole), (200, None)),
        Case("half-closed in the head", half_closed(whole[:30]), (None, 400)),
        Case("half-closed in the body", half_closed(whole[:-9]), (None, 400)),
        Case("half-closed at once", half_closed(b""), (None,)),
        Case("half-closed in a stream", half_closed(post("/v1/completions", _stream(offer))), (200, None)),
    ]


def _stream(offer: Offer) -> dict[str, Any]:
    return {"model": offer.language, "prompt": PROMPT, "max_tokens": 500, "stream": True}


def _framing(offer: Offer) -> list[Case]:
    """How long a body is, said in ways that contradict themselves."""
    asked = json.dumps({"q": TEXT, **offer.pair}).encode()
    two = post("/translate", asked, b"Content-Length: 3")
    both = post("/translate", asked, b"Transfer-Encoding: chunked")
    chunks = b"".join(b"1\r\n%c\r\n" % byte for byte in asked) + b"0\r\n\r\n"
    return [
        Case("a chunk for each byte", chunked("/translate", chunks), (200,)),
        Case("chunks and a trailer", chunked("/translate", chunks[:-2] + b"X: y\r\n\r\n"), (200,)),
        Case("a chunk of no number", chunked("/translate", b"zz\r\n{}\r\n0\r\n\r\n"), (400,)),
        Case("a chunk of -1", chunked("/translate", b"-1\r\n{}\r\n0\r\n\r\n"), (400,)),
        Case("a chunk of 100 digits", chunked("/translate", b"f" * 100 + b"\r\n{}"), (400,)),
        Case("a chunk longer than told", chunked("/translate", b"1\r\n{}{}{}\r\n0\r\n\r\n"), (400, None)),
        Case("chunks of two megabytes", chunked("/translate", b"10000\r\n" + b"a" * 65536 + b"\r\n" * 32), (400, 413)),
        Case(
            "a megabyte and more in chunks", chunked("/translate", (b"10000\r\n%s\r\n" % (b"a" * 65536)) * 20), (413,)
        ),
        Case("an unknown transfer encoding", _head("POST /translate", b"Transfer-Encoding: gzip"), (400, 501)),
        Case("a body longer than told", post("/translate", asked, size=9), (400,)),
        Case("a length of -1", post("/translate", asked, size=-1), (400,)),
        Case("a length of 30 digits", post("/translate", asked, size=10**30), (400, 413)),
        Case("a length of 4 gigabytes", post("/translate", asked, size=1 << 32), (413,)),
        Case("a length in words", _head("POST /translate", b"Content-Length: many"), (400,)),
        Case("two lengths", two, (400,)),
        Case("a length and chunks", both, (400,)),
        Case("no body", post("/translate", b""), (400,)),
        Case("no body and no length", _head("POST /translate"), (400,)),
        Case("a body to GET", get("/health", b"Content-Length: 5") + b"12345", (200,)),
        Case("100-continue", post("/translate", asked, b"Expect: 100-continue"), (200,)),
        Case("200-fine", post("/translate", asked, b"Expect: 200-fine"), (200, 400, 417)),
    ]


def _heads(_: Offer) -> list[Case]:
    """First lines and heads that are no HTTP/1.1, or too much of it."""
    many = [b"x%d: y" % i for i in range(10_000)]
    return [
        Case("HTTP/0.9", b"GET /\r\n\r\n", (400,)),
        Case("HTTP/1.0", b"GET /health HTTP/1.0\r\n\r\n", (200,)),
        Case("HTTP/2", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes(9), (400, 404)),
        Case("HTTP/9.9", b"GET /health HTTP/9.9\r\nHost: localhost\r\n\r\n", (200, 400)),
        Case("TLS", HELLO, (400, None)),
        Case("binary", bytes(range(256)) * 4, (400, None)),
        Case("empty lines", b"\r\n" * 1000, (400, None)),
        Case("10,000 short headers", get("/health", *[b"a: b"] * 10_000), (200, 400)),
        Case("10,000 headers", get("/health", *many), (200, 400)),
        Case("a header of a megabyte", get("/health", b"X: " + b"a" * MILLION), (400, None)),
        Case("a name of a megabyte", get("/health", b"a" * MILLION + b": x"), (400, None)),
        Case("a path of a megabyte", get("/" + "a" * MILLION), (400, None)),
        Case("a header with NUL", get("/health", b"X: a\0b"), (400,)),
        Case("a header with a line feed", get("/health", b"X: a\n b"), (200, 400)),
        Case("a header without a colon", get("/health", b"nothing"), (400,)),
        Case("a header with a space before the colon", get("/health", b"X : a"), (400,)),
        Case("a folded header", get("/health", b"X: a\r\n b"), (200, 400)),
        Case("a header in bytes", get("/health", b"X: \xff\xfe"), (200, 400)),
        Case("no host", b"GET /health HTTP/1.1\r\n\r\n", (400,)),
        Case("two hosts", get("/health", b"Host: b"), (400,)),
        Case("odd hosts", b"GET /nothing HTTP/1.1\r\nHost: [::\xff%@\r\nConnection: close\r\n\r\n", (400, 403)),
        Case("a wish for a web socket", get("/", b"Upgrade: websocket", b"Sec-WebSocket-Key: a"), (200,)),
        Case("a wish for HTTP/2", get("/", b"Connection: Upgrade", b"Upgrade: h2c"), (200,)),
        Case("cookies", get("/health", b"Cookie: " + b"a=b; " * 5_000), (200,)),
        Case("ranges", get("/page.js", b"Range: bytes=" + b"0-,-1," * 5_000), (200,)),
        Case("a password in bytes", get("/health", b"Authorization: Basic \xff\xfe"), (200,)),
    ]


def _bodies(offer: Offer) -> list[Case]:
    """What JSON and forms can hold, or should not."""
    pair = f'"source": "{offer.pair["source"]}", "target": "{offer.pair["target"]}"'.encode()
    model = b'"model": "%s"' % offer.language.encode()

    def asking(name: str, more: bytes, *statuses: int) -> Case:
        return Case(name, post("/translate", b'{"q": "a", %s, %s}' % (pair, more)), statuses)

    def going_on(name: str, more: bytes, *statuses: int) -> Case:
        return Case(name, post("/v1/completions", b"{%s, %s}" % (model, more)), statuses)

    return [
        Case("100,000 brackets", post("/translate", b"[" * 100_000), (400,)),
        Case("20,000 brackets", post("/translate", b"[" * 20_000), (400,)),
        Case("20,000 objects in one another", post("/translate", b'{"a":' * 20_000 + b"1" + b"}" * 20_000), (400,)),
        Case("500 arrays in one another", post("/translate", b'{"q": %s}' % (b"[" * 500 + b"]" * 500)), (400,)),
        asking("1e400", b'"alternatives": 1e400', 400),
        asking("10^5 digits", b'"alternatives": ' + b"9" * 100_000, 400),
        asking("240 numbers of 4,300 digits", b'"x": [%s]' % b",".join([b"9" * 4_300] * 240), 200),
        asking("a number as text", b'"alternatives": "2"', 200),
        asking("a truth as a number", b'"alternatives": []', 400),
        asking("duplicate keys", b'"q": [], "q": "a"', 200),
        asking("an unknown key", b'"": 0, "\\u0000": 0, "__proto__": {}', 200),
        *(going_on(f"temperature {each}", b'"temperature": ' + each.encode(), 400) for each in (
            "1e400", "-1e400", "NaN", "Infinity", "-Infinity", "-0.1", "2.0001", '"hot"', "{}", "1" * 5_000
        )),
        *(going_on(f"seed {each}", b'"seed": ' + each.encode(), 400) for each in (
            "1e400", "0.5", "9223372036854775808", "1" * 4_000, '"' + "1" * 4_400 + '"'
        )),
        going_on("nearly no temperature", b'"temperature": 5e-324, "top_p": 5e-324', 200),
        going_on("20,000 biases", b'"logit_bias": {%s}' % b",".join(b'"%d":{}' % i for i in range(20_000)), 400),
        Case("half a character", post("/translate", b'{"q": "\\ud800", %s}' % pair), (400,)),
        Case("half a character in bytes", post("/translate", b'{"q": "\xed\xa0\x80", %s}' % pair), (400,)),
        Case("half a character as a language", post("/translate", b'{"q": "a", "source": "\\udfff"}'), (400,)),
        Case("half a character to look at", post("/api/translate", b'{"text": "\\uDfff"}'), (400,)),
        Case("a key of half a character", post("/detect", b'{"q": "a", "api_key": "\\uDc00"}'), (400,)),
        going_on("half a character to go on with", b'"prompt": "\\ud83d", "echo": true', 400),
        going_on("a whole character in halves", b'"prompt": "\\ud83d\\ude00", "echo": true', 200),
        Case("no UTF-8", post("/translate", b'{"q": "\xff\xfe", %s}' % pair), (400,)),
        Case("no UTF-8 in a form", post("/translate", b"q=\xff&source=en&target=de", kind=FORM), (400,)),
        Case("no UTF-8 behind percent signs", post("/translate", b"q=%ff%fe&source=&target=", kind=FORM), (400,)),
        Case("UTF-16", post("/translate", json.dumps({"q": "a", **offer.pair}).encode("utf-16")), (200, 400)),
        Case("NUL in a text", post("/translate", {"q": "a\0b", **offer.pair}), (200,)),
        Case("NUL alone", post("/translate", {"q": "\0", **offer.pair}), (200,)),
        Case("control characters", post("/translate", {"q": "".join(map(chr, range(32))), **offer.pair}), (200,)),
        Case("no characters", post("/translate", {"q": "\ufffe\uffff\U0010ffff\ufdd0", **offer.pair}), (200,)),
        Case("compressed", post("/translate", gzip.compress(b"{}"), b"Content-Encoding: gzip"), (400, 415)),
        Case("a bomb", post("/translate", gzip.compress(bytes(1 << 24)), b"Content-Encoding: gzip"), (400, 415)),
        Case("a form as JSON", post("/translate", b"q=a&source=en&target=de"), (400,)),
        Case("JSON as a form", post("/translate", b'{"q": "a"}', kind=FORM), (400,)),
        Case("a form of files", post("/translate", b"--x--", kind=b"multipart/form-data; boundary=x"), (415,)),
        Case("a number", post("/translate", b"1"), (400,)),
        Case("null", post("/translate", b"null"), (400,)),
        Case("cut off", post("/translate", b'{"q": "a", "sou'), (400,)),
        Case("an odd kind of content", post("/translate", {"q": "a", **offer.pair}, kind=b"\xff/\0"[:2]), (400, 415)),
    ]  # fmt: skip


def _amounts(offer: Offer) -> list[Case]:
    """As much as is taken, and more."""
    language = offer.language

    def asking(name: str, q: Any, *statuses: int) -> Case:
        return Case(name, post("/translate", {"q": q, **offer.pair}), statuses)

    def going_on(name: str, *statuses: int, **more: Any) -> Case:
        return Case(name, post("/v1/completions", {"model": language, "prompt": PROMPT, **more}), statuses)

    escaped = b"q=" + b"%e4%b8%96" * 100_000 + b"&source=a&target=b"
    return [
        asking("no texts", [], 400),
        asking("64 texts", ["a"] * 64, 200),
        asking("65 texts", ["a"] * 65, 400),
        asking("64 texts of 625 characters", ["a b c d e" * 69] * 64, 200),
        asking("64 texts of 626 characters", ["a" * 626] * 64, 400),
        asking("20,000 texts", ["a"] * 20_000, 400),
        asking("100,000 texts", ["a"] * 100_000, 400),
        asking("20,000 numbers for texts", [1] * 20_000, 400),
        asking("100,000 objects for texts", [{}] * 100_000, 400),
        asking("texts in texts", [["a"]], 400),
        asking("1,000 lines", "a\n" * 999, 200),
        asking("20,000 lines", ["a\n" * 312] * 64, 400),
        asking("more than a megabyte", "a" * (MILLION + 60_000), 413),
        Case("a form of 10,000 fields", post("/translate", b"a=b&" * 10_000, kind=FORM), (400,)),
        Case("64 texts in a form", post("/detect", b"q=a&" * 64, kind=FORM), (200,)),
        Case("a form all in percent signs", post("/translate", escaped, kind=FORM), (400,), long=True),
        Case("10,000 fields behind a question mark", get("/languages?" + "a=b&" * 10_000), (200,)),
        Case("a language of a megabyte", post("/translate", {"q": "", "source": "a" * MILLION, "target": "a"}), (400,)),
        Case("a model of a megabyte", post("/v1/completions", {"model": "a" * MILLION}), (400,)),
        Case("a user of 40 kilobytes", post("/v1/completions", {"model": language, "user": "a" * 40_000}), (200,)),
        going_on("all tokens of a request", 200, 503, n=8, max_tokens=100),
        going_on("too many tokens", 400, n=8, max_tokens=1024, prompt=["a", "b"]),
        going_on("too many outputs", 400, n=MILLION),
        going_on("as many tokens as there are atoms", 400, max_tokens=10**80),
        going_on("stops at everything", 200, stop=["a", "e", " ", "t"]),
        going_on("stops of nothing", 400, stop=["", "a"]),
        going_on("a stop of a megabyte", 400, stop="a" * MILLION),
        going_on("top_k of all", 200, top_k=1 << 20),
        going_on("likely words of a stream", 400, stream=True, logprobs=1),
        Case("16 beams, 8 of them told", post("/api/translate", {"text": TEXT, "beam": 16, "best": 8}), (200,)),
        Case("17 beams", post("/api/translate", {"text": TEXT, "beam": 17}), (400,)),
        Case("more best than beams", post("/api/translate", {"text": TEXT, "beam": 1, "best": 8}), (200,)),
        Case("an output of nothing", post("/api/attention", {"text": TEXT, "output": ""}), (200, 400)),
        Case("an output of many lines", post("/api/attention", {"text": TEXT, "output": "a\nb\n"}), (200, 400)),
        Case("links of odd lines", post("/api/translate", {"text": ["\r", "a\rb\v"], "alignment": True}), (200,)),
        Case("two lines to look at", post("/api/attention", {"text": "a\nb"}), (400,)),
        Case("nothing to look at", post("/api/attention", {"text": " "}), (400,)),
    ]  # fmt: skip


def _targets(_: Offer) -> list[Case]:
    """Places and methods that there are not."""
    out = [
        "/../../etc/passwd",
        "/..%2f..%2fetc/passwd",
        "/%2e%2e/%2e%2e/etc/passwd",
        "/..%5c..%5cwindows",
        "//etc/passwd",
    ]
    out += ["/page.js/../../server.py", "/page.js%00.html", "/%ff%fe", "/%", "/%zz", "/./health", "/;/health"]
    out += ["/..%c0%af..%c0%afetc/passwd", "/%252e%252e/etc/passwd", "/.git/config", "/serve/page/index.html"]
    odd = ["TRACE", "FOO", "DELETE", "PUT", "PATCH", "OPTIONS", "get", "A" * 1000]
    return [
        *(Case(f"GET {each}", get(each), (404,)) for each in out),
        *(Case(f"{each[:9]} /translate", get("/translate", method=each), (405,)) for each in ("GET", "HEAD", *odd)),
        *(Case(f"{each[:9]} /health", get("/health", method=each), (405,)) for each in ("POST", *odd)),
        Case("HEAD /health", get("/health", method="HEAD"), (200,)),
        Case("CONNECT", get("example.org:443", method="CONNECT"), (404, 405, 400)),
        Case("OPTIONS *", get("*", method="OPTIONS"), (404, 405, 400)),
        Case("another's address", get("http://example.org/health"), (200, 404, 400)),
        Case("a slash more", post("/translate/", {}), (307, 404)),
        Case("a slash more, behind a percent sign", get("/health%2f"), (307, 404)),
        Case("a fragment", get("/health#a"), (404, 200, 400)),
        Case("a target in bytes", b"GET /\xff\xfe HTTP/1.1\r\nHost: localhost\r\n\r\n", (400, 404)),
        Case("a target with spaces", b"GET /a b HTTP/1.1\r\nHost: localhost\r\n\r\n", (400,)),
    ]


def _texts(offer: Offer) -> list[Case]:
    """Texts that are hard to read: at the limit of characters, and far beyond."""
    limit, draw = Limits().characters, random.Random(0)
    texts = {
        "one word": "a" * limit,
        "spaces": " " * (limit - 1) + "a",
        "only spaces": " " * limit,
        "words of a letter": "a " * (limit // 2),
        "CJK without spaces": "世界語" * (limit // 3),
        "combining marks": "e" + "\u0301" * (limit - 1),
        "marks of many kinds": "".join(chr(draw.randrange(0x300, 0x370)) for _ in range(limit)),
        "ZWJ emoji": ("👩‍👩‍👧‍👦" * limit)[:limit],
        "one ligature": "\ufdfa" * limit,  # 18 characters each, once normalised
        "Hangul in parts": "\u1112\u1161\u11ab" * (limit // 3),
        "any character": "".join(chr(draw.randrange(0xE000, 0x110000)) for _ in range(limit)),
        "white space of all kinds": "a\t\r\v\f\x85\u2028\u3000" * (limit // 8),
        "invisible": "\u200b\u2060\ufeff\u00ad" * (limit // 4),
        "right to left": "\u202e\u05d0" * (limit // 2),
        "digits": "7" * limit,
        "stops": "." * limit,
        "quotation marks": '"\\' * (limit // 2),
    }
    found = []
    for name, text in texts.items():
        path = {"/translate": {"q": text, **offer.pair}, "/detect": {"q": text}}
        path["/v1/completions"] = {"model": offer.language, "prompt": text, "max_tokens": 4}
        found += [Case(f"{name}, {where}", post(where, asked), (200,), long=True) for where, asked in path.items()]
        found += [Case(f"{name}, /api/attention", post("/api/attention", {"text": text}), (200, 400), long=True)]
    for name, text in {"a million letters": "a" * MILLION, "a million spaces": " " * MILLION}.items():
        found += [Case(f"{name}, /translate", post("/translate", {"q": text, **offer.pair}), (400,), long=True)]
        form = b"source=en&target=de&q=" + text.encode().replace(b" ", b"+")
        found += [Case(f"{name}, form", post("/translate", form, kind=FORM), (400,), long=True)]
    return found


def valid(offer: Offer) -> list[bytes]:
    pair, going_on = offer.pair, {"model": offer.language, "prompt": PROMPT, "max_tokens": 5}
    form = f"q=the+dog&source={pair['source']}&target={pair['target']}&alternatives=1".encode()
    return [
        post("/translate", {"q": TEXT, "format": "text", "alternatives": 1, **pair}),
        post("/translate", {"q": [TEXT, "a bird"], "source": "auto", "target": pair["target"]}),
        post("/translate", form, kind=FORM),
        post("/detect", {"q": TEXT}),
        post("/v1/completions", {**going_on, "temperature": 0.5, "top_p": 0.9, "stop": ["a"]}),
        post("/v1/completions", {**going_on, "stream": True, "stream_options": {"include_usage": True}}),
        post("/v1/completions", {**going_on, "prompt": ["a", "b"], "n": 2, "logprobs": 2, "echo": True, "seed": 1}),
        post("/api/translate", {"text": [TEXT], "beam": 3, "best": 2, "alignment": True}),
        post("/api/attention", {"text": "a dog", "output": "ein Hund"}),
        post("/api/run", {"text": [TEXT, ""], "options": {"beam": 2, "num_best": 2, "alignment": True}}),
        chunked("/detect", b'8\r\n{"q":"a"\r\n1\r\n}\r\n0\r\n\r\n'),
        *(get(path, b"Accept: */*") for path in ("/health", "/languages", "/v1/models", "/api/models", "/ready", "/")),
    ]  # fmt: skip


PIECES = [
    b"\r\n",
    b"\r\n\r\n",
    b"\0",
    b'"',
    b"\\",
    b"{",
    b"[",
    b"]",
    b"}",
    b",",
    b":",
    b"&",
    b"=",
    b"%",
    b"%00",
    b"\\u0000",
]
PIECES += [b"\\ud800", b"\xf0\x9f\x91\xa9", b"\xff", b"1e999", b"-1", b"null", b"true", b"9" * 30, b"NaN", b" " * 50]
PIECES += [b"Content-Length: 5\r\n", b"Transfer-Encoding: chunked\r\n", b"Expect: 100-continue\r\n", b"HTTP/1.1", b"\n"]


def mutated(draw: random.Random, base: list[bytes]) -> bytes:
    """A valid request with some bytes changed: anywhere, or in the body with a length that is right again."""
    whole = draw.choice(base)
    head, gap, body = whole.partition(b"\r\n\r\n")
    if not body or draw.random() < 0.4:
        return _changed(draw, whole)
    lines = [line for line in head.split(b"\r\n") if not line.startswith((b"Content-Length", b"Transfer-Encoding"))]
    body = _changed(draw, body)
    return b"\r\n".join([*lines, b"Content-Length: %d" % len(body)]) + gap + body


def _changed(draw: random.Random, whole: bytes) -> bytes:
    data = bytearray(whole)
    for _ in range(draw.choice([1, 1, 2, 4])):
        place = draw.randrange(len(data) + 1)
        piece = draw.choice([draw.choice(PIECES), draw.randbytes(draw.randrange(1, 5)), data[place : place + 9] * 3])
        data[place : place + draw.choice([0, 0, 1, 1, 4, 30])] = draw.choice([b"", piece, piece, piece])
    return bytes(data)
