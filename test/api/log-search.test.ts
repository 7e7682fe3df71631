import assert from "node:assert/strict";
import { test } from "node:test";
import { appendLogEntries, type NewLogEntry } from "../../src/store/logs/log-entries.ts";
import { startApi } from "./harness.ts";

const t = await startApi();

async function deploy(name: string, key = t.tenant.adminKey) {
  const { body } = await t.ask({
    key,
    method: "POST",
    url: "/v2/deployments",
    payload: {
      name,
      source: "external_docker",
      source_config: {},
      source_revision_config: { image_uri: "registry.example.org/bot:1" },
    },
  });
  return { deployment_id: body.id as string, revision_id: body.latest_revision_id as string };
}

const support = await deploy("support");
const billing = await deploy("billing");
const foreign = await deploy("support", t.stranger.adminKey);

type Line = Partial<Omit<NewLogEntry, "logged_at">> & { message: string; at: string };
const append = (of: typeof support, lines: Line[]) =>
  appendLogEntries(
    t.db,
    lines.map(({ at, ...line }) => ({
      ...{ ...of, kind: "deploy", replica_id: "replica-1", stream: "stdout", level: "INFO", line_key: null },
      ...{ logged_at: new Date(`2026-11-20T${at}Z`), ...line },
    })),
  );
await append(support, [
  { at: "10:00:00", message: "Started" },
  { at: "10:00:03", message: "tool failed: timed out", level: "ERROR", replica_id: "replica-2" },
  { at: "10:00:05", message: "100%_sure", level: "WARNING" },
]);
await append(billing, [
  { at: "10:00:01", message: "charge failed: TIMED OUT", level: "CRITICAL", stream: "stderr" },
  { at: "10:00:04", message: "Step 1/2: Install", kind: "build", replica_id: null },
  { at: "10:00:05", message: "charged", level: "DEBUG" },
]);
await append(foreign, [{ at: "10:00:02", message: "Started, timed out" }]);

const range = { start_time: "2026-11-20T09:00:00Z", end_time: "2026-11-20T11:00:00Z" };
const search = (query: string, more: Record<string, string> = {}, key = t.tenant.adminKey) =>
  t.ask({ key, method: "GET", url: `/v2/logs?${new URLSearchParams({ query, ...range, ...more })}` });
const found = async (query: string) =>
  (await search(query)).body.logs.map(({ message }: { message: string }) => message) as string[];

test("returns the lines of all deployments of the workspace, newest first, and says where each comes from", async () => {
  const { status, body } = await search("");
  assert.equal(status, 200);
  const { id, ...line } = body.logs[0];
  assert.equal(typeof id, "string");
  assert.deepEqual(line, {
    timestamp: "2026-11-20T10:00:05.000Z",
    level: "DEBUG",
    message: "charged",
    source: "deploy",
    replica: "replica-1",
    stream: "stdout",
    run_id: null,
    ...billing,
    deployment_name: "billing",
    revision_number: 1,
  });
  assert.deepEqual(
    body.logs.map(({ deployment_name: name, message }: Record<string, string>) => `${name}: ${message}`),
    [
      "billing: charged",
      "support: 100%_sure",
      "billing: Step 1/2: Install",
      "support: tool failed: timed out",
      "billing: charge failed: TIMED OUT",
      "support: Started",
    ],
  );
  assert.deepEqual([body.next_cursor, body.searched_to, body.counts], [null, "2026-11-20T09:00:00.000Z", null]);
  const others = await search("", {}, t.stranger.adminKey);
  assert.deepEqual(
    others.body.logs.map(({ message }: { message: string }) => message),
    ["Started, timed out"],
  );
});

test("finds lines by words, phrases and fields, and without what is excluded", async () => {
  assert.deepEqual(await found('"timed out"'), ["tool failed: timed out", "charge failed: TIMED OUT"]);
  assert.deepEqual(await found("failed tool"), ["tool failed: timed out"]);
  assert.deepEqual(await found("failed -tool"), ["charge failed: TIMED OUT"]);
  assert.deepEqual(await found("level:error"), ["tool failed: timed out"]);
  assert.deepEqual(await found("level:error,fatal"), ["tool failed: timed out", "charge failed: TIMED OUT"]);
  assert.deepEqual(await found("level:>=warn"), ["100%_sure", "tool failed: timed out", "charge failed: TIMED OUT"]);
  assert.deepEqual(await found("deployment:billing -level:debug source:deploy"), ["charge failed: TIMED OUT"]);
  assert.deepEqual(await found(`deployment:${support.deployment_id} replica:ca-2`), ["tool failed: timed out"]);
  assert.deepEqual(await found("-replica:replica-1"), ["Step 1/2: Install", "tool failed: timed out"]);
  assert.deepEqual(await found(`revision:${billing.revision_id.slice(0, 8)} stream:stderr`), [
    "charge failed: TIMED OUT",
  ]);
  assert.deepEqual(await found("revision:1 started"), ["Started"]);
  assert.deepEqual(await found("revision:2"), []);
  assert.deepEqual(await found("0%_"), ["100%_sure"]);
  assert.deepEqual(await found("run:timed -deployment:support"), ["charge failed: TIMED OUT"]);
});

