"""The page, in a browser: what it shows is what the models say, and whatever goes wrong is told."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest

from regard.look.look import Look
from tests.serve import sight
from tests.serve.sight import BIRD, CAT, DOG, PAIRS, VIEWS, Place, expect, fulfil, sound, taken, type_in, view
from tests.serve.toys import MODELS, make_model, service

HTML = "<img src=x onerror=document.title='run'>"
BUSY = "there is too much to do; try again soon"
WIDTH = "document.documentElement.scrollWidth"
PAPER = "getComputedStyle(document.body).backgroundColor"


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    folder = tmp_path_factory.mktemp("models")
    folders = (
        sight.taught(folder / "en-de"),
        make_model(folder / "de-en", "recurrent"),
        make_model(folder / "tale", "language"),
    )
    with service(*folders) as running:
        found = Place(running.url, folder)
        for name in ("en-de", "de-en"):
            found.ask("/api/attention", text=BIRD, model=name)  # those who look are slow to start
        yield found


@pytest.fixture(scope="module")
def look(place: Place) -> Look:
    found: Look = place.model().attend(CAT)
    return found


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with sight.chromium() as made:
        yield made


@pytest.fixture
def page(browser: Any, place: Place) -> Iterator[Any]:
    with sight.opened(
        browser, place.url, base_url=place.url, permissions=["clipboard-read", "clipboard-write"]
    ) as made:
        yield made


def unfold(page: Any) -> None:
    for name in ("others", "file", "wire"):
        page.locator(f"#{name} > summary").click()
    expect(page.locator("#alternatives li")).to_have_count(4)
    expect(page.locator("#said .word")).to_have_count(5)


def test_everything_comes_from_the_service(page: Any) -> None:
    page.goto("/", wait_until="networkidle")
    assert {*page.seen.paths} == {"/", "/page.js", "/page.css", "/view.js", "/view.css", "/icon.svg", "/api/models"}
    expect(page.locator("#text")).to_be_focused()
    names = ["English → German · en-de", "German → English · de-en", "tale"]
    assert page.locator("#model option").all_text_contents() == names


def test_a_translation_appears_as_one_types(page: Any, place: Place) -> None:
    page.goto("/")
    expect(page.locator("#text")).to_be_focused()  # once the models are known; keys pressed before go nowhere
    page.locator("#text").press_sequentially(CAT, delay=5)
    expect(page.locator("#said")).to_have_text(PAIRS[CAT])
    expect(page.locator("#count")).to_have_text("19 / 5000")
    score = place.ask("/api/translate", text=CAT)["translations"][0]["outputs"][0]["score"]
    expect(page.locator("#score")).to_have_text(f"score {score:.3f}")
    page.locator("#text").fill("")
    for name in ("said", "score", "view", "read"):
        expect(page.locator(f"#{name}")).to_be_empty()
    expect(page.locator("#copy")).to_be_disabled()
    type_in(page, f"{CAT}\n\n{BIRD}", looked=False)
    assert page.locator("#said").inner_text() == f"{PAIRS[CAT]}\n\n{PAIRS[BIRD]}"
    expect(page.locator("#view")).to_have_text(re.compile("single line"))


def test_a_text_that_is_too_long_is_told_and_not_sent(page: Any) -> None:
    type_in(page, BIRD)
    page.seen.posts.clear()
    page.locator("#text").fill("a" * 5001)
    expect(page.locator("#problem")).to_have_text(re.compile("5000 characters"))
    expect(page.locator("#count")).to_have_text("5001 / 5000")
    expect(page.locator("#said")).to_be_empty()
    sound(page)
    page.wait_for_timeout(200)
    assert not page.seen.posts
    page.route("**/api/translate", lambda route: None, times=1)  # a service that is busy would refuse so much
    with page.expect_request("**/api/translate"):
        page.locator("#text").fill("🙂" * 2600)  # each is two for a browser, and one for the service
    expect(page.locator("#count")).to_have_text("2600 / 5000")
    type_in(page, DOG)
    expect(page.locator("#said")).to_have_text(PAIRS[DOG])
    expect(page.locator("#problem")).to_be_empty()


def test_swapping_turns_the_languages_and_moves_the_text(page: Any) -> None:
    type_in(page, BIRD, looked=False)
    page.locator("#swap").click()
    expect(page.locator("#text")).to_have_value(PAIRS[BIRD])
    expect(page.locator("#source-name")).to_have_text("German")
    expect(page.locator("#target-name")).to_have_text("English")
    page.locator("#swap").click()
    expect(page.locator("#source-name")).to_have_text("English")


@pytest.mark.full
def test_there_is_no_swapping_without_a_way_back(page: Any, place: Place) -> None:
    found = place.ask("/api/models")
    fulfil(page, "/api/models", {**found, "models": found["models"][:1]})
    page.goto("/")
    expect(page.locator("#swap")).to_be_disabled()
    expect(page.locator("#swap")).to_have_attribute("title", re.compile("German.* English"))


@pytest.mark.parametrize("clipboard", [True, False])
def test_a_translation_can_be_copied(page: Any, clipboard: bool) -> None:
    if not clipboard:  # as for pages that come from another machine by http
        page.add_init_script("Object.defineProperty(navigator, 'clipboard', { value: undefined })")
        page.add_init_script("addEventListener('copy', () => (window.copied = String(getSelection())))")
    type_in(page, BIRD, looked=False)
    page.locator("#copy").click()
    expect(page.locator("#copy")).to_have_text("Copied")
    assert page.evaluate("window.copied ?? navigator.clipboard.readText()") == PAIRS[BIRD]


def test_alternatives_come_with_their_scores(page: Any, place: Place) -> None:
    type_in(page, CAT, looked=False)
    page.locator("#others summary").click()
    _, *others = place.ask("/api/translate", text=CAT, best=5)["translations"][0]["outputs"]
    assert len(others) == 4
    expect(page.locator("#alternatives li")).to_have_text([f"{each['text']}{each['score']:.3f}" for each in others])


def test_a_word_that_is_pointed_at_lights_what_was_read(page: Any, look: Look) -> None:
    type_in(page)
    picture = look.picture()
    expect(page.locator("#said .word")).to_have_text(picture.target[:-1])
    page.locator("#said .word").nth(1).hover()
    row = picture.weights[1]
    best = sorted(range(len(row)), key=lambda i: -row[i])[:3]
    most = ", ".join(f"{picture.source[i]} {row[i]:.2f}" for i in best)
    expect(page.locator("#gaze")).to_have_text(f"Katze ← {most}")
    lit = page.locator("#read span").evaluate_all("all => all.map((e) => +e.style.getPropertyValue('--weight'))")
    assert lit == pytest.approx(row, abs=1e-5)  # of float32
    sound(page)
    page.mouse.move(0, 0)
    expect(page.locator("#gaze")).to_be_empty()
    page.locator("#copy").focus()
    for name in ("eine", "Katze"):
        page.keyboard.press("Tab")
        expect(page.locator("#gaze")).to_have_text(re.compile(f"^{name} ← "))


@pytest.mark.full
def test_words_of_an_output_that_was_cut_can_be_pointed_at(page: Any, place: Place) -> None:
    model = place.model("de-en")  # it never ends by itself
    text = next(text for text in PAIRS if model.attend(text).axes["target"].words == model(text).split(" "))
    page.goto("/")
    page.locator("#model").select_option("1")
    type_in(page, text)
    page.locator("#said .word").last.hover()
    expect(page.locator("#gaze")).to_have_text(re.compile(r" ← \S+ \d\.\d\d, "))


def test_a_chosen_map_is_the_models_and_stays_as_one_types_on(page: Any, place: Place, look: Look) -> None:
    type_in(page)
    assert sight.shows(page, look.picture().weights)
    page.get_by_label("Site").select_option("decoder.0.cross")
    page.get_by_label("Head").select_option("head 1")
    page.get_by_label("whole words").uncheck()
    assert sight.shows(page, look.picture("decoder.0.cross", 1, pieces=True).weights)
    type_in(page, DOG)
    other = place.model().attend(DOG).picture("decoder.0.cross", 1, pieces=True)
    assert sight.shows(page, other.weights)
    sight.cell(page, 0, 1).hover()
    assert sight.told(page) == f"{other.target[0]} ← {other.source[1]}: {other.weights[0][1]:.3f}"
    view(page, "Lines")
    type_in(page, BIRD)
    expect(page.get_by_role("button", name="Lines")).to_have_attribute("aria-pressed", "true")
    expect(page.get_by_label("Head")).to_have_value("2")


@pytest.mark.parametrize("dropped", [False, True])
def test_a_file_is_translated_line_by_line(page: Any, dropped: bool) -> None:
    lines = [*PAIRS, "", "  "] * 8
    page.goto("/")
    if dropped:
        make = "(text) => { const d = new DataTransfer(); d.items.add(new File([text], 'some.text.txt')); return d; }"
        dragged = page.evaluate_handle(make, "\n".join(lines))
        page.dispatch_event("#text", "dragover", {"dataTransfer": dragged})
        sound(page)
        page.dispatch_event("#text", "drop", {"dataTransfer": dragged})
        how = "{ bubbles: true, cancelable: true, dataTransfer: new DataTransfer() }"
        mere_text = page.locator("#text").evaluate(f"(text) => text.dispatchEvent(new DragEvent('drop', {how}))")
        assert mere_text, "the browser may not put it where one types"
    else:
        sight.give(page, lines)
    expect(page.locator("#progress-told")).to_contain_text("40 of 40")
    expect(page.locator("#download")).to_have_attribute("download", "some.text.de.txt")
    assert page.locator("#progress").evaluate("(each) => each.value") == 1
    assert [len(body["text"]) for _, body in page.seen.posts] == [32, 8]
    assert taken(page) == [*(PAIRS.get(line, "") for line in lines), ""]


@pytest.mark.full
def test_a_busy_service_is_asked_again_for_a_part_of_a_file(page: Any) -> None:
    page.seen.fails = True
    page.goto("/")
    fulfil(page, "/api/translate", {"error": BUSY}, 503, times=1)
    sight.give(page, [BIRD])
    expect(page.locator("#progress-told")).to_contain_text("1 of 1")
    assert len(page.seen.posts) == 2
    expect(page.locator("#file-problem")).to_be_empty()


@pytest.mark.full
def test_a_line_of_a_file_that_is_too_long_is_told_with_its_number(page: Any) -> None:
    page.goto("/")
    sight.give(page, [CAT, BIRD, "a" * 5001, DOG])
    problem = re.compile("Line 3 .*5001 .*5000")
    expect(page.locator("#file-problem")).to_have_text(problem)
    expect(page.locator("#stop")).to_be_hidden()
    assert taken(page) == [PAIRS[CAT], PAIRS[BIRD], ""]
    type_in(page, DOG, looked=False)
    expect(page.locator("#file-problem")).to_have_text(problem)


@pytest.mark.full
def test_a_file_can_be_stopped_and_another_takes_its_place(page: Any) -> None:
    page.goto("/")
    asked: list[Any] = []
    page.route("**/api/translate", lambda route: asked.append(route) or (len(asked) % 2 and route.fallback()))
    sight.give(page, [BIRD] * 40)
    expect(page.locator("#progress-told")).to_contain_text("32 of 40")
    sound(page)
    page.locator("#stop").click()
    expect(page.locator("#download")).to_be_focused()
    assert taken(page) == [PAIRS[BIRD]] * 32 + [""]
    expect(page.locator("#file-problem")).to_be_empty()
    sight.give(page, [DOG] * 50)
    expect(page.locator("#progress-told")).to_contain_text("32 of 50")
    sight.give(page, [CAT] * 3)
    expect(page.locator("#progress-told")).to_contain_text("3 of 3")
    assert taken(page) == [PAIRS[CAT]] * 3 + [""]


def test_an_error_of_the_service_is_told_and_typing_on_recovers(page: Any) -> None:
    page.seen.fails = True
    failures = [(500, {"error": "the worker ended"}, "The worker ended."), (503, {"error": BUSY}, f"T{BUSY[1:]}.")]
    failures += [(502, "<h1>Bad gateway</h1>", re.compile("answer")), (0, "", re.compile("reached"))]
    for (status, body, problem), text in zip(failures, [CAT, DOG, BIRD, CAT], strict=True):
        type_in(page, text)
        expect(page.locator("#said")).to_have_text(PAIRS[text])
        expect(page.locator("#problem")).to_be_empty()
        if status:
            fulfil(page, "/api/translate", body, status)
        else:
            page.route("**/api/translate", lambda route: route.abort())
        page.locator("#text").fill("a dog")
        expect(page.locator("#problem")).to_have_text(problem)
        for name in ("said", "view", "read"):  # which belonged to another text
            expect(page.locator(f"#{name}")).to_be_empty()
        page.unroute("**/api/translate")
    fulfil(page, "/api/attention", {"error": "4,000,000 weights are too many"}, 400)
    type_in(page, BIRD, looked=False)
    expect(page.locator("#view")).to_have_text(re.compile("attention.* 4,000,000 weights"))
    expect(page.locator("#said")).to_have_text(PAIRS[BIRD])


@pytest.mark.full
def test_a_service_that_does_not_tell_its_models_is_told(page: Any) -> None:
    page.seen.fails = True
    fulfil(page, "/api/models", {"error": BUSY}, 503)
    page.goto("/")
    expect(page.locator("#problem")).to_have_text(f"T{BUSY[1:]}.")
    expect(page.locator("#problem")).to_be_visible()


def test_what_looks_like_html_stays_text(page: Any, place: Place) -> None:
    outputs = [{"text": f"{HTML} {i}", "score": -0.5, "log_prob": -1.0, "tokens": []} for i in range(2)]
    fulfil(page, "/api/translate", {"translations": [{"text": HTML, "outputs": outputs}]})
    data = place.ask("/api/attention", text=BIRD)
    for side in data["sides"].values():
        side.update(labels=[HTML] * len(side["labels"]), words=[HTML] * len(side["words"]))
    data["tree"] = [{**node, "text": HTML} for node in data["tree"]]
    data["candidates"] = [[(HTML, share) for _, share in step] for step in data["candidates"]]
    data["maps"] = [{**each, "name": HTML} for each in data["maps"]]
    fulfil(page, "/api/attention", data)
    page.goto("/")
    page.locator("#text").fill(HTML)
    expect(page.locator("#said")).to_have_text(f"{HTML} 0")
    page.locator("#others summary").click()
    expect(page.locator("#alternatives li")).to_have_text(f"{HTML} 1-0.500")
    expect(page.locator("#response")).to_contain_text(HTML)
    expect(page.locator("#read span").first).to_have_text(HTML)
    for name in VIEWS:
        view(page, name)
        expect(page.locator("#view")).to_contain_text(HTML[:20])
        assert page.locator("main img").count() == 0
    assert page.title() == "Regard"
    assert "/x" not in page.seen.paths


def test_a_text_goes_on_as_it_is_told(page: Any) -> None:
    page.goto("/")
    page.locator("#model").select_option("tale")
    expect(page.locator("#translator")).to_be_hidden()
    page.locator("#prompt").fill("a cat")
    page.locator("#tokens").fill("12")
    page.locator("#temperature").fill("0")  # by itself it draws, and any text could come
    with page.expect_response("**/v1/completions") as found:
        page.locator("#tell").press("Enter")
    expect(page.locator("#tell")).to_be_focused()
    events = [json.loads(line[6:]) for line in found.value.text().split("\n") if line.startswith("data: {")]
    said = "".join(choice["text"] for event in events for choice in event["choices"])
    assert len(events) > 2
    expect(page.locator("#prompt")).to_have_value(re.sub("\r\n?", "\n", f"a cat{said}"))
    how = {"model": "tale", "prompt": "a cat", "stream": True, "max_tokens": 12, "temperature": 0}
    assert page.seen.posts == [("/v1/completions", how)]
    page.seen.fails = True
    page.locator("#tokens").fill("9999")
    page.locator("#tell").click()
    expect(page.locator("#problem")).to_have_text(re.compile("^Max_tokens: "))


@pytest.mark.full
def test_a_text_that_goes_on_can_be_stopped(page: Any) -> None:
    page.add_init_script(sight.SLOWLY)
    page.goto("/")
    page.locator("#model").select_option("tale")
    page.locator("#prompt").fill("a cat")
    page.locator("#tell").click()
    expect(page.locator("#prompt")).to_have_value(re.compile("^a cat and and and"))
    expect(page.locator("#hush")).to_be_focused()
    page.locator("#hush").click()
    expect(page.locator("#hush")).to_be_disabled()
    before = page.locator("#prompt").input_value()
    page.wait_for_timeout(100)
    assert page.locator("#prompt").input_value() == before
    expect(page.locator("#problem")).to_be_empty()


@pytest.mark.full
def test_dark_and_light_are_remembered(page: Any) -> None:
    type_in(page)
    light = page.evaluate(PAPER)
    page.locator("#theme").click()
    assert (dark := page.evaluate(PAPER)) != light
    page.locator("#said .word").first.hover()
    sound(page)
    page.reload()
    assert page.evaluate(PAPER) == dark
    page.locator("#theme").click()
    page.emulate_media(color_scheme="dark")
    page.reload()
    assert page.evaluate(PAPER) == light


@pytest.mark.full
def test_a_phone_never_scrolls_sideways(page: Any) -> None:
    page.set_viewport_size({"width": 390, "height": 844})
    type_in(page)
    for each in page.locator(".panes > .card:visible").all():
        assert each.bounding_box()["height"] > 150
    unfold(page)
    sound(page)
    for name in VIEWS:
        view(page, name)
        assert page.evaluate(WIDTH) == 390, name
    sound(page)
    page.locator("#model").select_option("tale")
    assert page.evaluate(WIDTH) == 390


def test_everything_is_reached_by_tab(page: Any) -> None:
    type_in(page)
    unfold(page)
    page.locator("#model").focus()
    name = "(({ activeElement: e }) => e.id || e.name || e.textContent || e.tagName)(document)"
    reached = ["model"]
    while reached[-1] != "openapi.json" and len(reached) < 60:
        page.keyboard.press("Tab")
        reached.append(page.evaluate(name))
    wanted = "select, button:enabled, textarea, input, summary, a[href], [tabindex='0']"
    names = "all => all.filter((e) => e.checkVisibility()).map((e) => e.id || e.name || e.textContent || e.tagName)"
    assert {*page.eval_on_selector_all(wanted, names), *PAIRS[CAT].split(), *VIEWS, "words"} == set(reached)


def test_what_was_sent_and_came_is_shown(page: Any) -> None:
    type_in(page)
    page.locator("#wire summary").click()
    parts = [part.partition("\n") for part in page.locator("#request").text_content().split("\n\n")]
    assert [(head.removeprefix("POST "), json.loads(body)) for head, _, body in parts] == page.seen.posts
    answers = page.locator("#response").text_content()
    assert re.search(r'^200\n{.*"text": "eine Katze.*\n\n200\n{.*encoder.0.self', answers, re.DOTALL)
    assert page.request.get(page.get_by_role("link", name="openapi.json").get_attribute("href")).ok


@pytest.fixture(scope="module")
def answerers() -> Iterator[Place]:
    with service(*(MODELS / name for name in ("classification", "bert", "spans"))) as running:
        found = Place(running.url, MODELS)
        found.ask("/api/attention", text="rot", model="bert")
        yield found


@pytest.fixture
def asking(browser: Any, answerers: Place) -> Iterator[Any]:
    with sight.opened(browser, answerers.url, base_url=answerers.url) as made:
        made.goto("/")
        yield made


def ask_on(page: Any, number: int, text: str) -> None:
    page.locator("#model").select_option(str(number))
    with page.expect_response("**/api/attention"):
        page.locator("#text").fill(text)


def test_labels_and_missing_words_are_shown_with_their_probabilities(asking: Any, answerers: Place) -> None:
    expect(asking.locator("#text")).to_be_focused()
    for name in ("swap", "copy", "others", "file", "moved"):
        expect(asking.locator(f"#{name}")).to_be_hidden()
    ask_on(asking, 0, "rot grün blau")
    (found,) = answerers.ask("/api/run", text="rot grün blau")["results"]
    shown = [f"{each['label']} {each['probability']:.3f}" for each in found["all"]]
    expect(asking.locator("#said .bars li")).to_have_text(shown)
    assert sight.shows(asking, answerers.model("classification").attend("rot grün blau").picture().weights)
    sound(asking)
    ask_on(asking, 1, "rot [MASK] blau [MASK]")
    expect(asking.locator("#source-name")).to_have_text("A text with [MASK] for each missing word")
    how = {"model": "bert", "text": "rot [MASK] blau [MASK]", "options": {"num_best": 5}}
    (found,) = answerers.ask("/api/run", **how)["results"]
    expect(asking.locator("#said .filled")).to_have_text(found["text"])
    words = [f"{each['word']} {each['probability']:.3f}" for blank in found["blanks"] for each in blank]
    expect(asking.locator("#said .bars li")).to_have_text(words)
    assert ("/api/run", how) in asking.seen.posts
    asking.locator("#text").fill("")
    expect(asking.locator("#said")).to_be_empty()


def test_parts_of_a_question_stand_on_lines_of_their_own(asking: Any) -> None:
    asking.locator("#model").select_option("2")
    asking.locator("#text").fill("rot so ist blau grau")
    asking.wait_for_timeout(200)
    assert not asking.seen.posts
    ask_on(asking, 2, "rot so ist blau grau\nwas so?")
    expect(asking.locator("#said")).to_have_text("rot so ist blau grau")
    expect(asking.locator("#said .span")).to_have_text("blau")
    assert [body["text"] for _, body in asking.seen.posts] == ["rot so ist blau grau\twas so?"] * 2


ANSWERS: list[tuple[dict[str, Any], str]] = [
    ({"line": "3.5000", "answer": 3.5}, "3.5000"),
    ({"line": "O B-X", "answer": ["O", "B-X"], "probability": [0.9, 0.8]}, "rotO blauB-X"),
    ({"line": "[]", "vector": [0.25] * 30}, f"{'  '.join(['0.250'] * 20)} … (30 numbers)"),
    ({"line": HTML, "sum": HTML}, HTML),
    ({"line": "", "all": [{"label": HTML, "probability": 0.5}]}, f"{HTML} 0.500"),
]


@pytest.mark.parametrize(("result", "shown"), ANSWERS, ids=["number", "tags", "vector", "another task", "label"])
def test_an_answer_is_shown_by_what_it_holds(result: dict[str, Any], shown: str, asking: Any) -> None:
    fulfil(asking, "/api/run", {"model": "classification", "task": "x", "results": [result]})
    asking.locator("#text").fill("rot blau")
    expect(asking.locator("#said")).to_have_text(shown.replace("  ", " ") if "vector" in result else shown)
    sound(asking)


@pytest.mark.full
def test_an_answer_fits_a_phone(asking: Any) -> None:
    asking.set_viewport_size({"width": 390, "height": 844})
    ask_on(asking, 1, "rot [MASK] blau [MASK]")
    assert asking.evaluate(WIDTH) == 390
    sound(asking)
