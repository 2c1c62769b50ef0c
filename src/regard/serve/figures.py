"""Counters for Prometheus; labels are routes and statuses, never anything that a client sent."""

from __future__ import annotations

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from starlette.responses import Response

from regard.serve.house import House


class Figures:
    def __init__(self, house: House) -> None:
        self.registry = CollectorRegistry()
        self.requests = Counter("regard_requests", "Requests", ["route", "status"], registry=self.registry)
        self.seconds = Histogram("regard_seconds", "Seconds of a request", ["route"], registry=self.registry)
        for name, told, value in (
            (
                "regard_waiting",
                "Requests that wait for the worker",
                lambda: sum(len(place.desk.waiting) for place in house.places),
            ),
            ("regard_ready", "Whether the worker is there", lambda: float(house.ready)),
            (
                "regard_restarts",
                "Workers that had to be replaced",
                lambda: sum(place.desk.restarts for place in house.places),
            ),
        ):
            Gauge(name, told, registry=self.registry).set_function(value)

    def count(self, route: str, status: int, seconds: float) -> None:
        self.requests.labels(route, str(status)).inc()
        self.seconds.labels(route).observe(seconds)

    def response(self) -> Response:
        return Response(generate_latest(self.registry), media_type=CONTENT_TYPE_LATEST)