test("refuses a wrong query and names the position of the mistake", async () => {
  const refused = async (query: string) => {
    const { status, headers, body } = await search(query);
    assert.deepEqual([status, headers["x-pierhead-error"]], [400, "invalidLogQuery"], query);
    return [body.position, body.detail];
  };
  assert.deepEqual(await refused('level:error "timed'), [
    13,
    "Log query, position 13: The quote that starts here has no end.",
  ]);
  assert.deepEqual(await refused("failed levle:error"), [
    8,
    "Log query, position 8: There is no field 'levle'. Fields are level, deployment, revision, replica, source, stream, run. " +
      'To search for this text, quote it: "levle:error".',
  ]);
  assert.deepEqual(await refused("level:loud"), [
    1,
    "Log query, position 1: 'loud' is not a level. Use one of debug, info, warning, error, critical.",
  ]);
  assert.deepEqual((await refused("a replica:"))[0], 11);
  assert.deepEqual(await refused("x -deployment:support,nobody"), [
    3,
    "Log query, position 3: There is no deployment 'nobody' in this workspace.",
  ]);
  assert.equal((await search("", { cursor: "1" })).headers["x-pierhead-error"], "invalidLogCursor");
});

test("pages through lines with the same time without gaps or duplicates, and counts the lines it read", async () => {
  const busy = await deploy("busy");
  const lines = 12_000;
  await append(
    busy,
    Array.from({ length: lines }, (_, index) => ({
      at: `10:30:${String(Math.floor(index / 400)).padStart(2, "0")}`,
      message: `line ${index}`,
      level: index % 4 === 0 ? ("ERROR" as const) : ("INFO" as const),
    })),
  );
  const first = await search("level:error deployment:busy", { counts: "true", limit: "1000" });
  const { counts, next_cursor: cursor, searched_to: searchedTo } = first.body;
  assert.deepEqual([counts.lines_read, counts.matches, first.body.logs.length], [10_000, 2_500, 1_000]);
  assert.deepEqual(counts.levels, [{ level: "ERROR", count: 2_500 }]);
  assert.deepEqual(counts.deployments, [{ deployment_id: busy.deployment_id, name: "busy", count: 2_500 }]);
  assert.equal(
    counts.histogram.reduce((sum: number, { errors }: { errors: number }) => sum + errors, 0),
    2_500,
  );
  assert.equal(searchedTo, first.body.logs.at(-1).timestamp);
  assert.equal(counts.read_to, "2026-11-20T10:30:05.000Z");
  const seen: string[] = first.body.logs.map(({ message }: { message: string }) => message);
  for (let next: string | null = cursor; next !== null; ) {
    const { body } = await search("level:error deployment:busy", { cursor: next, limit: "1000" });
    seen.push(...body.logs.map(({ message }: { message: string }) => message));
    next = body.next_cursor;
  }
  const expected = Array.from({ length: lines / 4 }, (_, index) => `line ${lines - 4 - index * 4}`);
  assert.deepEqual(seen, expected);
  const rest = await search("level:error deployment:busy", { counts: "true", cursor: counts.next_cursor });
  assert.deepEqual([rest.body.counts.matches, rest.body.counts.next_cursor], [500, null]);
});

test("long lines and long texts neither stop other statements nor hide lines", async () => {
  const wordy = await deploy("wordy");
  // Each byte of these lines is compared with the whole text: a statement on all of them takes ten seconds.
  const lines = 120;
  await append(
    wordy,
    Array.from({ length: lines }, (_, index) => ({ at: "10:40:00", message: `${index} ${"a".repeat(16_384)}` })),
  );
  const query = `deployment:wordy ${"a".repeat(900)}b`;
  const searches = Promise.all(Array.from({ length: 4 }, () => search(query, { counts: "true" })));
  let isOver = false;
  void searches.then(() => {
    isOver = true;
  });
  let longestMs = 0;
  while (!isOver) {
    const beganAt = performance.now();
    await t.ask({ key: t.stranger.adminKey, method: "GET", url: "/v2/deployments" });
    longestMs = Math.max(longestMs, performance.now() - beganAt);
  }
  assert.ok(longestMs < 5_000, `another request took ${longestMs} ms`);
  for (const { status, body } of await searches) {
    assert.equal(status, 200);
    assert.ok(body.counts.lines_read > 0 && body.next_cursor !== null, "reads some lines and says where to go on");
  }
  const seen: string[] = [];
  for (let next: string | null = ""; next !== null; ) {
    const { body } = await search("deployment:wordy aaa", { limit: "100", ...(next && { cursor: next }) });
    seen.push(...body.logs.map(({ message }: { message: string }) => message.split(" ")[0]));
    next = body.next_cursor;
  }
  assert.deepEqual(
    seen,
    Array.from({ length: lines }, (_, index) => String(lines - 1 - index)),
  );
});
