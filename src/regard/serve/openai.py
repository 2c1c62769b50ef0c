"""OpenAI's interface, for models that go on with a text."""

from __future__ import annotations

import asyncio
import json
import secrets
import time
from collections.abc import AsyncIterator
from typing import Annotated, Any, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse

from regard.serve.desk import BusyError, FailedError
from regard.serve.house import House
from regard.serve.wire import BUSY, MOST, Name, RefusedError, Texts, asked, while_there

NO_MODEL = "there is no such model; GET /v1/models names them"
PING = 15.0  # seconds of silence in a stream
STREAM = {"Cache-Control": "no-cache, no-transform", "X-Accel-Buffering": "no"}
Stop = Annotated[str, Field(min_length=1, max_length=100)]


class StreamOptions(BaseModel):
    include_usage: bool = False


def _nullable(schema: dict[str, Any]) -> None:
    for name in set(schema["properties"]) - set(schema["required"]):
        schema["properties"][name] = {"anyOf": [schema["properties"][name], {"type": "null"}]}


class Complete(BaseModel):
    """What is null is as if it were not there."""

    model_config = ConfigDict(json_schema_extra=_nullable)
    model: Name
    prompt: Texts = ""
    max_tokens: int = Field(16, ge=1, le=MOST.tokens)
    temperature: float = Field(1.0, ge=0, le=2, allow_inf_nan=False)
    top_p: float = Field(1.0, gt=0, le=1, allow_inf_nan=False)
    top_k: int | None = Field(None, ge=1, le=1 << 20)
    n: int = Field(1, ge=1, le=MOST.best)
    stream: bool = False
    stream_options: StreamOptions | None = None
    logprobs: int | None = Field(None, ge=0, le=MOST.likely)
    echo: bool = False
    stop: Stop | Annotated[list[Stop], Field(max_length=MOST.stops)] = Field(default_factory=list)
    seed: int | None = Field(None, ge=-(1 << 63), lt=1 << 63)
    user: str | None = None
    presence_penalty: float = Field(0, ge=0, le=0)
    frequency_penalty: float = Field(0, ge=0, le=0)
    best_of: int | None = Field(None, ge=1, le=MOST.best)
    suffix: str | None = Field(None, max_length=0)
    logit_bias: dict[str, Any] | None = Field(None, max_length=0)

    @model_validator(mode="before")
    @classmethod
    def _there(cls, given: dict[str, Any]) -> dict[str, Any]:
        return {name: value for name, value in given.items() if value is not None}

    @model_validator(mode="after")
    def _in_all(self) -> Self:
        prompts = 1 if isinstance(self.prompt, str) else len(self.prompt)
        bounds = {
            "max_tokens": prompts * self.n * self.max_tokens <= MOST.all_tokens,
            "best_of": self.best_of in (None, self.n),
            "logprobs": not (self.stream and self.logprobs is not None),
        }
        for name, holds in bounds.items():
            if not holds:
                raise RefusedError(400, f"{name}: is more than this service does", param=name)
        return self


async def models(house: House, request: Request) -> JSONResponse:
    return JSONResponse({"object": "list", "data": [_model(house, place.name) for place in house.places]})


async def model(house: House, request: Request) -> JSONResponse:
    name = request.path_params["model"]
    if name not in [place.name for place in house.places]:
        raise RefusedError(404, NO_MODEL, param="model")
    return JSONResponse(_model(house, name))


def _model(house: House, name: str) -> dict[str, Any]:
    return {"id": name, "object": "model", "created": house.began, "owned_by": "regard"}


