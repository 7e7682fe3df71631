import assert from "node:assert/strict";
import { test } from "node:test";
import { sql } from "../../src/store/engine/sql.ts";
import { appendLogEntries, type LogLevelName } from "../../src/store/logs/log-entries.ts";
import { startApi } from "./harness.ts";

const t = await startApi();
const { body: deployment } = await t.ask({
  method: "POST",
  url: "/v2/deployments",
  payload: {
    name: "logs",
    source: "external_docker",
    source_config: {},
    source_revision_config: { image_uri: "registry.example.org/bot:1" },
  },
});
const deploymentId: string = deployment.id;
const revisionId: string = deployment.latest_revision_id;
const project = `/v1/projects/${deploymentId}`;
const revisionUrl = `/v2/deployments/${deploymentId}/revisions/${revisionId}/logs`;

const append = (kind: "build" | "deploy", lines: [message: string, level?: LogLevelName, at?: string][]) =>
  appendLogEntries(
    t.db,
    lines.map(([message, level = "INFO", at = "2026-11-20T10:00:00Z"]) => ({
      tenant_id: t.tenant.tenantId,
      deployment_id: deploymentId,
      revision_id: revisionId,
      kind,
      replica_id: kind === "deploy" ? "replica-1" : null,
      stream: "stdout",
      level,
      logged_at: new Date(at),
      message,
      line_key: null,
    })),
  );
const settle = (status: string, since = "now() - interval '1 hour'") =>
  t.db.query(sql`update revisions set status = ${status}, status_since = ${sql.raw(since)} where id = ${revisionId}`);
const build = (payload: object) =>
  t.ask({ method: "POST", url: `${project}/revisions/${revisionId}/build_logs`, payload });
const messages = (answer: { body: { logs: { message: string }[] } }) => answer.body.logs.map(({ message }) => message);

test("follows a build by offset to its end: no duplicate, no gap, and null only at the end", async () => {
  await settle("BUILDING");
  const empty = await build({ limit: 50, order: "asc" });
  assert.deepEqual([empty.status, empty.body], [200, { logs: [], next_offset: "0" }]);
  await append("build", [["one"], ["two"], ["three"]]);
  const first = await build({ limit: 2, order: "asc", offset: empty.body.next_offset });
  assert.deepEqual(messages(first), ["one", "two"]);
  const second = await build({ limit: 2, order: "asc", offset: first.body.next_offset });
  assert.deepEqual(messages(second), ["three"]);
  assert.equal(typeof second.body.next_offset, "string");
  const waiting = await build({ limit: 2, order: "asc", offset: second.body.next_offset });
  assert.deepEqual(waiting.body, { logs: [], next_offset: second.body.next_offset });
  await append("build", [["four"]]);
  await settle("BUILD_FAILED");
  const last = await build({ limit: 2, offset: waiting.body.next_offset });
  assert.deepEqual([messages(last), last.body.next_offset], [["four"], null]);
});

test("reads the tail of a build backwards", async () => {
  const tail = await build({ order: "desc", limit: 3 });
  assert.deepEqual(messages(tail), ["four", "three", "two"]);
  const rest = await build({ order: "desc", limit: 3, offset: tail.body.next_offset });
  assert.deepEqual([messages(rest), rest.body.next_offset], [["one"], null]);
});

test("entries have stable ids and name their origin", async () => {
  const [first, again] = [await build({ limit: 1 }), await build({ limit: 1 })];
  assert.deepEqual(first.body, again.body);
  const [entry] = first.body.logs;
  assert.equal(typeof entry.id, "string");
  assert.deepEqual(
    { ...entry, id: "" },
    {
      id: "",
      timestamp: "2026-11-20T10:00:00.000Z",
      level: "INFO",
      message: "one",
      source: "build",
      revision_id: revisionId,
      replica: null,
      stream: "stdout",
      run_id: null,
    },
  );
});

test("filters replica logs by level, text, run and time; the start is inclusive, the end exclusive", async () => {
  await settle("DEPLOYED");
  await append("deploy", [
    ["Starting", "DEBUG", "2026-11-20T11:00:00Z"],
    ["Run abc failed", "ERROR", "2026-11-20T11:00:01Z"],
    ["run ABC again", "WARNING", "2026-11-20T11:00:02Z"],
    ["fell over", "CRITICAL", "2026-11-20T11:00:03Z"],
  ]);
  const read = async (payload: object) =>
    messages(await t.ask({ method: "POST", url: `${project}/deploy_logs`, payload }));
  assert.deepEqual(await read({ level: "WARNING" }), ["Run abc failed", "run ABC again", "fell over"]);
  assert.deepEqual(await read({ query: "run abc" }), ["Run abc failed", "run ABC again"]);
  assert.deepEqual(await read({ start_time: "2026-11-20T11:00:01Z", end_time: "2026-11-20T11:00:03Z" }), [
    "Run abc failed",
    "run ABC again",
  ]);
  const run = await t.ask({ url: `/v2/deployments/${deploymentId}/logs?type=deploy&run_id=abc` });
  assert.deepEqual(messages(run), ["Run abc failed"]);
});

