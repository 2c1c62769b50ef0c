"""Counters for Prometheus; labels are routes and statuses, never anything that a client sent."""

from __future__ import annotations

from functools import partial

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from starlette.responses import Response

from regard.serve.house import House


class Figures:
    def __init__(self, house: House) -> None:
        self.registry = CollectorRegistry()
        self.requests = Counter("regard_requests", "Requests", ["route", "status"], registry=self.registry)
        self.seconds = Histogram("regard_seconds", "Seconds of a request", ["route"], registry=self.registry)
        for name, told, value in (
            ("waiting", "Requests that wait for the worker", lambda desks: sum(len(desk.waiting) for desk in desks)),
            ("ready", "Whether the worker is there", lambda desks: float(all(desk.ready for desk in desks))),
            ("restarts", "Workers that had to be replaced", lambda desks: sum(desk.restarts for desk in desks)),
        ):
            gauge = Gauge(f"regard_{name}", told, registry=self.registry)
            gauge.set_function(partial(value, [place.desk for place in house.places]))

    def count(self, route: str, status: int, seconds: float) -> None:
        self.requests.labels(route, str(status)).inc()
        self.seconds.labels(route).observe(seconds)

    def response(self) -> Response:
        return Response(generate_latest(self.registry), media_type=CONTENT_TYPE_LATEST)
