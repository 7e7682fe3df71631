"""The installed package against a running server: PIERHEAD_URL and PIERHEAD_API_KEY say which."""

from __future__ import annotations

import asyncio
import os
import tempfile
import threading
import unittest
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import httpx

from pierhead import ApiError, AsyncPierhead, DeployFailed, Pierhead
from pierhead.rest.api.server import get_info
from pierhead.rest.models import Event, Info

SERVER = """
import http from "node:http";
const answer = () => JSON.stringify({ says: process.env.WORD ?? "nothing" });
http.createServer((_, response) => response.end(answer())).listen(process.env.PORT, () => console.log("word is ready"));
"""

PACKAGE = '{"name": "word", "type": "module", "scripts": {"start": "node server.mjs"}}'


def project(**files: str) -> str:
    directory = tempfile.mkdtemp(prefix="pierhead-python-")
    for name, text in {"package.json": PACKAGE, "server.mjs": SERVER, **files}.items():
        Path(directory, name.replace("_", ".")).write_text(text)
    return directory


@contextmanager
def unsteady(failures: Counter[str]) -> Iterator[str]:
    """Yields the address of a proxy in front of the server. Each entry is how often a request of this kind fails."""
    direct = httpx.Client(base_url=os.environ["PIERHEAD_URL"], timeout=60)

    class Proxy(BaseHTTPRequestHandler):
        def _pass(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length", "0")))
            kind = f"{self.command} {'revision' if '/revisions/' in self.path else 'other'}"
            if failures[kind] > 0:
                failures[kind] -= 1
                if kind == "GET revision" and failures[kind] % 2 == 0:
                    self.close_connection = True  # No answer, as from a server that restarts.
                else:
                    self.send_response(500)
                    self.send_header("Content-Length", "0")
                    self.end_headers()
                return
            if kind == "PATCH other" and failures["change by others"] > 0:
                failures["change by others"] -= 1
                by_others = {"set": [{"name": "OTHERS", "value": "1"}]}
                direct.patch(f"{self.path}/variables", json=by_others, headers={"X-Api-Key": self.headers["X-Api-Key"]})
            names = ("x-api-key", "content-type", "idempotency-key", "if-match")
            headers = {name: self.headers[name] for name in names if name in self.headers}
            answer = direct.request(self.command, self.path, content=body, headers=headers)
            self.send_response(answer.status_code)
            for name in ("content-type", "etag"):
                if name in answer.headers:
                    self.send_header(name, answer.headers[name])
            self.send_header("Content-Length", str(len(answer.content)))
            self.end_headers()
            self.wfile.write(answer.content)

        do_GET = do_POST = do_PATCH = do_DELETE = _pass

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Proxy)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        direct.close()


