"""OpenAI's interface, for models that go on with a text."""

from __future__ import annotations

import asyncio
import json
import secrets
import time
from collections.abc import AsyncIterator
from typing import Any

from pydantic import BaseModel, Field
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse

from regard.serve.desk import BusyError, FailedError
from regard.serve.house import House
from regard.serve.wire import RefusedError, asked, bounded, while_there

PING = 15.0  # seconds of silence in a stream
STREAM = {"Cache-Control": "no-cache, no-transform", "X-Accel-Buffering": "no"}


class StreamOptions(BaseModel):
    include_usage: bool = False


class Complete(BaseModel):
    model: str
    prompt: str | list[str] = ""
    max_tokens: int = Field(16, ge=1)
    temperature: float = Field(1.0, ge=0, le=2, allow_inf_nan=False)
    top_p: float = Field(1.0, gt=0, le=1, allow_inf_nan=False)
    top_k: int | None = Field(None, ge=1, le=1 << 20)
    n: int = Field(1, ge=1)
    stream: bool = False
    stream_options: StreamOptions | None = None
    logprobs: int | None = Field(None, ge=0)
    echo: bool = False
    stop: str | list[str] | None = None
    seed: int | None = Field(None, ge=-(1 << 63), lt=1 << 63)
    user: str | None = None
    presence_penalty: float = Field(0, ge=0, le=0)
    frequency_penalty: float = Field(0, ge=0, le=0)
    best_of: int | None = Field(None, ge=1)
    suffix: str | None = None
    logit_bias: dict[str, float] | None = None


async def models(house: House, request: Request) -> JSONResponse:
    data = [{"id": name, "object": "model", "created": house.began, "owned_by": "regard"} for name in house.names]
    return JSONResponse({"object": "list", "data": data})


async def complete(house: House, request: Request) -> Response:
    given = await asked(request, Complete, house.limits)
    prompts = [given.prompt] if isinstance(given.prompt, str) else given.prompt
    how = _checked(house, given, prompts)
    head = {
        "id": f"cmpl-{secrets.token_hex(12)}",
        "object": "text_completion",
        "created": int(time.time()),
        "model": given.model,
    }
    if given.stream:
        return StreamingResponse(
            _streamed(house, given, how, prompts, head), media_type="text/event-stream", headers=STREAM
        )
    found = await while_there(request, house.desk.ask(how, prompts))
    choices = []
    for i, said in enumerate(found):
        prompt = prompts[i // given.n]
        logprobs = None
        if given.logprobs is not None:
            logprobs = await while_there(
                request, house.likely(how["model"], prompt, said["text"], given.logprobs, given.echo)
            )
        text = prompt + said["text"] if given.echo else said["text"]
        choices.append({"index": i, "text": text, "logprobs": logprobs, "finish_reason": said["finish"]})
    return JSONResponse({**head, "choices": choices, "usage": _usage(found, given.n)})


def _checked(house: House, given: Complete, prompts: list[str]) -> dict[str, Any]:
    if given.model not in house.names:
        raise RefusedError(404, f"the model {given.model!r} does not exist", param="model")
    number = house.names.index(given.model)
    if house.desk.models[number]["task"] != "language":
        raise RefusedError(400, f"{given.model} translates; ask /api/translate or /translate", param="model")
    bounded(prompts, house.limits, "prompt")
    stops = [given.stop] if isinstance(given.stop, str) else given.stop or []
    bounds = {
        "max_tokens": given.max_tokens <= house.limits.tokens,
        "n": given.n <= house.limits.best,
        "best_of": given.best_of in (None, given.n),
        "suffix": not given.suffix,
        "logit_bias": not given.logit_bias,
        "logprobs": (given.logprobs or 0) <= house.limits.likely and not (given.stream and given.logprobs is not None),
        "stop": len(stops) <= house.limits.stops and all(0 < len(stop) <= 100 for stop in stops),
        "prompt": bool(prompts),
    }
    for name, holds in bounds.items():
        if not holds:
            raise RefusedError(400, f"{name}: is more than this service does", param=name)
    seed = secrets.randbits(40) if given.seed is None else given.seed & ((1 << 62) - 1)
    drawn = {"temperature": given.temperature, "top_p": given.top_p, "top_k": given.top_k, "seed": seed}
    how = {
        "do": "tell",
        "model": number,
        "best": given.n,
        "tokens": given.max_tokens,
        "stop": stops,
        "stream": given.stream,
    }
    return how | drawn


def _usage(found: list[dict[str, Any]], n: int) -> dict[str, int]:
    read, said = sum(each["read"] for each in found[::n]), sum(each["said"] for each in found)
    return {"prompt_tokens": read, "completion_tokens": said, "total_tokens": read + said}


async def _streamed(
    house: House, given: Complete, how: dict[str, Any], prompts: list[str], head: dict[str, Any]
) -> AsyncIterator[str]:
    """Events with the same shape as the whole answer; a client that goes ends this, and with it the work."""
    parts: asyncio.Queue[dict[str, Any] | None] = asyncio.Queue()
    work = asyncio.create_task(house.desk.ask(how, prompts, parts.put_nowait))
    work.add_done_callback(lambda _: parts.put_nowait(None))

    def event(choices: list[dict[str, Any]], **more: Any) -> str:
        return f"data: {json.dumps({**head, 'choices': choices, **more}, ensure_ascii=False)}\n\n"

    def choice(index: int, text: str, finish: str | None = None) -> dict[str, Any]:
        return {"index": index, "text": text, "logprobs": None, "finish_reason": finish}

    try:
        if given.echo:
            for i in range(len(prompts) * given.n):
                yield event([choice(i, prompts[i // given.n])])
        while True:
            try:
                async with asyncio.timeout(PING):
                    part = await parts.get()
            except TimeoutError:
                yield ": ping\n\n"
                continue
            if part is None:
                break
            yield event([choice(part["index"], part["text"])])
        found = work.result()
        for i, said in enumerate(found):
            yield event([choice(i, "", said["finish"])])
        if given.stream_options and given.stream_options.include_usage:
            yield event([], usage=_usage(found, given.n))
        yield "data: [DONE]\n\n"
    except (BusyError, FailedError) as error:
        told = {"message": str(error) or "there is too much to do", "type": "server_error", "param": None, "code": None}
        yield f"data: {json.dumps({'error': told})}\n\n"
    finally:
        work.cancel()
