"""Workers are watched: what is killed, hangs, is poisoned or nobody waits for any more costs nobody else an answer."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from regard.errors import UserError
from regard.serve.config import Limits
from regard.serve.desk import BusyError, Desk, RefusedError

QUICK = Limits(silence=1.0, unsure=0.6, stuck=1.5, wait=0.5, seconds=20)
WORKER = '''
import os, sys, time
from regard.errors import UserError
from regard.serve import worker

def act(model, job, tick, part):
    """Answers in capitals; some texts are orders."""
    found = []
    for text in job["texts"]:
        tick()
        if text == "die":
            os._exit(3)
        if text == "raise":
            raise RuntimeError("a fault")
        if text == "refuse":
            raise UserError("no")
        if text == "hang":
            time.sleep(60)
        if text.startswith("slow"):
            for _ in range(20):
                time.sleep(0.05)
                tick()
        part({"said": text})
        found.append(f"{text.upper()} {len(job['texts'])}")
    with open(model, "a") as log:
        print(*job["texts"], sep=",", file=log)
    return found

def run(self):
    settings = self.receive()
    if settings["folder"].endswith("none"):
        self.send({"refused": "there is no such model"})
        return
    self.model = settings["folder"]
    self.send({"ready": {"task": "translation", "tags": [], "lanes": settings["threads"]}})
    self.start(settings["threads"])

worker.JOBS["translate"] = worker.JOBS["tell"] = worker.JOBS["run"] = act
worker.Worker.run, worker.alone_of = run, lambda model: model
worker.main()
'''
HOW = {"do": "translate"}


@contextlib.asynccontextmanager
async def opened(tmp_path: Path, limits: Limits = QUICK, lanes: int = 1) -> AsyncIterator[Desk]:
    desk = Desk(str(tmp_path / "log"), limits, threads=lanes, command=(sys.executable, "-c", WORKER))
    await desk.open()
    try:
        yield desk
    finally:
        await desk.close()


def done(tmp_path: Path) -> list[str]:
    return (tmp_path / "log").read_text("utf-8").splitlines() if (tmp_path / "log").exists() else []


def drive(act: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(asyncio.wait_for(act(), 40))


def test_what_waits_is_done_together_and_goes_back_to_whom_it_belongs(tmp_path: Path) -> None:
    async def act() -> None:
        async with opened(tmp_path) as desk:
            slow = asyncio.create_task(desk.ask(HOW, ["slow"]))
            await asyncio.sleep(0.2)
            others = [asyncio.create_task(desk.ask(HOW, texts)) for texts in (["a"], ["b", "c"], [], ["d"])]
            odd = asyncio.create_task(desk.ask({**HOW, "beam": 3}, ["e"]))
            assert await slow == ["SLOW 1"]
            assert [await each for each in others] == [["A 4"], ["B 4", "C 4"], [], ["D 4"]]
            assert await odd == ["E 1"]
        assert done(tmp_path) == ["slow", "a,b,c,d", "e"]

    drive(act)


def test_jobs_are_done_side_by_side_and_dropped_apart(tmp_path: Path) -> None:
    async def act() -> None:
        async with opened(tmp_path, Limits(), lanes=2) as desk:
            asked = [asyncio.create_task(desk.ask({**HOW, "beam": i}, ["slow"])) for i in range(2)]
            began = time.monotonic()
            await asyncio.gather(*asked)
            assert time.monotonic() < began + 1.7  # one after the other it were two seconds
            gone, kept = (asyncio.create_task(desk.ask({**HOW, "beam": i}, ["slow"] * 2)) for i in range(2))
            await asyncio.sleep(0.3)
            gone.cancel()
            assert await kept == ["SLOW 2"] * 2
            assert not desk.doing
        assert done(tmp_path) == ["slow", "slow", "slow,slow"]

    drive(act)


def test_a_job_has_at_most_so_many_lines(tmp_path: Path) -> None:
    async def act() -> None:
        async with opened(tmp_path, Limits(together=3)) as desk:
            found = await asyncio.gather(*(desk.ask(HOW, [str(i)] * 2) for i in range(4)))
            assert found == [[f"{i} 2"] * 2 for i in range(4)]

    drive(act)


@pytest.mark.parametrize("fault", ["die", "raise"])
def test_who_kills_the_worker_fails_alone(fault: str, tmp_path: Path) -> None:
    async def act() -> None:
        async with opened(tmp_path) as desk:
            slow = asyncio.create_task(desk.ask(HOW, ["slow"]))
            await asyncio.sleep(0.2)
            good = [asyncio.create_task(desk.ask(HOW, [text])) for text in ("a", "b")]
            bad = asyncio.create_task(desk.ask(HOW, [fault]))
            assert await slow == ["SLOW 1"]
            assert [await each for each in good] == [["A 1"], ["B 1"]]
            with pytest.raises(RefusedError, match="worker ended"):
                await bad
            assert desk.restarts == 2
            assert await desk.ask(HOW, ["c"]) == ["C 1"]

    drive(act)


def test_a_mistake_of_the_user_s_is_told_and_costs_no_worker(tmp_path: Path) -> None:
    async def act() -> None:
        async with opened(tmp_path) as desk:
            with pytest.raises(RefusedError, match="^no$"):
                await desk.ask(HOW, ["refuse"])
            assert desk.restarts == 0

    drive(act)


def test_a_mistake_in_one_of_several_is_told_to_its_maker_alone(tmp_path: Path) -> None:
    async def act() -> None:
        async with opened(tmp_path) as desk:
            slow = asyncio.create_task(desk.ask({"do": "run"}, ["slow"]))
            await asyncio.sleep(0.2)
            good = [asyncio.create_task(desk.ask({"do": "run"}, [text])) for text in ("a", "b")]
            with pytest.raises(RefusedError, match="^no$"):
                await desk.ask({"do": "run"}, ["refuse"])
            assert await slow == ["SLOW 1"]
            assert [await each for each in good] == [["A 1"], ["B 1"]]
            assert desk.restarts == 0

    drive(act)


@pytest.mark.parametrize("busy", [False, True])
@pytest.mark.parametrize("sent", [signal.SIGKILL, signal.SIGSTOP])
def test_a_killed_or_stopped_worker_is_replaced_and_nothing_is_lost(sent: int, busy: bool, tmp_path: Path) -> None:
    async def act() -> None:
        async with opened(tmp_path) as desk:
            before = desk.process.pid
            asked = asyncio.create_task(desk.ask(HOW, ["slow"])) if busy else None
            await asyncio.sleep(0.3)
            os.kill(before, sent)
            began = time.monotonic()
            while desk.ready:
                await asyncio.sleep(0.02)
            assert time.monotonic() < began + 2
            while not desk.ready:
                await asyncio.sleep(0.02)
            assert desk.process.pid != before
            assert not Path(f"/proc/{before}").exists()
            if asked is not None:
                assert await asked == ["SLOW 1"]
            assert await desk.ask(HOW, ["a"]) == ["A 1"]

    drive(act)


def test_a_job_that_hangs_is_given_up_and_others_are_done(tmp_path: Path) -> None:
    async def act() -> None:
        async with opened(tmp_path) as desk:
            hung = asyncio.create_task(desk.ask(HOW, ["hang"]))
            await asyncio.sleep(0.1)
            assert await desk.ask({**HOW, "beam": 2}, ["a"]) == ["A 1"]
            with pytest.raises(RefusedError, match="worker ended"):
                await hung

    drive(act)


def test_work_stops_when_nobody_waits_for_it(tmp_path: Path) -> None:
    async def act() -> None:
        async with opened(tmp_path) as desk:
            gone = [asyncio.create_task(desk.ask(HOW, [text] * 20)) for text in ("slow a", "slow b")]
            await asyncio.sleep(0.3)
            for each in gone:
                each.cancel()
            began = time.monotonic()
            assert await desk.ask(HOW, ["c"]) == ["C 1"]
            assert time.monotonic() < began + 0.6
            assert not desk.waiting
        assert done(tmp_path) == ["c"]

    drive(act)


def test_a_job_is_finished_while_anyone_waits_for_it(tmp_path: Path) -> None:
    async def act() -> None:
        async with opened(tmp_path) as desk:
            first = asyncio.create_task(desk.ask(HOW, ["slow"]))
            await asyncio.sleep(0.1)
            gone, kept = (asyncio.create_task(desk.ask(HOW, [text])) for text in ("slow a", "slow b"))
            await first
            await asyncio.sleep(0.2)
            gone.cancel()
            assert await kept == ["SLOW B 2"]

    drive(act)


def test_who_would_wait_too_long_is_told_so_at_once(tmp_path: Path) -> None:
    async def act() -> None:
        async with opened(tmp_path) as desk:
            await desk.ask(HOW, ["slow"])  # a second for five characters
            kept = asyncio.create_task(desk.ask(HOW, ["slow"]))
            await asyncio.sleep(0.1)
            began = time.monotonic()
            with pytest.raises(BusyError):
                await desk.ask(HOW, ["a"])
            assert time.monotonic() < began + 0.1
            assert await kept == ["SLOW 1"]
            assert await desk.ask(HOW, ["a"]) == ["A 1"]

    drive(act)


def test_what_would_take_too_long_is_refused_with_the_seconds(tmp_path: Path) -> None:
    async def act() -> None:
        async with opened(tmp_path) as desk:
            how = {"do": "translate", "n": 1}
            desk.pace.add(100, 0.4)  # too little to tell the time of work from that of handing it in
            assert await desk.result(desk.hand_in(how, ["a"], 9_000)) == ["A 1"]
            desk.pace.add(1_000, 4.0)
            with pytest.raises(BusyError, match=r"\d+ seconds .*\b10\b"):
                desk.hand_in(how, ["a"], 90_000)
            assert await desk.result(desk.hand_in(how, ["b"], 2_000)) == ["B 1"]  # a small one measures the pace anew

    drive(act)


def test_a_request_has_its_time_and_no_more(tmp_path: Path) -> None:
    async def act() -> None:
        async with opened(tmp_path, Limits(seconds=0.4)) as desk:
            began = time.monotonic()
            with pytest.raises(BusyError):
                await desk.ask(HOW, ["slow"] * 9)
            assert 0.3 < time.monotonic() - began < 1.5

    drive(act)


def test_parts_are_heard_by_who_asked_and_are_not_told_twice(tmp_path: Path) -> None:
    async def act() -> None:
        async with opened(tmp_path) as desk:
            heard: list[Any] = []
            task = desk.hand_in({"do": "tell"}, ["a", "b"], heard=heard.append)
            assert await desk.result(task) == ["A 2", "B 2"]
            assert heard == [{"said": "a"}, {"said": "b"}]
            with pytest.raises(RefusedError, match="worker ended"):  # half of it was told already
                await desk.result(desk.hand_in({"do": "tell"}, ["a", "die"], heard=heard.append))

    drive(act)


def test_what_the_worker_refuses_is_a_mistake_of_the_user_s() -> None:
    async def act() -> None:
        desk = Desk("none", QUICK, command=(sys.executable, "-c", WORKER))
        for _ in range(2):
            with pytest.raises(UserError, match="there is no such model"):
                await desk.open()
        crashed = Desk("any", QUICK, command=(sys.executable, "-c", "0"))
        with pytest.raises(UserError, match="any.*worker"):
            await crashed.open()
        await asyncio.gather(desk.close(), crashed.close())

    drive(act)
