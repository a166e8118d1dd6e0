"""A FAKE Kubernetes API server: a small HTTP server of ours on loopback, for want of a real one.

It knows a handful of paths, keeps objects in a dict, and holds every object that is sent, or comes out of a
patch, against Kubernetes' own JSON schemas (strictly: no unknown fields). It does not schedule, run, default
or admit anything: what it shows is that requests are well-formed and go where they should, no more.
"""

import json
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import deepcopy
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

import kubernetes.client as k8s
import kubernetes_validate

from tests.deploy.manifests import merged

Body = dict[str, Any]
VERSION = "1.36.0"
PATCHES = ("application/merge-patch+json", "application/strategic-merge-patch+json")


class Refusal(Exception):
    def __init__(self, status: int, reason: str, message: str) -> None:
        super().__init__(message)
        self.status, self.reason = status, reason

    def body(self) -> Body:
        return {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": str(self),
            "reason": self.reason,
            "code": self.status,
        }


class FakeApiServer:
    """`requests` are (method, path) in the order they came; `refuse` answers every request with a status."""

    def __init__(self, *stateful_sets: Body) -> None:
        self.objects = {(o["kind"], o["metadata"]["name"]): deepcopy(o) for o in stateful_sets}
        self.pods: list[Body] = []
        self.jobs: list[Body] = []
        self.requests: list[tuple[str, str]] = []
        self.refuse: tuple[int, str] | None = None
        self.url = ""
        self._routes: list[tuple[str, str, Callable[..., Body]]] = [
            ("GET", r"/apis/apps/v1/namespaces/([^/]+)/statefulsets/([^/]+)", self._get_set),
            ("PATCH", r"/apis/apps/v1/namespaces/([^/]+)/statefulsets/([^/]+)", self._patch_set),
            ("PATCH", r"/apis/apps/v1/namespaces/([^/]+)/statefulsets/([^/]+)/scale", self._patch_scale),
            ("GET", r"/api/v1/namespaces/([^/]+)/pods", self._list_pods),
            ("POST", r"/apis/batch/v1/namespaces/([^/]+)/jobs", self._create_job),
        ]

    @contextmanager
    def serving(self) -> Iterator["FakeApiServer"]:
        server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        self.url = f"http://127.0.0.1:{server.server_address[1]}"
        try:
            yield self
        finally:
            server.shutdown()
            thread.join()
            server.server_close()

    def client(self) -> k8s.ApiClient:
        """A real client of Kubernetes, pointed here."""
        configuration = k8s.Configuration(host=self.url)
        configuration.retries = False
        return k8s.ApiClient(configuration)

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        answer = self._answer

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def _handle(self) -> None:
                length = int(self.headers.get("Content-Length") or 0)
                body = json.loads(self.rfile.read(length)) if length else None
                content_type = self.headers.get("Content-Type", "")
                status, said = answer(self.command, self.path, content_type, body)
                data = json.dumps(said).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            do_GET = do_PATCH = do_POST = do_PUT = do_DELETE = _handle

            def log_message(self, *_: Any) -> None:
                """Tests say what went wrong."""

        return Handler

    def _answer(self, method: str, target: str, content_type: str, body: Any) -> tuple[int, Body]:
        parts = urlsplit(target)
        self.requests.append((method, parts.path))
        try:
            if self.refuse is not None:
                raise Refusal(self.refuse[0], self.refuse[1], "refused by the test")
            for verb, pattern, handler in self._routes:
                match = re.fullmatch(pattern, parts.path)
                if match and verb == method:
                    if method == "PATCH" and content_type not in PATCHES:
                        raise Refusal(415, "UnsupportedMediaType", f"{content_type} is no patch")
                    query = {key: values[0] for key, values in parse_qs(parts.query).items()}
                    return 201 if method == "POST" else 200, handler(*match.groups(), query=query, body=body)
            raise Refusal(404, "NotFound", f"the fake knows no {method} {parts.path}")
        except Refusal as refusal:
            return refusal.status, refusal.body()

    # what it knows

    def _get_set(self, namespace: str, name: str, **_: Any) -> Body:
        found = self.objects.get(("StatefulSet", name))
        if found is None or found["metadata"]["namespace"] != namespace:
            raise Refusal(404, "NotFound", f'statefulsets.apps "{name}" not found')
        return found

    def _patch_set(self, namespace: str, name: str, *, body: Body, **_: Any) -> Body:
        patched = merged(self._get_set(namespace, name), body)
        self.objects["StatefulSet", name] = valid(patched)
        return patched

    def _patch_scale(self, namespace: str, name: str, *, body: Body, **_: Any) -> Body:
        found = self._get_set(namespace, name)
        scale = merged(
            {
                "apiVersion": "autoscaling/v1",
                "kind": "Scale",
                "metadata": {"name": name, "namespace": namespace},
                "spec": {"replicas": found["spec"]["replicas"]},
            },
            body,
        )
        found["spec"]["replicas"] = valid(scale)["spec"]["replicas"]
        return scale

    def _list_pods(self, namespace: str, *, query: dict[str, str], **_: Any) -> Body:
        wanted = dict(pair.split("=", 1) for pair in query.get("labelSelector", "").split(",") if pair)
        items = [
            pod
            for pod in self.pods
            if pod["metadata"]["namespace"] == namespace
            and all(pod["metadata"]["labels"].get(key) == value for key, value in wanted.items())
        ]
        return {"kind": "PodList", "apiVersion": "v1", "metadata": {}, "items": items}

    def _create_job(self, namespace: str, *, body: Body, **_: Any) -> Body:
        self.jobs.append(valid({"kind": "Job", "apiVersion": "batch/v1", **body}))
        return merged(self.jobs[-1], {"metadata": {"namespace": namespace, "uid": "1"}})


def valid(body: Body) -> Body:
    """The object, if Kubernetes' schema knows all that is in it."""
    try:
        kubernetes_validate.validate(body, VERSION, strict=True)
    except kubernetes_validate.ValidationError as error:
        raise Refusal(422, "Invalid", error.message) from error
    return body