test("the log of a running revision always has a next offset, even without new lines", async () => {
  const url = `${revisionUrl}?type=deploy&limit=1000`;
  const { body } = await t.ask({ url });
  assert.equal(body.logs.length, 4);
  const next = await t.ask({ url: `${url}&offset=${body.next_offset}` });
  assert.deepEqual(next.body, { logs: [], next_offset: body.next_offset });
  await settle("DEPLOY_FAILED", "now()");
  assert.notEqual((await t.ask({ url })).body.next_offset, null);
  await settle("DEPLOY_FAILED");
  assert.equal((await t.ask({ url })).body.next_offset, null);
});

test("returns the same lines under every address", async () => {
  const expected = ["Starting", "Run abc failed", "run ABC again", "fell over"];
  assert.deepEqual(messages(await t.ask({ url: `${revisionUrl}?type=deploy` })), expected);
  assert.deepEqual(messages(await t.ask({ url: `/v2/deployments/${deploymentId}/logs?type=deploy` })), expected);
  assert.deepEqual(messages(await t.ask({ method: "POST", url: `${project}/deploy_logs` })), expected);
  assert.deepEqual(
    messages(await t.ask({ method: "POST", url: `${project}/revisions/${revisionId}/deploy_logs` })),
    expected,
  );
  const paged = [];
  for (let cursor = ""; ; ) {
    const url = `/v2/deployment-logs?deployment_id=${deploymentId}&revision_id=${revisionId}&page_size=3`;
    const { body } = await t.ask({ url: cursor === "" ? url : `${url}&cursor=${cursor}` });
    paged.push(...body.items.map(({ message }: { message: string }) => message));
    if (body.next_cursor === null) break;
    cursor = body.next_cursor;
  }
  assert.deepEqual(paged, expected);
  const build = await t.ask({
    url: `/v2/deployment-logs?deployment_id=${deploymentId}&log_type=BUILD&sort_order=desc&page_size=1`,
  });
  assert.deepEqual(build.body.items[0].message, "four");
});

test("clients that follow by the time of their last line, as public clients do, get every line, also simultaneous ones", async () => {
  const many = (count: number, name: string, at: string) =>
    append(
      "deploy",
      Array.from({ length: count }, (_, index) => [`${name} ${index}`, "INFO", at] as [string, LogLevelName, string]),
    );
  const ask = async (payload: object) => {
    const answer = await t.ask({ method: "POST", url: `${project}/deploy_logs`, payload: { limit: 10, ...payload } });
    assert.equal(answer.status, 200, answer.text);
    return answer.body.logs as { id: string; timestamp: string; message: string }[];
  };
  await many(1, "start", "2026-11-20T12:00:00.000Z");
  const [newest] = await ask({ order: "desc" });
  const seen = new Set((await ask({ order: "desc" })).map(({ id }) => id));
  let since = newest?.timestamp;
  const printed: string[] = [];
  const poll = async () => {
    const fresh = (await ask({ order: "asc", start_time: since })).filter(({ id }) => !seen.has(id));
    printed.push(...fresh.map(({ message }) => message));
    for (const { id } of fresh) seen.add(id);
    since = fresh.at(-1)?.timestamp ?? since;
  };
  await many(5, "before", "2026-11-20T12:00:01.000Z");
  await many(25, "at once", "2026-11-20T12:00:02.000Z");
  for (let time = 0; time < 5; time += 1) await poll();
  await many(3, "the rest of it", "2026-11-20T12:00:02.000Z");
  await poll();
  await many(12, "after", "2026-11-20T12:00:03.000Z");
  for (let time = 0; time < 5; time += 1) await poll();
  const expected = [5, 25, 3, 12].flatMap((count, index) =>
    Array.from({ length: count }, (_, line) => `${["before", "at once", "the rest of it", "after"][index]} ${line}`),
  );
  assert.deepEqual(printed, expected);
});

test("pages from a time on have each line once", async () => {
  for (const start_time of ["2026-11-20T11:00:01Z", "2026-11-20T12:00:02Z"]) {
    const ask = (payload: object) => t.ask({ method: "POST", url: `${project}/deploy_logs`, payload });
    const whole = await ask({ limit: 1000, start_time });
    const paged: string[] = [];
    let offset: string | undefined;
    for (let page = 0; page < 30; page += 1) {
      const { body } = await ask({ limit: 4, start_time, offset });
      paged.push(...messages({ body }));
      if (body.logs.length < 4) break;
      offset = body.next_offset;
    }
    assert.deepEqual(paged, messages(whole));
    assert.ok(paged.length > 40 || start_time.startsWith("2026-11-20T12"), String(paged.length));
  }
});

test("requires the type of log and rejects an offset that no response contained", async () => {
  const missing = await t.ask({ url: revisionUrl });
  assert.deepEqual(missing.body.detail, [
    { type: "missing", loc: ["query", "type"], msg: "Field required", input: null },
  ]);
  for (const offset of ["x", "-1", "1e3", "99999999999999999999"]) {
    assert.equal((await build({ offset })).status, 400, offset);
  }
  assert.equal((await build({ limit: 0 })).status, 422);
  assert.equal((await build({ limit: 1_001 })).status, 422);
});
