"""What a model looked at, in a browser: each view of a page that was saved."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import regard
from regard.look.look import Look, document
from tests.look.series import series
from tests.serve.sight import CAT, PAIRS, VIEWS, cell, chromium, expect, opened, shows, sound, taught, told, view


@pytest.fixture(scope="module")
def look(tmp_path_factory: pytest.TempPathFactory) -> Look:
    found: Look = regard.load(taught(tmp_path_factory.mktemp("models") / "en-de")).attend(CAT)
    return found


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as made:
        yield made


@pytest.fixture
def page(browser: Any, look: Look, tmp_path: Path) -> Iterator[Any]:
    path = tmp_path / "look.html"
    look.save(path)
    with opened(browser, path.as_uri(), offline=True) as made:
        made.goto(path.as_uri())
        yield made
        assert made.seen.paths == [str(path)]


@pytest.mark.full
def test_a_page_that_was_saved_needs_nothing_else(page: Any) -> None:
    for name in VIEWS:
        view(page, name)
        expect(page.get_by_role("button", name=name, exact=True)).to_be_focused()
        sound(page)
    page.emulate_media(color_scheme="dark")
    page.set_viewport_size({"width": 390, "height": 844})
    for name in VIEWS:
        view(page, name)
        assert page.evaluate("document.documentElement.scrollWidth") == 390
        sound(page)
    view(page, "Lines")
    assert page.locator(".stage").evaluate("(stage) => stage.scrollWidth <= stage.clientWidth")


def test_what_is_left_out_is_named(browser: Any, look: Look, tmp_path: Path) -> None:
    path = tmp_path / "part.html"
    path.write_text(document("part", look.page(most=sum(w.numel() for w in look.told.maps.values()) - 1)), "utf-8")
    with opened(browser, path.as_uri(), offline=True) as made:
        made.goto(path.as_uri())
        expect(made.locator("p.remark", has_text="encoder.0.self")).to_be_visible()
        sound(made)


def test_any_map_can_be_chosen_and_its_numbers_are_the_models(page: Any, look: Look) -> None:
    assert shows(page, look.picture().weights)
    for pieces in (False, True):
        page.get_by_label("whole words").set_checked(not pieces)
        for site, head in (("decoder.0.cross", None), ("decoder.1.self", 2), ("encoder.1.self", 3)):
            page.get_by_label("Site").select_option(site)
            page.get_by_label("Head").select_option("mean of heads" if head is None else f"head {head}")
            expect(page.get_by_label("Head")).to_be_focused()
            picture = look.picture(site, head, pieces=pieces)
            assert shows(page, picture.weights)
            assert page.locator("text[data-row]").all_text_contents() == picture.target
            assert page.locator("text[data-column]").all_text_contents() == picture.source
            cell(page, 2, 1).hover()
            name, _, weight = told(page).rpartition(": ")
            assert name == f"{picture.target[2]} ← {picture.source[1]}"
            assert float(weight) == pytest.approx(picture.weights[2][1], abs=0.00051)  # three digits are told


def test_the_heat_map_is_read_by_pointing_and_by_keys(page: Any, look: Look) -> None:
    picture = look.picture()
    page.locator("text[data-row='0']").hover()
    most = max(range(len(picture.source)), key=lambda i: picture.weights[0][i])
    assert told(page).startswith(f"eine ← {picture.source[most]} {picture.weights[0][most]:.2f}, ")
    page.get_by_label("whole words").press("Space")
    page.keyboard.press("Space")
    page.keyboard.press("Tab")  # the box kept the focus
    for key in ("ArrowUp", "ArrowDown", "ArrowRight", "ArrowDown"):
        page.keyboard.press(key)
    assert told(page) == f"sieht ← cat: {picture.weights[2][1]:.3f}"
    assert page.locator("text.lit").all_text_contents() == ["cat", "sieht"]
    page.keyboard.press("Shift+Tab")
    assert "cell" in told(page)


def test_of_many_steps_of_a_series_some_are_labelled(browser: Any, tmp_path: Path) -> None:
    path = tmp_path / "series.html"
    series().save(path)
    with opened(browser, path.as_uri(), offline=True) as made:
        made.goto(path.as_uri())
        assert made.get_by_label("Site").input_value() == "0"  # across, though another map comes last
        assert made.locator("text[data-row]").all_text_contents() == ["rainy", "</s>"]
        hours = [f"{hour:g}h" for hour in (i * 2.5 for i in range(40))]
        assert made.locator("text[data-column]").all_text_contents() == hours
        label, under = made.locator("text[data-column='20']"), cell(made, 0, 20)
        assert abs(float(label.get_attribute("x")) - float(under.get_attribute("x"))) < 10
        under.hover()
        assert told(made) == "rainy ← 10h: 0.005"


@pytest.mark.full
def test_lines_tell_what_a_word_looked_at(page: Any, look: Look) -> None:
    view(page, "Lines")
    drawn = sum(weight >= 0.02 for row in look.picture().weights for weight in row)
    expect(page.locator("line")).to_have_count(drawn)
    page.locator("text[data-row='1']").hover()
    assert told(page).startswith("Katze ← ")
    assert set(page.locator("line:not(.dim)").evaluate_all("all => all.map((each) => each.dataset.row)")) == {"1"}
    page.locator("text[data-column='1']").focus()
    assert told(page).startswith("cat → ")


@pytest.mark.full
def test_a_head_among_all_of_them_opens(page: Any, look: Look) -> None:
    view(page, "All heads")
    expect(page.locator("button.small")).to_have_count(6 * 4 + 1)  # of six sites, and how much each word moved each
    page.get_by_role("button", name="decoder.0.cross, head 2").click()
    expect(page.get_by_role("button", name="Heat map")).to_be_focused()
    expect(page.get_by_label("Head")).to_have_value("3")
    assert shows(page, look.picture("decoder.0.cross", 2).weights)


def test_how_much_each_word_moved_each_stands_beside_attention(page: Any, look: Look) -> None:
    page.get_by_label("Site").select_option("gradient × input")
    page.get_by_label("whole words").uncheck()
    assert shows(page, look.saliency())
    assert "moved" in told(page)


def test_the_beam_is_shown_with_its_scores(page: Any, look: Look) -> None:
    view(page, "Beam")
    tree = look.tree()
    assert tree is not None
    scores = {f"score {node.score:.3f}" for node in tree.nodes if node.score is not None}
    assert len(scores) > 1
    assert set(page.locator(".final").all_text_contents()) == scores
    expect(page.locator(".best > .final")).to_have_text(max(scores, key=lambda score: float(score[6:])))
    said = "".join(page.locator(".best > .word").all_text_contents())
    assert said.replace("▁", " ").strip() == f"{PAIRS[CAT]}</s>"


def test_what_else_was_likely_is_told_for_each_step(page: Any, look: Look) -> None:
    view(page, "Next words")
    expect(page.locator("th")).to_have_text(look.axes["target"].labels)
    for row, step in zip(page.locator("tr").all(), look.told.likely, strict=True):
        likely = [f"{look.name([word])[0]} {share:.3f}" for word, share in step]
        assert row.locator("td").all_text_contents() == likely
