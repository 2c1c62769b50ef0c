"""Clients that others wrote, unmodified, against a service of a translator, a language model and an encoder.

    python -m bench.clients TRANSLATOR LANGUAGE_MODEL ENCODER     (folders; languages as in en-de=FOLDER; half a minute)

Calls by OpenAI's own client, by libretranslatepy, and plain ones as LibreTranslate's documents have them; first without
keys, then with. Each asserts what came back; one line for each, and exit status 1 if any was not as it has to be.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any
from urllib.error import HTTPError
from urllib.parse import urlencode
from urllib.request import Request, urlopen

import openai
from libretranslatepy import LibreTranslateAPI
from tests.serve.toys import service

KEY = "a-key-of-theirs"
TEXT = "the cat sees a dog"
PROMPT = "the cat"


@dataclass(frozen=True)
class At:
    """A service, as a client knows it."""

    url: str
    key: str = ""

    @cached_property
    def openai(self) -> openai.OpenAI:
        return openai.OpenAI(base_url=f"{self.url}/v1", api_key=self.key or "none", max_retries=0, timeout=60)

    @cached_property
    def libre(self) -> LibreTranslateAPI:
        return LibreTranslateAPI(self.url, self.key or None)

    @cached_property
    def names(self) -> dict[str, str]:
        """Of the first model for each task."""
        models = self.get("/api/models")["models"]
        return {model["task"]: model["name"] for model in reversed(models)}

    @cached_property
    def pair(self) -> dict[str, str]:
        first = next(each for each in self.get("/languages") if each["targets"])
        return {"source": first["code"], "target": first["targets"][0]}

    def complete(self, prompt: Any = PROMPT, **more: Any) -> Any:
        return self.openai.completions.create(model=self.names["lm"], prompt=prompt, **more)

    def streamed(self, **more: Any) -> list[Any]:
        return list(self.complete(stream=True, **more))

    def get(self, path: str) -> Any:
        return self.ask(Request(self.url + path))

    def post(self, path: str, **fields: Any) -> Any:
        """As JSON."""
        return self.ask(Request(self.url + path, json.dumps(fields).encode(), {"Content-Type": "application/json"}))

    def form(self, path: str, **fields: Any) -> Any:
        return self.ask(Request(self.url + path, urlencode(fields, doseq=True).encode()))

    def ask(self, request: Request) -> Any:
        if self.key:
            request.add_header("Authorization", f"Bearer {self.key}")
        with urlopen(request, timeout=60) as answer:
            assert answer.headers["Content-Type"] == "application/json", answer.headers["Content-Type"]
            return json.load(answer)


def refused(kind: type[openai.APIStatusError], call: Callable[[], object], code: str | None = None) -> None:
    """In OpenAI's shape: a message for people, a type and a code for programs."""
    try:
        raise AssertionError(f"was answered: {call()}")
    except kind as error:
        told = error.body
    assert isinstance(told, dict), told
    assert set(told) == {"message", "type", "param", "code"}, told
    assert told["message"], told
    assert code is None or told["code"] == code, told


def refused_plainly(status: int, call: Callable[[], object]) -> str:
    """In LibreTranslate's shape: an object with a text, which clients show."""
    try:
        raise AssertionError(f"was answered: {call()}")
    except HTTPError as error:
        with error:
            told, found = json.load(error), error.code
    assert found == status, found
    assert set(told) == {"error"}, told
    assert isinstance(told["error"], str), told
    return str(told["error"])


def one(found: Any) -> str:
    (choice,) = found.choices
    return str(choice.text)


def models_are_listed(at: At) -> None:
    found = list(at.openai.models.list())
    assert {each.id for each in found} == set(at.names.values())
    assert all(each.object == "model" and each.owned_by and each.created > 0 for each in found)
    assert [at.openai.models.retrieve(each.id) for each in found] == found


def a_completion_has_all_its_fields(at: At) -> None:
    found = at.complete()
    assert found.object == "text_completion"
    assert found.id.startswith("cmpl-")
    assert found.model == at.names["lm"]
    assert abs(found.created - time.time()) < 60
    assert found.choices[0].finish_reason in ("stop", "length")
    assert found.choices[0].logprobs is None


def usage_adds_up(at: At) -> None:
    usage = at.complete(max_tokens=7).usage
    assert usage.prompt_tokens > 0
    assert 0 < usage.completion_tokens <= 7
    assert usage.total_tokens == usage.prompt_tokens + usage.completion_tokens


