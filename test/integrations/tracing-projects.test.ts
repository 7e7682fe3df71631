import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { test } from "node:test";
import { langsmithProjects, TracingFailure } from "../../src/integrations/langsmith-projects.ts";
import { startTracingServer, type TracingServer } from "../support/tracing-server.ts";

const signal = new AbortController().signal;
const open = ({ url }: Pick<TracingServer, "url">, timeoutMs = 5_000) =>
  langsmithProjects({ url, key: "ls-key", workspaceId: "w-1" }, timeoutMs);

async function failureOf(work: Promise<unknown>): Promise<string> {
  const error = await work.then(
    () => assert.fail("it should have failed"),
    (reason: unknown) => reason,
  );
  assert.ok(error instanceof TracingFailure, String(error));
  assert.ok(!error.message.includes("ls-key"));
  return error.message;
}

test("creates a project with the desired id, finds it by exact name, deletes it, and sends the key each time", async () => {
  await using server = await startTracingServer();
  const projects = open(server);
  const id = randomUUID();
  assert.equal(await projects.find("bot & co", signal), null);
  assert.equal(await projects.create({ id, name: "bot & co" }, signal), id);
  assert.equal(await projects.find("bot & co", signal), id);
  assert.equal(await projects.find("bot", signal), null);
  await projects.remove(id, signal);
  assert.equal(await projects.find("bot & co", signal), null);
  assert.deepEqual(
    server.calls.map(({ method, path }) => `${method} ${path}`),
    [
      "GET /v1/sessions",
      "POST /v1/sessions",
      "GET /v1/sessions",
      "GET /v1/sessions",
      `DELETE /v1/sessions/${id}`,
      "GET /v1/sessions",
    ],
  );
  assert.ok(server.calls.every(({ key, workspace }) => key === "ls-key" && workspace === "w-1"));
});

test("finds an existing project, also one with another id", async () => {
  await using server = await startTracingServer();
  const projects = open(server);
  const id = randomUUID();
  server.projects.set(id, "bot");
  assert.equal(await projects.create({ id: randomUUID(), name: "bot" }, signal), id);
  assert.equal(server.projects.size, 1);
});

test("uses another id when the desired one is taken", async () => {
  await using server = await startTracingServer();
  const id = randomUUID();
  server.spentIds.add(id);
  const made = await open(server).create({ id, name: "bot" }, signal);
  assert.notEqual(made, id);
  assert.equal(server.projects.get(made), "bot");
});

test("ignores the deletion of a missing project", async () => {
  await using server = await startTracingServer();
  await open(server).remove(randomUUID(), signal);
});

test("reports an unavailable backend with its name and message in time, without the key", async () => {
  await using server = await startTracingServer();
  server.state = "away";
  const projects = open(server, 200);
  assert.match(
    await failureOf(projects.create({ id: randomUUID(), name: "bot" }, signal)),
    /answered 503 .*'bot': maintenance/,
  );
  assert.match(await failureOf(projects.find("bot", signal)), /answered 503/);
  assert.match(await failureOf(projects.remove(randomUUID(), signal)), /answered 503/);
  server.state = "silent";
  assert.match(await failureOf(projects.find("bot", signal)), /did not answer within 0\.2 s/);
  assert.match(await failureOf(open({ url: "http://127.0.0.1:1" }).find("bot", signal)), /could not be reached/);
  server.state = "up";
  const wrongKey = langsmithProjects({ url: server.url, key: "other", workspaceId: null });
  assert.match(await failureOf(wrongKey.find("bot", signal)), /answered 401 .*Invalid token/);
});

test("rejects with the reason of the caller's abort signal", async () => {
  await using server = await startTracingServer();
  server.state = "silent";
  const stopping = new AbortController();
  const asked = open(server).find("bot", stopping.signal);
  stopping.abort(new Error("the server is stopping"));
  await assert.rejects(asked, /the server is stopping/);
});
