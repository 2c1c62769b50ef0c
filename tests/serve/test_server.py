"""The service as a whole: answers as the command line gives them, keys, ends, and what it refuses to begin."""

from __future__ import annotations

import base64
import os
import re
import signal
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from regard.serve.app import PAGE, ROUTES
from tests.serve.toys import TEXTS, Service, make_model, service
from tests.training.toy import regard


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    root = tmp_path_factory.mktemp("models")
    kinds = {"en-de": "transformer", "de-en": "recurrent", "talk": "language"}
    return [make_model(root / name, kind) for name, kind in kinds.items()]


@pytest.fixture(scope="module")
def running(folders: list[Path]) -> Iterator[Service]:
    with service(*folders) as found:
        yield found


@pytest.fixture
def client(running: Service) -> Iterator[httpx2.Client]:
    with httpx2.Client(base_url=running.url, timeout=30) as found:
        yield found


@pytest.mark.parametrize(("number", "source", "target"), [(0, "en", "de"), (1, "de", "en")])
def test_it_says_what_the_command_line_says(
    number: int, source: str, target: str, folders: list[Path], client: httpx2.Client
) -> None:
    lines = [*TEXTS, "", " ", "x " * 90, "日本 é́ 👩‍👩‍👧 \u200f", "<b>&amp;"]
    by_run = regard("run", folders[number], stdin="".join(f"{line}\n" for line in lines).encode()).stdout.decode()
    found = client.post("/translate", json={"q": lines, "source": source, "target": target}).json()
    assert [line for text in found["translatedText"] for line in text.split("\n")] == by_run.split("\n")[:-1]
    whole = client.post("/api/translate", json={"text": "\n".join(lines), "source": source}).json()
    assert whole["translations"][0]["outputs"][0]["text"] == by_run.removesuffix("\n")


def test_a_language_that_is_found_is_one_that_can_be_translated(client: httpx2.Client) -> None:
    texts = ["a cat sees a dog", "eine Katze"]
    for source, target in (("en", "de"), ("de", "en")):
        found = client.post("/translate", json={"q": texts, "source": "auto", "target": target}).json()
        told = client.post("/translate", json={"q": texts, "source": source, "target": target}).json()
        assert [each["language"] for each in found["detectedLanguage"]] == [source] * 2
        assert found["translatedText"] == told["translatedText"]
    nowhere = client.post("/translate", json={"q": texts, "source": "auto", "target": "fr"})
    assert nowhere.status_code == 400
    assert re.search(r"\bfr\b.*\ben\b.*\bde\b", nowhere.json()["error"])