def the_same_seed_says_the_same(at: At) -> None:
    assert one(at.complete(seed=7, max_tokens=12)) == one(at.complete(seed=7, max_tokens=12))


def other_seeds_say_other_things(at: At) -> None:
    assert len({one(at.complete(seed=seed, max_tokens=12)) for seed in range(4)}) > 1


def a_negative_seed_is_one(at: At) -> None:
    assert one(at.complete(seed=-(1 << 63))) == one(at.complete(seed=-(1 << 63)))


def temperature_0_says_the_same_always(at: At) -> None:
    assert one(at.complete(temperature=0, seed=1)) == one(at.complete(temperature=0, seed=2))


def a_small_top_p_is_near_to_greedy(at: At) -> None:
    assert one(at.complete(top_p=1e-9, seed=3)) == one(at.complete(temperature=0))


def top_k_1_of_other_servers_is_greedy(at: At) -> None:
    assert one(at.complete(extra_body={"top_k": 1}, seed=3)) == one(at.complete(temperature=0))


def max_tokens_1_says_one_token(at: At) -> None:
    found = at.complete(max_tokens=1, temperature=0)
    assert found.usage.completion_tokens == 1
    assert one(at.complete(max_tokens=9, temperature=0)).startswith(one(found))


def without_max_tokens_there_are_16(at: At) -> None:
    assert 0 < at.complete().usage.completion_tokens <= 16


def many_tokens_are_said(at: At) -> None:
    assert at.complete(max_tokens=200, seed=4).usage.completion_tokens <= 200


def n_gives_as_many_choices(at: At) -> None:
    found = at.complete(n=3, seed=5)
    assert [choice.index for choice in found.choices] == [0, 1, 2]
    assert found.choices[0].text == one(at.complete(seed=5))
    assert found.usage.prompt_tokens == at.complete().usage.prompt_tokens


