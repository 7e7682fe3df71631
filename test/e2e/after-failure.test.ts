import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { createDirectory, runCli } from "../cli/run-cli.ts";
import { nodeAgent } from "../support/agent-repository.ts";
import { eventually } from "../support/eventually.ts";
import { startTestServer, type TestServer } from "../support/server.ts";

/** What a user who is new reads after a revision or a request failed. */
let server: TestServer;
before(async () => {
  server = await startTestServer({ PIERHEAD_COMPUTE: "process" });
});
after(() => server[Symbol.asyncDispose]());

const cli = (argv: string[], stdin = "") => runCli([...argv, "--data-dir", server.dataDir], { stdin });

const exclusive = JSON.stringify({ start: ["node", "server.js"], health: "/ok", state: "exclusive" });
/** Takes a while to start, as an agent server with many modules does. */
const slowStart = (code = "") => `${code}\nsetTimeout(() => {${nodeAgent("one")["server.js"]}}, 2_000);\n`;

test("says that the revision before a failed one starts again, and never advises to roll it back", async () => {
  await using source = await createDirectory({ "pierhead.json": exclusive, "server.js": slowStart() });
  assert.equal((await cli(["deploy", source.directory, "--name", "notes"])).code, 0);
  await using broken = await createDirectory({
    "pierhead.json": exclusive,
    "server.js": "throw new Error('no start')",
  });
  const failed = await cli(["deploy", broken.directory, "--name", "notes"]);
  assert.match(failed.stderr, /ended in DEPLOY_FAILED/);
  assert.match(failed.stderr, /Starts again: {2}revision [0-9a-f]{8}/);

  const said: string[] = [];
  const isServing = async () => {
    const { stdout } = await cli(["why", "notes"]);
    said.push(stdout);
    return /still serves/.test(stdout);
  };
  await eventually(isServing, (serving) => serving, { timeoutMs: 30_000, what: "the revision before serves" });
  for (const text of said) {
    assert.doesNotMatch(text, /rollback|roll back|No replica is ready|agree/, text);
    assert.match(text, /The newest revision failed, and the one before (is starting again|still serves)/);
    const next = /still serves/.test(text) ? /None until you change something/ : /Start the revision before again/;
    assert.match(text, new RegExp(`${next.source}|Record the health`), text);
  }
  assert.match(said[0] ?? "", /is starting again/);

  const [serving] = (await server.client.listDeployments({})).resources;
  const active = serving?.active_revision_id?.slice(0, 8);
  const dry = await cli(["env", "set", "notes", "LEVEL", "--dry-run"], "high");
  assert.match(dry.stdout, new RegExp(`The code of revision ${active} runs in a new revision`));
  assert.match(dry.stdout, /did not deploy, so its code stays out/);
});

test("names the code that a variable starts before it is set", async () => {
  await using source = await createDirectory(nodeAgent("one"));
  assert.equal((await cli(["deploy", source.directory, "--name", "asks"])).code, 0);
  await using asking = await createDirectory({
    ...nodeAgent("two"),
    "server.js": `if (!process.env.TEST_MODEL_KEY) throw new Error("TEST_MODEL_KEY is not set");\n${nodeAgent("two")["server.js"]}`,
  });
  const failed = await cli(["deploy", asking.directory, "--name", "asks"]);
  assert.match(failed.stderr, /pierhead env set asks TEST_MODEL_KEY/);

  const [{ latest_revision_id: latest = null } = {}] = (await server.client.listDeployments({ name_contains: "asks" }))
    .resources;
  const dry = await cli(["env", "set", "asks", "TEST_MODEL_KEY", "--dry-run"], "k");
  assert.match(dry.stdout, new RegExp(`The code of revision ${latest?.slice(0, 8)}, which lacked a variable, runs`));
  assert.doesNotMatch(dry.stdout, /stays out/);
  const other = await cli(["env", "set", "asks", "LEVEL", "--dry-run"], "high");
  assert.match(other.stdout, /did not deploy, so its code stays out/);
  assert.equal((await cli(["env", "set", "asks", "TEST_MODEL_KEY"], "k")).code, 0);
  const { stdout: url } = await cli(["open", "asks"]);
  assert.match(await (await fetch(url.trim())).text(), /two/);
});

test("finds a failed request by its x-request-id, its traceback among the errors, and counts it in why", async () => {
  const fails = `
const http = require("node:http");
http.createServer((request, response) => {
  if (request.url === "/ok") return response.end("ok");
  console.error("Traceback (most recent call last):\\n  File \\"main.py\\", line 1, in boom\\nmain.Broken: no");
  response.statusCode = request.url.startsWith("/boom") ? 500 : 200;
  response.end();
}).listen(process.env.PORT, "127.0.0.1");`;
  await using source = await createDirectory({ ...nodeAgent("one"), "server.js": fails });
  const { stdout: url } = await cli(["deploy", source.directory, "--name", "fails"]);
  const answer = await fetch(`${url.trim()}/boom?token=hunter2`);
  assert.equal(answer.status, 500);
  const requestId = answer.headers.get("x-request-id") ?? "";
  const revision = answer.headers.get("x-pierhead-revision") ?? "";
  await fetch(`${url.trim()}/fine`);

  const found = await eventually(
    async () => (await cli(["logs", "fails", "--search", requestId, "--json"])).stdout,
    (text) => text !== "",
    { timeoutMs: 20_000, what: "the line about the request" },
  );
  const line = JSON.parse(found) as Record<string, string>;
  assert.match(line["message"] ?? "", new RegExp(`^GET /boom answered 500 after \\d+ ms, x-request-id ${requestId}$`));
  assert.deepEqual([line["level"], line["revision_id"]], ["ERROR", revision]);
  const { replicas } = await server.client.listReplicas({
    deployment_id: (await server.client.listDeployments({ name_contains: "fails" })).resources[0]?.id ?? "",
  });
  assert.equal(line["replica"], replicas[0]?.id);

  const everywhere = await cli(["logs", "--all", requestId]);
  assert.match(everywhere.stdout, /GET \/boom answered 500/);
  assert.doesNotMatch(everywhere.stdout, /hunter2/);
  await eventually(
    async () => (await cli(["logs", "fails", "--level", "ERROR"])).stdout,
    (text) => /Traceback[\s\S]*File "main\.py", line 1, in boom[\s\S]*main\.Broken: no/.test(text),
    { timeoutMs: 20_000, what: "the whole traceback among the errors" },
  );

  const why = await eventually(
    async () => (await cli(["why", "fails"])).stdout,
    (text) => /Last 15 minutes/.test(text),
    { timeoutMs: 90_000, what: "the failed request in why" },
  );
  assert.match(why, /1 of \d+ requests failed: status 500 or above, or broken off/);
  assert.match(why, /pierhead logs fails --level ERROR --since 15m/);
});
