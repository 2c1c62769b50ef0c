"""OpenAI's interface, for models that go on with a text or make vectors of texts."""

import asyncio
import base64
import json
import secrets
import time
from collections.abc import AsyncIterator
from typing import Annotated, Any, Literal, Self

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, model_validator
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse

from regard.serve.desk import Desk, RefusedError, Task
from regard.serve.house import House, Place
from regard.serve.wire import MOST, Name, Texts, asked, while_there
from regard.tasks.options import listed

PING = 15.0  # seconds of silence in a stream
STREAM = {"Cache-Control": "no-cache, no-transform", "X-Accel-Buffering": "no"}
Parts = asyncio.Queue[dict[str, Any] | None]
Stop = Annotated[str, Field(min_length=1, max_length=100)]


class StreamOptions(BaseModel):
    include_usage: bool = False


def _nullable(schema: dict[str, Any]) -> None:
    for name in set(schema["properties"]) - set(schema["required"]):
        schema["properties"][name] = {"anyOf": [schema["properties"][name], {"type": "null"}]}


class Ask(BaseModel):
    """What is null is as if it were not there."""

    model_config = ConfigDict(json_schema_extra=_nullable)
    model: Name
    user: str | None = None

    @model_validator(mode="before")
    @classmethod
    def _there(cls, given: dict[str, Any]) -> dict[str, Any]:
        return {name: value for name, value in given.items() if value is not None}


class Embed(Ask):
    input: Texts
    encoding_format: Literal["float", "base64"] = "float"
    dimensions: int | None = Field(None, ge=1)


class Complete(Ask):
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
    presence_penalty: float = Field(0, ge=0, le=0)
    frequency_penalty: float = Field(0, ge=0, le=0)
    best_of: int | None = Field(None, ge=1, le=MOST.best)
    suffix: str | None = Field(None, max_length=0)
    logit_bias: dict[str, Any] | None = Field(None, max_length=0)

    @model_validator(mode="after")
    def _in_all(self) -> Self:
        bounds = {
            "max_tokens": len(listed(self.prompt)) * self.n * self.max_tokens <= MOST.all_tokens,
            "best_of": self.best_of in (None, self.n),
            "logprobs": not (self.stream and self.logprobs is not None),
        }
        for name, holds in bounds.items():
            if not holds:
                raise RefusedError(400, f"{name}: is more than this service does", param=name)
        return self


async def models(house: House, request: Request) -> JSONResponse:
    return JSONResponse({"object": "list", "data": [_about(house, place) for place in house.places]})


async def model(house: House, request: Request) -> JSONResponse:
    return JSONResponse(_about(house, house.place(request.path_params["model"])))


def _about(house: House, place: Place) -> dict[str, Any]:
    return {"id": place.name, "object": "model", "created": house.began, "owned_by": "regard"}


async def embed(house: House, request: Request) -> JSONResponse:
    """A vector of length 1 for each text."""
    given = await asked(request, Embed)
    desk, texts = house.place(given.model, "embed").desk, listed(given.input)
    if given.dimensions not in (None, width := desk.model.get("dimensions")):
        raise RefusedError(400, f"dimensions: vectors of this model have {width}", param="dimensions")
    if not all(texts):
        raise RefusedError(400, "input: an empty text has no vector; leave it out", param="input")
    vectors, counts = zip(*await while_there(request, desk.ask({"do": "embed"}, texts)), strict=True)
    if given.encoding_format == "base64":
        vectors = tuple(base64.b64encode(np.array(vector, "<f4").tobytes()).decode() for vector in vectors)
    data = [{"object": "embedding", "index": i, "embedding": vector} for i, vector in enumerate(vectors)]
    usage = dict.fromkeys(("prompt_tokens", "total_tokens"), sum(counts))
    return JSONResponse({"object": "list", "data": data, "model": given.model, "usage": usage})


async def complete(house: House, request: Request) -> Response:
    given = await asked(request, Complete)
    place, prompts = house.place(given.model, "generate"), listed(given.prompt)
    seed = secrets.randbits(40) if given.seed is None else given.seed & ((1 << 62) - 1)
    temperature = given.temperature if given.temperature >= 1e-6 else 0.0  # less is greedy
    how = {"do": "tell", "best": given.n, "tokens": given.max_tokens, "stop": listed(given.stop), "seed": seed}
    how |= {"temperature": temperature, "top_p": given.top_p, "top_k": given.top_k, "stream": given.stream}
    size = given.n * sum(4 * given.max_tokens + len(prompt.encode()) for prompt in prompts)
    head: dict[str, Any] = {"id": f"cmpl-{secrets.token_hex(12)}", "object": "text_completion"}
    head |= {"created": int(time.time()), "model": given.model}
    if given.stream:
        parts: Parts = asyncio.Queue()
        events = _events(given, head, place.desk, place.desk.hand_in(how, prompts, size, parts.put_nowait), parts)
        return StreamingResponse(events, media_type="text/event-stream", headers=STREAM)
    outputs = await while_there(request, place.desk.ask(how, prompts, size))
    choices = []
    for i, output in enumerate(outputs):
        prompt, text, logprobs = prompts[i // given.n], output["text"], None
        if given.logprobs is not None:
            likely = {"do": "likely", "said": output["tokens"], "size": len(text), "count": given.logprobs}
            logprobs = await while_there(request, place.look(likely, [prompt]))
            logprobs["text_offset"] = [offset + len(prompt) * given.echo for offset in logprobs["text_offset"]]
        choices.append(_choice(i, prompt + text if given.echo else text, output["finish"], logprobs))
    return JSONResponse({**head, "choices": choices, "usage": _usage(outputs, given.n)})


def _choice(index: int, text: str, finish: str | None = None, logprobs: Any = None) -> dict[str, Any]:
    return {"index": index, "text": text, "logprobs": logprobs, "finish_reason": finish}


def _usage(outputs: list[dict[str, Any]], n: int) -> dict[str, int]:
    read, said = sum(each["read"] for each in outputs[::n]), sum(len(each["tokens"]) for each in outputs)
    return {"prompt_tokens": read, "completion_tokens": said, "total_tokens": read + said}


async def _events(given: Complete, head: dict[str, Any], desk: Desk, task: Task, parts: Parts) -> AsyncIterator[str]:
    """Of a stream, in the shape of the whole answer; a client that goes ends this, and with it the work."""

    def event(choices: list[dict[str, Any]], **more: Any) -> str:
        return f"data: {json.dumps({**head, 'choices': choices, **more}, ensure_ascii=False)}\n\n"

    work = asyncio.create_task(desk.result(task))
    work.add_done_callback(lambda _: parts.put_nowait(None))
    try:
        if given.echo:
            for i in range(len(task.texts) * given.n):
                yield event([_choice(i, task.texts[i // given.n])])
        while (part := await _next(parts)) is not None:
            yield event([_choice(part["index"], part["text"])]) if part else ": ping\n\n"
        outputs = work.result()
        for i, output in enumerate(outputs):
            yield event([_choice(i, "", output["finish"])])
        if given.stream_options and given.stream_options.include_usage:
            yield event([], usage=_usage(outputs, given.n))
        yield "data: [DONE]\n\n"
    except RefusedError as error:
        reason = {"message": error.message, "type": "server_error", "param": None, "code": None}
        yield f"data: {json.dumps({'error': reason})}\n\n"
    finally:
        work.cancel()


async def _next(parts: Parts) -> dict[str, Any] | None:
    """An empty one for every silence."""
    try:
        async with asyncio.timeout(PING):
            return await parts.get()
    except TimeoutError:
        return {}