def a_stop_ends_the_text_before_it(at: At) -> None:
    whole = one(at.complete(temperature=0, max_tokens=30))
    stop = whole[len(whole) // 2 :][:2]
    found = at.complete(temperature=0, max_tokens=30, stop=stop)
    assert one(found) == whole[: whole.index(stop)]
    assert found.choices[0].finish_reason == "stop"


def four_stops_are_taken(at: At) -> None:
    whole = one(at.complete(temperature=0, max_tokens=30))
    found = one(at.complete(temperature=0, max_tokens=30, stop=["§", "€", "¶", whole[5]]))
    assert found == whole[: whole.index(whole[5])]


def echo_puts_the_prompt_before(at: At) -> None:
    assert one(at.complete(echo=True, seed=6)) == PROMPT + one(at.complete(seed=6))


def logprobs_belong_to_the_text(at: At) -> None:
    found = at.complete(logprobs=3, seed=8, max_tokens=6).choices[0]
    told = found.logprobs
    assert "".join(told.tokens) == found.text
    assert [found.text[i:][: len(token)] for i, token in zip(told.text_offset, told.tokens, strict=True)] == told.tokens
    assert all(each <= 0 for each in told.token_logprobs)
    assert all(1 <= len(each) <= 3 for each in told.top_logprobs)


def logprobs_0_tells_only_what_was_said(at: At) -> None:
    told = at.complete(logprobs=0, temperature=0, max_tokens=4).choices[0].logprobs
    assert len(told.token_logprobs) == len(told.tokens) > 0
    assert all(not each for each in told.top_logprobs)


def greedy_words_are_the_likeliest(at: At) -> None:
    told = at.complete(logprobs=1, temperature=0, max_tokens=5).choices[0].logprobs
    for own, (best,) in zip(told.token_logprobs, (each.values() for each in told.top_logprobs), strict=True):
        assert abs(own - best) < 1e-3  # of a float32, along another way of computing it


def a_stream_says_what_the_whole_answer_says(at: At) -> None:
    parts = at.streamed(seed=9, max_tokens=25)
    assert "".join(part.choices[0].text for part in parts) == one(at.complete(seed=9, max_tokens=25))
    assert len({part.id for part in parts}) == 1
    assert [part.choices[0].finish_reason for part in parts].count(None) == len(parts) - 1
    assert parts[-1].choices[0].finish_reason in ("stop", "length")


def a_stream_stops_where_the_whole_answer_stops(at: At) -> None:
    whole = one(at.complete(temperature=0, max_tokens=30))
    stop = whole[len(whole) // 2 :][:3]
    parts = at.streamed(temperature=0, max_tokens=30, stop=[stop])
    assert "".join(part.choices[0].text for part in parts) == whole[: whole.index(stop)]


def a_stream_of_several_keeps_them_apart(at: At) -> None:
    said = ["", "", "", ""]
    for part in at.streamed(prompt=[PROMPT, TEXT], n=2, seed=10):
        said[part.choices[0].index] += part.choices[0].text
    assert said == [choice.text for choice in at.complete([PROMPT, TEXT], n=2, seed=10).choices]


def a_stream_echoes(at: At) -> None:
    parts = at.streamed(echo=True, temperature=0)
    assert "".join(part.choices[0].text for part in parts) == one(at.complete(echo=True, temperature=0))


def a_stream_tells_its_usage(at: At) -> None:
    *parts, last = at.streamed(seed=11, stream_options={"include_usage": True})
    assert last.choices == []
    assert last.usage == at.complete(seed=11).usage
    assert all(part.usage is None for part in parts)


def a_stream_can_be_left(at: At) -> None:
    with at.complete(stream=True, max_tokens=1000, seed=12) as stream:
        assert next(iter(stream)).choices
    assert one(at.complete(temperature=0))


def a_list_of_prompts_is_answered_in_order(at: At) -> None:
    found = at.complete([PROMPT, TEXT, PROMPT], temperature=0)
    assert [choice.index for choice in found.choices] == [0, 1, 2]
    alone = [one(at.complete(prompt, temperature=0)) for prompt in (PROMPT, TEXT)]
    assert [choice.text for choice in found.choices] == [*alone, alone[0]]


def an_empty_prompt_begins_anew(at: At) -> None:
    assert at.complete("", seed=13).choices[0].text


def a_prompt_in_any_script_is_taken(at: At) -> None:
    prompt = "Grüße, 世界! 👩‍👩‍👧 \u0301 \x00 \u202e"
    assert one(at.complete(prompt, echo=True, max_tokens=2)).startswith(prompt)


def a_long_prompt_is_taken(at: At) -> None:
    assert at.complete((TEXT + " ") * 200, max_tokens=2).choices[0].finish_reason


def what_is_not_given_may_be_null(at: At) -> None:
    names = ["max_tokens", "temperature", "top_p", "n", "stream", "logprobs", "echo", "stop", "suffix", "best_of"]
    names += ["presence_penalty", "frequency_penalty", "logit_bias", "stream_options"]
    assert one(at.complete(seed=14, **dict.fromkeys(names))) == one(at.complete(seed=14))


def defaults_may_be_said(at: At) -> None:
    said = {"best_of": 1, "n": 1, "presence_penalty": 0, "frequency_penalty": 0.0, "logit_bias": {}, "suffix": ""}
    assert one(at.complete(seed=14, user="me", **said)) == one(at.complete(seed=14))


def raw_answers_can_be_read(at: At) -> None:
    found = at.openai.completions.with_raw_response.create(model=at.names["lm"], prompt=PROMPT, temperature=0)
    assert found.headers["content-type"] == "application/json"
    assert one(found.parse()) == one(at.complete(temperature=0))


def the_asynchronous_client_is_answered(at: At) -> None:
    async def ask() -> list[str]:
        async with openai.AsyncOpenAI(base_url=f"{at.url}/v1", api_key=at.key or "none", max_retries=0) as client:
            how: dict[str, Any] = {"model": at.names["lm"], "prompt": PROMPT, "max_tokens": 5}
            found = await asyncio.gather(*(client.completions.create(seed=seed, **how) for seed in range(8)))
            return [one(each) for each in found]

    assert asyncio.run(ask()) == [one(at.complete(seed=seed, max_tokens=5)) for seed in range(8)]


def embed(at: At, texts: Any, **more: Any) -> list[list[float]]:
    found = at.openai.embeddings.create(model=at.names["mlm"], input=texts, **more)
    assert (found.object, found.model) == ("list", at.names["mlm"])
    assert [each.index for each in found.data] == [*range(len(found.data))]
    assert found.usage.total_tokens == found.usage.prompt_tokens > 0
    return [each.embedding for each in found.data]


def vectors_have_length_1(at: At) -> None:
    (vector,) = embed(at, TEXT)
    assert abs(sum(x * x for x in vector) - 1) < 1e-5  # of float32
    assert embed(at, [TEXT, PROMPT, TEXT])[1:] != [vector, vector]


def vectors_come_as_floats_or_as_base64(at: At) -> None:
    assert embed(at, [TEXT, PROMPT], encoding_format="float") == embed(at, [TEXT, PROMPT])  # which asks for base64


def a_vector_can_be_asked_for_at_its_own_width_alone(at: At) -> None:
    (vector,) = embed(at, TEXT)
    assert embed(at, TEXT, dimensions=len(vector), user="me") == [vector]
    refused(openai.BadRequestError, lambda: embed(at, TEXT, dimensions=len(vector) - 1))


def what_has_no_vector_is_refused(at: At) -> None:
    for texts in ("", ["a", ""], [], [1, 2], ["a"] * 65, TEXT * 100):
        refused(openai.BadRequestError, lambda texts=texts: embed(at, texts))  # type: ignore[misc]
    ask = at.openai.embeddings.create
    refused(openai.BadRequestError, lambda: ask(model=at.names["lm"], input=TEXT))
    refused(openai.NotFoundError, lambda: ask(model="no-such", input=TEXT), "model_not_found")


def an_unknown_model_is_not_found(at: At) -> None:
    ask = at.openai.completions.create
    refused(openai.NotFoundError, lambda: ask(model="no-such", prompt=PROMPT), "model_not_found")


def a_translator_does_not_complete(at: At) -> None:
    name = at.names["translation"]
    refused(openai.BadRequestError, lambda: at.openai.completions.create(model=name, prompt=PROMPT))


def there_is_no_chat(at: At) -> None:
    said: Any = [{"role": "user", "content": "hello"}]
    name = at.names["lm"]
    refused(openai.NotFoundError, lambda: at.openai.chat.completions.create(model=name, messages=said))


def too_much_is_refused(at: At) -> None:
    for more in ({"n": 1000}, {"max_tokens": 10**6}, {"n": 8, "max_tokens": 1024, "prompt": [PROMPT] * 2}):
        refused(openai.BadRequestError, lambda more=more: at.complete(**more))  # type: ignore[misc]


def what_is_out_of_bounds_is_refused(at: At) -> None:
    odd: list[dict[str, Any]] = [{"temperature": -1}, {"top_p": 0}, {"max_tokens": 0}, {"n": 0}, {"logprobs": 100}]
    odd += [{"stop": ["a", "b", "c", "d", "e"]}, {"stop": ""}, {"prompt": []}, {"seed": 1 << 64}]
    for more in odd:
        refused(openai.BadRequestError, lambda more=more: at.complete(**more))  # type: ignore[misc]


def what_is_not_offered_is_refused(at: At) -> None:
    odd: list[dict[str, Any]] = [{"presence_penalty": 1}, {"suffix": "end"}, {"best_of": 4}, {"logit_bias": {"5": 1}}]
    odd += [{"prompt": [1, 2, 3]}, {"stream": True, "logprobs": 1}]
    for more in odd:
        refused(openai.BadRequestError, lambda more=more: at.complete(**more))  # type: ignore[misc]


def a_text_is_translated(at: At) -> None:
    found = at.libre.translate(TEXT, **at.pair)
    assert isinstance(found, str)
    assert found
    assert found == at.libre.translate(TEXT, **at.pair)


def lines_stay_lines(at: At) -> None:
    found = at.libre.translate(f"{TEXT}\n\n{TEXT}", **at.pair)
    assert found.split("\n") == [at.libre.translate(TEXT, **at.pair), "", at.libre.translate(TEXT, **at.pair)]


def an_empty_text_stays_empty(at: At) -> None:
    assert at.libre.translate("", **at.pair) == ""


def any_script_is_translated(at: At) -> None:
    assert isinstance(at.libre.translate("Grüße, 世界! 👩‍👩‍👧 e\u0301 & + % = ; \t", **at.pair), str)


def a_long_text_is_translated(at: At) -> None:
    text = f"{TEXT}. " * 200
    assert len(at.libre.translate(text[:4000], **at.pair)) > 100


def too_long_a_text_is_refused(at: At) -> None:
    limit = at.get("/frontend/settings")["charLimit"]
    assert "characters" in refused_plainly(400, lambda: at.libre.translate("a" * (limit + 1), **at.pair))


def a_source_can_be_found_out(at: At) -> None:
    assert at.libre.translate(TEXT, "auto", at.pair["target"]) == at.libre.translate(TEXT, **at.pair)


def an_unknown_language_is_refused(at: At) -> None:
    refused_plainly(400, lambda: at.libre.translate(TEXT, at.pair["source"], "xx"))
    refused_plainly(400, lambda: at.libre.translate(TEXT, "xx", at.pair["target"]))


def languages_are_detected(at: At) -> None:
    found = at.libre.detect(TEXT)
    assert found[0]["language"] == at.pair["source"]
    assert all(0 <= each["confidence"] <= 100 for each in found)
    assert sorted(found, key=lambda each: -each["confidence"]) == found


def languages_are_listed(at: At) -> None:
    found = at.libre.languages()
    assert all(set(each) == {"code", "name", "targets"} for each in found)
    assert at.pair["target"] in [each["code"] for each in found]


def a_form_and_json_say_the_same(at: At) -> None:
    asked = {"q": TEXT, "format": "text", **at.pair}
    assert at.form("/translate", **asked) == at.post("/translate", **asked)


def what_stands_behind_the_question_mark_counts(at: At) -> None:
    asked = {"q": TEXT, **at.pair}
    request = Request(f"{at.url}/translate?{urlencode(asked)}", method="POST")
    assert at.ask(request) == at.post("/translate", **asked)


def a_list_is_answered_by_a_list(at: At) -> None:
    found = at.post("/translate", q=[TEXT, "", "a bird"], **at.pair)["translatedText"]
    assert found == [at.libre.translate(text, **at.pair) for text in (TEXT, "", "a bird")]


def a_form_with_a_text_again_is_a_list(at: At) -> None:
    found = at.form("/translate", q=[TEXT, "a bird"], **at.pair)["translatedText"]
    assert found == at.post("/translate", q=[TEXT, "a bird"], **at.pair)["translatedText"]


def alternatives_are_others(at: At) -> None:
    found = at.post("/translate", q=TEXT, alternatives=2, **at.pair)
    assert 0 < len(found["alternatives"]) <= 2
    assert all(isinstance(each, str) for each in found["alternatives"])
    several = at.form("/translate", q=[TEXT, "a bird"], alternatives=2, **at.pair)
    assert [len(each) <= 2 for each in several["alternatives"]] == [True, True]


def a_source_found_out_is_told(at: At) -> None:
    found = at.post("/translate", q=TEXT, source="auto", target=at.pair["target"])["detectedLanguage"]
    assert found["language"] == at.pair["source"]
    several = at.post("/translate", q=[TEXT, TEXT], source="auto", target=at.pair["target"])["detectedLanguage"]
    assert several == [found, found]


def html_is_refused(at: At) -> None:
    assert "format" in refused_plainly(400, lambda: at.post("/translate", q="<b>a</b>", format="html", **at.pair))


def what_is_missing_is_named(at: At) -> None:
    for name in ("q", "source", "target"):
        asked = {"q": TEXT, **at.pair}
        del asked[name]
        for post in (at.post, at.form):
            assert name in refused_plainly(400, lambda post=post, asked=asked: post("/translate", **asked))  # type: ignore[misc]


def settings_are_those_of_libretranslate(at: At) -> None:
    found = at.get("/frontend/settings")
    assert found["charLimit"] > 0
    assert found["keyRequired"] == bool(at.key)
    assert {side: found["language"][side]["code"] for side in at.pair} == at.pair
    assert {"frontendTimeout", "apiKeys", "suggestions", "filesTranslation", "supportedFilesFormat"} < set(found)


def it_is_in_health(at: At) -> None:
    assert at.get("/health") == {"status": "ok"}


def what_is_not_there_is_not_found(at: At) -> None:
    refused_plainly(404, lambda: at.post("/suggest", q=TEXT, s=TEXT, **at.pair))


def a_wrong_key_is_refused(at: At) -> None:
    other = At(at.url, "another")
    refused(openai.AuthenticationError, other.openai.models.list, "invalid_api_key")
    ask = other.openai.completions.create
    refused(openai.AuthenticationError, lambda: ask(model=at.names["lm"], prompt=PROMPT), "invalid_api_key")


def a_wrong_key_does_not_translate(at: At) -> None:
    refused_plainly(401, lambda: LibreTranslateAPI(at.url, "another").translate(TEXT, **at.pair))
    refused_plainly(401, lambda: LibreTranslateAPI(at.url, "another").detect(TEXT))


def no_key_is_refused(at: At) -> None:
    refused_plainly(401, lambda: LibreTranslateAPI(at.url).translate(TEXT, **at.pair))
    for path in ("/languages", "/v1/models", "/api/models", "/metrics", "/openapi.json", "/", "/frontend/settings"):
        try:
            raise AssertionError(f"{path} is open: {urlopen(at.url + path, timeout=60)}")
        except HTTPError as error:
            status = error.code
            error.close()
        assert status == 401, (path, status)


def a_key_in_a_form_or_in_json_counts(at: At) -> None:
    bare = At(at.url)
    asked = {"q": TEXT, "api_key": at.key, **at.pair}
    assert bare.form("/translate", **asked) == bare.post("/translate", **asked) == at.form("/translate", **asked)


Calls = Sequence[Callable[[At], None]]
OPENAI: Calls = (
    models_are_listed, a_completion_has_all_its_fields, usage_adds_up, the_same_seed_says_the_same,
    other_seeds_say_other_things, a_negative_seed_is_one, temperature_0_says_the_same_always,
    a_small_top_p_is_near_to_greedy, top_k_1_of_other_servers_is_greedy, max_tokens_1_says_one_token,
    without_max_tokens_there_are_16, many_tokens_are_said, n_gives_as_many_choices, a_stop_ends_the_text_before_it,
    four_stops_are_taken, echo_puts_the_prompt_before, logprobs_belong_to_the_text,
    logprobs_0_tells_only_what_was_said, greedy_words_are_the_likeliest, a_stream_says_what_the_whole_answer_says,
    a_stream_stops_where_the_whole_answer_stops, a_stream_of_several_keeps_them_apart, a_stream_echoes,
    a_stream_tells_its_usage, a_stream_can_be_left, a_list_of_prompts_is_answered_in_order,
    an_empty_prompt_begins_anew, a_prompt_in_any_script_is_taken, a_long_prompt_is_taken,
    what_is_not_given_may_be_null, defaults_may_be_said, raw_answers_can_be_read,
    the_asynchronous_client_is_answered, vectors_have_length_1, vectors_come_as_floats_or_as_base64,
    a_vector_can_be_asked_for_at_its_own_width_alone, what_has_no_vector_is_refused,
    an_unknown_model_is_not_found, a_translator_does_not_complete,
    there_is_no_chat, too_much_is_refused, what_is_out_of_bounds_is_refused, what_is_not_offered_is_refused,
)  # fmt: skip
LIBRE: Calls = (
    a_text_is_translated, lines_stay_lines, an_empty_text_stays_empty, any_script_is_translated,
    a_long_text_is_translated, too_long_a_text_is_refused, a_source_can_be_found_out,
    an_unknown_language_is_refused, languages_are_detected, languages_are_listed,
)  # fmt: skip
PLAIN: Calls = (
    a_form_and_json_say_the_same, what_stands_behind_the_question_mark_counts, a_list_is_answered_by_a_list,
    a_form_with_a_text_again_is_a_list, alternatives_are_others, a_source_found_out_is_told, html_is_refused,
    what_is_missing_is_named, settings_are_those_of_libretranslate, it_is_in_health, what_is_not_there_is_not_found,
)  # fmt: skip
OPEN: Calls = (*OPENAI, *LIBRE, *PLAIN)
KEYED: Calls = (
    a_wrong_key_is_refused, a_wrong_key_does_not_translate, no_key_is_refused, a_key_in_a_form_or_in_json_counts,
    models_are_listed, vectors_have_length_1, the_same_seed_says_the_same, a_stream_says_what_the_whole_answer_says,
    a_text_is_translated, languages_are_detected, settings_are_those_of_libretranslate,
)  # fmt: skip


def run(at: At, calls: Calls) -> int:
    """How many were not answered as they have to be; a line is told of each."""
    failed = 0
    for call in calls:
        began, why = time.perf_counter(), ""
        try:
            call(at)
        except Exception as error:
            failed += 1
            why = f"  {type(error).__name__}: {error}"
        name = call.__name__.replace("_", " ")
        print(f"{'FAILED' if why else 'ok':6} {1000 * (time.perf_counter() - began):5.0f} ms  {name}{why}", flush=True)
    return failed


def main(*models: str) -> int:
    with service(*models) as found:
        print("without keys")
        failed = run(At(found.url), OPEN)
    with service(*models, env={"REGARD_API_KEYS": KEY}) as found:
        print("with a key")
        failed += run(At(found.url, KEY), KEYED)
    print(f"{len(OPEN) + len(KEYED)} scripts of calls, {failed} failed")
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