class Blocking(unittest.TestCase):
    def test_deploys_calls_changes_and_deletes(self) -> None:
        with Pierhead() as pierhead:
            seen: list[Event] = []

            def watch() -> None:
                with Pierhead() as watcher:
                    for event in watcher.events(types=["revision.status"]):
                        seen.append(event)
                        if event.to_dict()["data"].get("to") == "DEPLOYED":
                            return

            watching = threading.Thread(target=watch, daemon=True)
            watching.start()
            first = pierhead.deploy("word", project(_env="A_SECRET=x"), variables={"WORD": "hello"})
            with pierhead.agent(first) as agent:
                self.assertEqual(agent.get("/").json(), {"says": "hello"})
            watching.join(30)
            self.assertIn("DEPLOYED", [event.to_dict()["data"].get("to") for event in seen])

            second = pierhead.deploy("word", project(extra="x"), variables={"OTHER": "1"})
            with pierhead.agent(second) as agent:
                self.assertEqual(agent.get("/").json(), {"says": "hello"})
            self.assertEqual((second.id, [secret.name for secret in second.secrets]), (first.id, ["WORD", "OTHER"]))

            # Lines arrive in batches, so they are awaited.
            self.assertIn("word is ready", (line.message for line in pierhead.logs(first.id, follow=True)))
            revision = second.active_revision_id
            assert revision is not None
            built = list(pierhead.logs(first.id, type="build", revision_id=revision, follow=True))
            self.assertGreater(len(built), 0)
            self.assertEqual([one.name for one in pierhead.deployments(name_contains="wor")], ["word"])

            pierhead.delete(first.id)
            self.assertIsNone(pierhead.deployment("word"))

    def test_outlasts_an_outage_and_keeps_the_variables_that_others_set(self) -> None:
        failures: Counter[str] = Counter()
        with unsteady(failures) as url, Pierhead(url) as pierhead:
            failures.update({"POST other": 1, "GET revision": 6})
            first = pierhead.deploy("unsteady", project(), variables={"WORD": "hello"})
            self.assertEqual(failures["GET revision"], 0)
            failures.update({"change by others": 1})
            second = pierhead.deploy("unsteady", project(extra="x"), variables={"WORD": "bye"})
            self.assertEqual({one.name: one.value for one in second.secrets}, {"WORD": "bye", "OTHERS": "1"})
            failures.update({"GET other": 2})
            pierhead.delete(first.id)

    def test_says_why_a_revision_failed(self) -> None:
        broken = project(server_mjs='throw new Error("no such word")')
        with Pierhead() as pierhead:
            with self.assertRaisesRegex(DeployFailed, "DEPLOY_FAILED.*no such word"):
                pierhead.deploy("broken", broken)
            found = pierhead.deployment("broken")
            assert found is not None
            pierhead.delete(found.id)

    def test_says_that_no_server_was_found(self) -> None:
        with tempfile.TemporaryDirectory() as directory:
            Path(directory, "notes.txt").write_text("nothing to run")
            with (
                Pierhead() as pierhead,
                self.assertRaisesRegex(ValueError, "pierhead.json or langgraph.json not found"),
            ):
                pierhead.deploy("nothing", directory)

    def test_raises_what_the_server_refuses(self) -> None:
        with Pierhead(api_key="wrong") as pierhead:
            with self.assertRaises(ApiError) as raised:
                pierhead.deployment("word")
        self.assertEqual((raised.exception.status, str(raised.exception)), (401, "HTTP 401: Invalid token"))

    def test_serves_the_generated_operations(self) -> None:
        with Pierhead() as pierhead:
            info = get_info.sync(client=pierhead.rest)
        assert isinstance(info, Info)
        self.assertEqual(info.to_dict()["version"][:2], "0.")

    def test_sends_the_key_to_no_host_that_a_deployment_names(self) -> None:
        with Pierhead() as pierhead:
            deployment = pierhead.deploy("elsewhere", project())
            with pierhead.agent(deployment) as agent:
                self.assertIn("X-Api-Key", agent.headers)
            deployment.url = "https://agents.invalid"
            with pierhead.agent(deployment) as agent:
                self.assertNotIn("X-Api-Key", agent.headers)
            with pierhead.agent(deployment, key_host="agents.invalid") as agent:
                self.assertIn("X-Api-Key", agent.headers)
            pierhead.delete(deployment.id)


class Asynchronous(unittest.TestCase):
    def test_deploys_reads_logs_and_deletes(self) -> None:
        asyncio.run(self._story())

    async def _story(self) -> None:
        async with AsyncPierhead() as pierhead:
            deployed = await pierhead.deploy("async-word", project(), variables={"WORD": "ahoy"})
            async with pierhead.agent(deployed) as agent:
                self.assertEqual((await agent.get("/")).json(), {"says": "ahoy"})
            async for line in pierhead.logs(deployed.id, follow=True):
                if line.message == "word is ready":
                    break
            async for event in pierhead.events(deployed.id, after="0"):
                if event.to_dict()["data"].get("to") == "DEPLOYED":
                    break
            self.assertEqual([one.name async for one in pierhead.deployments(name="async-word")], ["async-word"])
            await pierhead.delete(deployed.id)


if __name__ == "__main__":
    unittest.main()