async def complete(house: House, request: Request) -> Response:
    given = await asked(request, Complete)
    prompts = [given.prompt] if isinstance(given.prompt, str) else given.prompt
    how = _checked(house, given)
    head: dict[str, Any] = {"id": f"cmpl-{secrets.token_hex(12)}", "object": "text_completion"}
    head |= {"created": int(time.time()), "model": given.model}
    if given.stream:
        return await _stream(house, given, how, prompts, head)
    model = how.pop("model")
    found = await while_there(request, _told(house, model, how, prompts))
    choices = []
    for i, said in enumerate(found):
        prompt, logprobs = prompts[i // given.n], None
        if given.logprobs is not None:
            logprobs = await while_there(request, house.likely(model, prompt, said, given.logprobs))
            logprobs["text_offset"] = [offset + len(prompt) * given.echo for offset in logprobs["text_offset"]]
        text = prompt + said["text"] if given.echo else said["text"]
        choices.append({"index": i, "text": text, "logprobs": logprobs, "finish_reason": said["finish"]})
    return JSONResponse({**head, "choices": choices, "usage": _usage(found, given.n)})


async def _told(house: House, model: int, how: dict[str, Any], prompts: list[str]) -> list[dict[str, Any]]:
    return await house.places[model].desk.result(house.tell(model, prompts, how))


def _checked(house: House, given: Complete) -> dict[str, Any]:
    names = [place.name for place in house.places]
    if given.model not in names:
        raise RefusedError(404, NO_MODEL, param="model")
    number = names.index(given.model)
    if house.places[number].desk.model["task"] != "lm":
        raise RefusedError(400, f"{given.model} translates; ask /api/translate or /translate", param="model")
    stops = [given.stop] if isinstance(given.stop, str) else given.stop
    seed = secrets.randbits(40) if given.seed is None else given.seed & ((1 << 62) - 1)
    temperature = given.temperature if given.temperature >= 1e-6 else 0.0  # less is greedy
    drawn = {"temperature": temperature, "top_p": given.top_p, "top_k": given.top_k, "seed": seed}
    how = {"model": number, "best": given.n, "tokens": given.max_tokens, "stop": stops, "stream": given.stream}
    return how | drawn


def _usage(found: list[dict[str, Any]], n: int) -> dict[str, int]:
    read, said = sum(each["read"] for each in found[::n]), sum(len(each["tokens"]) for each in found)
    return {"prompt_tokens": read, "completion_tokens": said, "total_tokens": read + said}


async def _stream(
    house: House, given: Complete, how: dict[str, Any], prompts: list[str], head: dict[str, Any]
) -> StreamingResponse:
    """Events with the same shape as the whole answer; a client that goes ends this, and with it the work."""
    parts: asyncio.Queue[dict[str, Any] | None] = asyncio.Queue()
    model = how.pop("model")
    try:
        task = house.tell(model, prompts, how, parts.put_nowait)
    except BusyError as error:
        raise RefusedError(503, str(error) or BUSY) from error

    def event(choices: list[dict[str, Any]], **more: Any) -> str:
        return f"data: {json.dumps({**head, 'choices': choices, **more}, ensure_ascii=False)}\n\n"

    def choice(index: int, text: str, finish: str | None = None) -> dict[str, Any]:
        return {"index": index, "text": text, "logprobs": None, "finish_reason": finish}

    async def events() -> AsyncIterator[str]:
        work = asyncio.create_task(house.places[model].desk.result(task))
        work.add_done_callback(lambda _: parts.put_nowait(None))
        try:
            if given.echo:
                for i in range(len(prompts) * given.n):
                    yield event([choice(i, prompts[i // given.n])])
            async for part in _until_none(parts):
                yield event([choice(part["index"], part["text"])]) if part else ": ping\n\n"
            found = work.result()
            for i, said in enumerate(found):
                yield event([choice(i, "", said["finish"])])
            if given.stream_options and given.stream_options.include_usage:
                yield event([], usage=_usage(found, given.n))
            yield "data: [DONE]\n\n"
        except (BusyError, FailedError) as error:
            told = {"message": str(error) or BUSY, "type": "server_error", "param": None, "code": None}
            yield f"data: {json.dumps({'error': told})}\n\n"
        finally:
            work.cancel()

    return StreamingResponse(events(), media_type="text/event-stream", headers=STREAM)


async def _until_none(parts: asyncio.Queue[dict[str, Any] | None]) -> AsyncIterator[dict[str, Any]]:
    """What comes; an empty one for every silence."""
    while True:
        try:
            async with asyncio.timeout(PING):
                part = await parts.get()
        except TimeoutError:
            part = {}
        if part is None:
            return
        yield part
