import assert from "node:assert/strict";
import { test } from "node:test";
import { startAnswering } from "../client/answering.ts";
import { runCli } from "./run-cli.ts";

const deployment = {
  id: "6b1f0f64-5f0e-4a0e-9a35-0d5b6c1f7a11",
  name: "support",
  secrets: [],
  latest_revision_id: null,
};
const line = (id: string) => ({
  ...{ id, level: "INFO", message: `line ${id}`, replica: null, revision_id: null },
  timestamp: "2026-01-01T10:00:00.123456Z",
});
const found = { status: 200, body: { resources: [deployment], offset: 1 } };

test("reads a timestamp copied from a log as the same moment in every time zone", async (t) => {
  const zone = process.env["TZ"];
  t.after(() => {
    if (zone === undefined) delete process.env["TZ"];
    else process.env["TZ"] = zone;
  });
  process.env["TZ"] = "Asia/Tokyo";
  await using server = await startAnswering(({ url }) =>
    url.includes("/logs") ? { status: 200, body: { logs: [line("1")], next_offset: null } } : found,
  );
  const at = ["--url", server.url];
  const { stdout } = await runCli(["logs", "support", ...at]);
  const moment = stdout.slice(0, 23);
  assert.equal(moment, "2026-01-01 10:00:00.123");
  for (const since of [moment, "2026-01-01T10:00:00.123Z", "2026-01-01T19:00:00.123+09:00"]) {
    assert.equal((await runCli(["logs", "support", "--since", since, ...at])).code, 0);
    const asked = new URL(server.asked.at(-1)?.url ?? "", server.url);
    assert.equal(asked.searchParams.get("start_time"), "2026-01-01T10:00:00.123Z", since);
  }
});

test("prints one JSON document per line of a followed log, also for the failure", async () => {
  let isEnded = false;
  await using server = await startAnswering(({ url }) => {
    if (!url.includes("/logs")) return found;
    if (isEnded) return { status: 403, body: { detail: "This key may not do that." } };
    isEnded = true;
    return { status: 200, body: { logs: [line("1")], next_offset: "1" } };
  });
  const { code, stdout } = await runCli(["logs", "support", "-f", "-n", "1", "--json", "--url", server.url]);
  assert.equal(code, 4);
  const [first, last, ...more] = stdout
    .trimEnd()
    .split("\n")
    .map((text) => JSON.parse(text) as Record<string, unknown>);
  assert.deepEqual([first?.["message"], Object.keys(last ?? {}), more], ["line 1", ["error"], []]);
  const { stdout: none } = await runCli(["env", "--json"]);
  assert.equal((JSON.parse(none) as { error: { message: string } }).error.message, "No command given.");
});

test("takes --tail for --lines, as other programs that show logs", async () => {
  await using server = await startAnswering(({ url }) =>
    url.includes("/logs") ? { status: 200, body: { logs: ["3", "2", "1"].map(line), next_offset: null } } : found,
  );
  for (const flag of ["--tail", "--lines", "-n"]) {
    assert.equal((await runCli(["logs", "support", flag, "2", "--url", server.url])).code, 0, flag);
    assert.match(server.asked.at(-1)?.url + (server.asked.at(-1)?.body ?? ""), /limit"?[=:]2\b/, flag);
  }
});

test("searches the logs of all deployments page by page, and prints them oldest first", async () => {
  const found = (id: string) => ({ ...line(id), deployment_id: deployment.id, deployment_name: "support" });
  await using server = await startAnswering(({ url }) => {
    const isFirst = !url.includes("cursor=");
    const body = { logs: [found(isFirst ? "2" : "1")], next_cursor: isFirst ? "7.2" : null };
    return { status: 200, body };
  });
  const at = ["--url", server.url];
  const { code, stdout } = await runCli(["logs", "--all", 'level:error "timed out"', "--since", "2026-01-01", ...at]);
  assert.deepEqual(
    [code, stdout],
    [0, "2026-01-01 10:00:00.123 support line 1\n2026-01-01 10:00:00.123 support line 2\n"],
  );
  const asked = new URL(server.asked[1]?.url ?? "", server.url).searchParams;
  assert.deepEqual(
    ["query", "start_time", "cursor", "limit"].map((name) => asked.get(name)),
    ['level:error "timed out"', "2026-01-01T00:00:00.000Z", "7.2", "99"],
  );
  const wrong = await runCli(["logs", "--all", "level:error levle:x", ...at]);
  assert.equal(wrong.code, 2);
  assert.match(wrong.stderr, /There is no field 'levle'[\s\S]*level:error levle:x\n.* {12}\^/);
  assert.match((await runCli(["logs", "--all", "--build", ...at])).stderr, /pierhead logs --all 'source:build'/);
  assert.match((await runCli(["logs", ...at])).stderr, /pierhead logs NAME/);
});