def test_many_at_once_get_what_they_get_alone(client: httpx2.Client, running: Service) -> None:
    alone = [client.post("/api/translate", json={"text": text, "source": "en"}).json() for text in TEXTS]
    found: dict[int, Any] = {}

    def ask(number: int) -> None:
        with httpx2.Client(base_url=running.url, timeout=30) as own:
            found[number] = own.post("/api/translate", json={"text": TEXTS[number % 4], "source": "en"}).json()

    threads = [threading.Thread(target=ask, args=(i,)) for i in range(24)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert [found[i] for i in range(24)] == [alone[i % 4] for i in range(24)]


def test_every_route_has_its_headers_and_a_description(client: httpx2.Client) -> None:
    paths = client.get("/openapi.json").json()["paths"]
    assert set(paths) == set(ROUTES)
    for path in [*PAGE, "/health", "/nowhere", "/metrics", "/openapi.json"]:
        headers = client.get(path).headers
        assert headers["content-security-policy"].startswith("default-src 'self'")
        assert headers["x-content-type-options"] == "nosniff"
        assert "access-control-allow-origin" not in headers
    assert client.get("/translate").status_code == 405
    assert {*client.get("/translate").json()} == {"error"}


def test_metrics_count_routes_and_never_what_was_asked(client: httpx2.Client, running: Service) -> None:
    secret = "quicksilver"
    client.post("/translate", json={"q": secret, "source": "en", "target": "de"})
    client.get(f"/{secret}")
    client.post("/v1/completions", json={"model": secret, "prompt": secret})
    told = client.get("/metrics").text
    assert 'regard_requests_total{route="/translate",status="200"}' in told
    assert secret not in told
    assert secret not in "".join(running.log)


def test_with_keys_every_route_asks_for_one(folders: list[Path], tmp_path: Path) -> None:
    keys = tmp_path / "keys"
    keys.write_text("schlüssel\nother\n", "utf-8")
    with service(folders[0], "--key-file", keys) as found, httpx2.Client(base_url=found.url, timeout=30) as client:
        every = [*((entry.method, path) for path, entry in ROUTES.items()), ("GET", "/openapi.json")]
        every += [("GET", path) for path in PAGE] + [("GET", "/metrics"), ("GET", "/nowhere")]
        basic = base64.b64encode("anyone:schlüssel".encode()).decode()
        for method, path in every:
            text = {"q": "a cat", "source": "en", "target": "de", "text": "a cat", "model": "en-de", "prompt": "a"}
            body = {"json": text} if method == "POST" else {}
            assert client.request(method, path, **body).status_code == 401, path
            for wrong in ("Bearer x", "Bearer", "Basic eDp5", "Basic é", "schlüssel"):
                given = {"authorization": wrong.encode()}
                assert client.request(method, path, headers=given, **body).status_code == 401, path
            for right in ("Bearer other", f"Basic {basic}"):
                given = {"authorization": right.encode()}
                assert client.request(method, path, headers=given, **body).status_code != 401, path
        fine = {"q": "a cat", "source": "en", "target": "de"}
        assert client.post("/translate", json={**fine, "api_key": "other"}).status_code == 200
        refused = client.post("/translate", json={**fine, "api_key": "othe"}).json()
        assert {*refused} == {"error"}
        assert "api_key" in refused["error"]
    assert "schlüssel" not in "".join(found.log)


def test_a_key_of_null_is_none(client: httpx2.Client) -> None:
    fine = {"q": "a cat", "source": "en", "target": "de", "api_key": None}
    assert client.post("/translate", json=fine).status_code == 200
    assert client.post("/detect", json={"q": "a cat", "api_key": None}).status_code == 200


HOSTS = {
    "localhost": 200,
    "LOCALHOST:99": 200,
    "a.localhost": 200,
    "127.0.0.1": 200,
    "[::1]:5000": 200,
    "10.0.0.7": 200,
}
HOSTS |= {socket.gethostname(): 200, "called.so": 200, "evil.example": 403, "localhost.evil.example": 403, "": 403}
HOSTS |= {"127.0.0.1.evil.example:5000": 403, "[::": 403, "127.0.0.1@evil.example": 403, "evil.example/127.0.0.1": 403}


def test_without_keys_only_its_own_names_and_pages_may_ask(folders: list[Path]) -> None:
    fine = {"q": "a cat", "source": "en", "target": "de"}
    with (
        service(folders[0], env={"REGARD_HOSTS": "other, Called.so"}) as found,
        httpx2.Client(base_url=found.url, timeout=30) as client,
    ):
        for host, status in HOSTS.items():
            for path in ("/languages", "/", "/nowhere"):
                wanted = status if path != "/nowhere" or status == 403 else 404
                assert client.get(path, headers={"host": host}).status_code == wanted, host
            assert client.post("/translate", json=fine, headers={"host": host}).status_code == status, host
        own = found.url.removeprefix("http://")
        pages = [
            ({"origin": f"http://{own}"}, 200),
            ({"origin": "http://evil.example"}, 403),
            ({"origin": "null"}, 403),
        ]
        pages += [({"sec-fetch-site": "same-origin", "origin": "https://behind.a.proxy"}, 200)]
        pages += [({"sec-fetch-site": each}, status) for each, status in (("none", 200), ("same-site", 403))]
        for headers, status in pages:
            assert client.post("/translate", data=fine, headers=headers).status_code == status, headers
            assert client.post("/translate", json=fine, headers=headers).status_code == status, headers


def test_json_has_to_be_called_so(client: httpx2.Client) -> None:
    for path, body in (
        ("/translate", b'{"q": "a", "source": "en", "target": "de"}'),
        ("/api/translate", b'{"text": "a"}'),
    ):
        for kind in ("text/plain", "text/plain; charset=application/json", "multipart/form-data; boundary=x", None):
            headers = {} if kind is None else {"content-type": kind}
            assert client.post(path, content=body, headers=headers).status_code == 415, (path, kind)
        fine = {"content-type": "Application/JSON; charset=utf-8"}
        assert client.post(path, content=body, headers=fine).status_code == 200
    assert client.post("/api/translate", data={"text": "a"}).status_code == 415  # no form of LibreTranslate's


def test_a_key_can_be_bound_to_no_page_by_the_password_of_a_browser(folders: list[Path]) -> None:
    fine, basic = {"q": "a cat", "source": "en", "target": "de"}, base64.b64encode(b"me:k").decode()
    with (
        service(folders[0], env={"REGARD_API_KEYS": "k"}) as found,
        httpx2.Client(base_url=found.url, timeout=30) as client,
    ):
        foreign = {"host": "any.name", "origin": "http://evil.example"}
        assert (
            client.post("/translate", data=fine, headers=foreign | {"authorization": f"Basic {basic}"}).status_code
            == 403
        )
        assert client.post("/translate", data=fine, headers=foreign | {"authorization": "Bearer k"}).status_code == 200
        assert client.post("/translate", data={**fine, "api_key": "k"}, headers=foreign).status_code == 200
        sneaky = client.get("/languages", headers={"host": "any.name/translate?"})  # the path is that of the request
        assert sneaky.status_code == 401


def test_alignment_of_a_long_text_is_that_of_the_command_line(folders: list[Path], client: httpx2.Client) -> None:
    text = "the cat sees a dog and " * 20
    by_run = regard("run", folders[0], "--alignment", stdin=f"{text}\n".encode()).stdout.decode().rstrip("\n")
    asked = {"text": [text, "a cat"], "source": "en", "alignment": True, "best": 2}
    (long, short) = client.post("/api/translate", json=asked).json()["translations"]
    told = client.post("/api/translate", json={"text": text, "source": "en", "alignment": True}).json()
    (best,) = told["translations"][0]["outputs"]
    assert f"{best['text']} ||| {best['alignment']}" == by_run
    assert set(best) == {"text", "score", "log_prob", "tokens", "alignment"}
    assert all(output["alignment"] for output in [*long["outputs"], *short["outputs"]])


def test_what_would_take_too_much_to_look_at_is_refused_with_the_numbers(client: httpx2.Client) -> None:
    found = client.post("/api/attention", json={"text": "a cat", "output": "世" * 1_500, "source": "en"})
    assert found.status_code == 400
    assert re.search(r"tokens.* 4,50\d", found.json()["error"])
    asked = {"text": "a cat", "output": "the dog " * 450, "model": "talk"}
    assert re.search("weights.* 1,048,576 ", client.post("/api/attention", json=asked).json()["error"])


def test_sigterm_lets_what_was_asked_end(folders: list[Path]) -> None:
    with service(folders[0]) as found:
        (worker,), body = found.workers(), b'{"q": "a cat", "source": "en", "target": "de"}'
        os.kill(worker, signal.SIGSTOP)
        head = f"POST /translate HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n".encode()
        head += b"Content-Type: application/json\r\n\r\n"
        asked = [socket.create_connection(("127.0.0.1", found.port), timeout=15) for _ in range(4)]
        for each in asked:
            each.sendall(head + body)
        time.sleep(0.5)
        found.process.send_signal(signal.SIGTERM)
        time.sleep(0.5)
        os.kill(worker, signal.SIGCONT)
        for each in asked:
            with each:
                assert each.recv(4096).startswith(b"HTTP/1.1 200")
        assert found.process.wait(15) == 0
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", found.port))


def test_its_workers_end_with_it_whatever_ends_it(folders: list[Path]) -> None:
    with service(folders[0]) as found:
        (worker,) = found.workers()
        found.process.kill()
        found.process.wait()
        end = time.monotonic() + 5
        while time.monotonic() < end and _runs(worker):
            time.sleep(0.05)
        assert not _runs(worker)


def _runs(pid: int) -> bool:
    try:
        return "Z" not in Path(f"/proc/{pid}/stat").read_text("utf-8").rpartition(")")[2].split()[0]
    except OSError:
        return False


def test_ready_tells_of_a_worker_that_is_gone_and_of_the_next(folders: list[Path]) -> None:
    with service(folders[0]) as found, httpx2.Client(base_url=found.url, timeout=30) as client:
        assert client.get("/ready").json() == {"ready": True, "waiting": 0, "restarts": 0}
        os.kill(found.workers()[0], signal.SIGKILL)
        seen = set()
        end = time.monotonic() + 15
        while time.monotonic() < end:
            response = client.get("/ready")
            seen.add(response.status_code)
            if response.json()["restarts"] and response.status_code == 200:
                break
        assert seen == {200, 503}
        assert client.post("/translate", json={"q": "a", "source": "en", "target": "de"}).status_code == 200
        assert client.get("/health").json() == {"status": "ok"}


def test_what_cannot_be_served_is_told_in_words(folders: list[Path], tmp_path: Path) -> None:
    def told(*arguments: object) -> str:
        return regard("serve", *arguments, code=2).stderr.decode()

    assert str(tmp_path / "none") in told(tmp_path / "none", "--port", 0)
    empty = tmp_path / "keys"
    empty.write_text("\n", "utf-8")
    assert re.search(f"{empty}.*--key-file", told(folders[0], "--key-file", empty))
    assert re.search("/none.*No such file", told(folders[0], "--key-file", tmp_path / "none"))
    assert re.search("de=x.*en-de=x", told("de=x"))
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert re.search(rf"127\.0\.0\.1 .*\b{port}\b.*--port", told(folders[0], "--port", port))
    assert re.search("no.such.host.invalid.*--host", told(folders[0], "--host", "no.such.host.invalid"))


def test_it_warns_where_anyone_may_ask(folders: list[Path]) -> None:
    with service(folders[0], "--host", "0.0.0.0") as found:
        assert any(re.search(r"0\.0\.0\.0.*--key-file", line) for line in found.log)
