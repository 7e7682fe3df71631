import assert from "node:assert/strict";
import { existsSync } from "node:fs";
import { PassThrough } from "node:stream";
import { after, before, test } from "node:test";
import { type RunOptions, runCli } from "../cli/run-cli.ts";
import { createAgentRepository } from "../support/agent-repository.ts";
import { eventually } from "../support/eventually.ts";
import { startTestServer, type TestServer } from "../support/server.ts";

let pierhead: TestServer;
before(async () => {
  pierhead = await startTestServer();
  await using repository = await createAgentRepository();
  const { id, latest_revision_id } = await pierhead.client.createDeployment({
    body: {
      name: "bot",
      source: "github",
      source_config: { repo_url: repository.url, deployment_type: "dev", build_on_push: false },
      source_revision_config: { repo_ref: "main", langgraph_config_path: "pierhead.json" },
      secrets: [{ name: "GREETING", value: "good morning" }],
    } as never,
  });
  const revision = await pierhead.client.waitForRevision({ deployment_id: id, revision_id: latest_revision_id ?? "" });
  assert.equal(revision.status, "DEPLOYED", revision.status_message ?? "");
});
after(() => pierhead[Symbol.asyncDispose]());

const run = (argv: string[], options: RunOptions = {}, key = pierhead.apiKey) =>
  runCli(argv, { ...options, env: { PIERHEAD_URL: pierhead.url, PIERHEAD_API_KEY: key, PIERHEAD_DATA_DIR: "" } });

test("exec runs a program with the files and variables of the agent, its input, and its exit code", async () => {
  const program = `
    const { existsSync, readFileSync } = require("node:fs");
    console.log(process.env.GREETING, existsSync("server.js"), readFileSync(0, "utf8"));
    console.error("problem");
    process.exit(7);`;
  const ran = await run(["exec", "bot", "--", "node", "-e", program], { stdin: "typed" });
  assert.deepEqual([ran.code, ran.stdout, ran.stderr], [7, "good morning true typed\n", "problem\n"]);
  const { stdout } = await run(["exec", "bot", "--json", "--", "sh", "-c", "echo a; echo b >&2"]);
  const { replica_id, ...answer } = JSON.parse(stdout);
  assert.deepEqual(answer, { exit_code: 0, stdout: "a\n", stderr: "b\n" });
  assert.match((await run(["exec", "bot", "--", "no-such-program"])).stderr, /no program no-such-program in the PATH/);
  const { items } = await pierhead.client.listAuditLog({});
  const row = items.find(({ action, details }) => action === "deployment.exec" && details?.["program"] === "sh");
  assert.deepEqual(row?.details, { program: "sh", replica_id });
  assert.ok(!JSON.stringify(items).includes("echo a"), "arguments may have secrets");
});

test("a large output and a large input arrive whole", async () => {
  const input = "0123456789abcdef\n".repeat(200_000);
  const { code, stdout } = await run(["exec", "bot", "--", "cat"], { stdin: input });
  assert.equal(code, 0);
  assert.ok(stdout === input, `${stdout.length} of ${input.length} characters`);
});

test("everything that a program started ends when its caller leaves", async () => {
  const cancelled = new AbortController();
  let pid = 0;
  const ran = run(["exec", "bot", "--", "sh", "-c", "sleep 1000 & setsid sleep 1000 & echo $!; wait"], {
    stdin: new PassThrough(),
    signal: cancelled.signal,
    onStdout(text) {
      pid = Number(text);
      cancelled.abort();
    },
  });
  assert.equal((await ran).code, 2);
  assert.ok(pid > 0);
  await eventually(
    async () => existsSync(`/proc/${pid}`),
    (isThere) => !isThere,
  );
  assert.equal((await fetch((await pierhead.client.listDeployments({})).resources[0]?.url ?? "")).ok, true);
});

test("port-forward serves the agent on a port of this machine, and to no other site's page", async () => {
  const ended = new AbortController();
  const { promise: printed, resolve } = Promise.withResolvers<string>();
  const ran = run(["port-forward", "bot"], { signal: ended.signal, onStdout: (text) => resolve(text.trim()) });
  const url = await printed;
  assert.match(url, /^http:\/\/127\.0\.0\.1:\d+$/);
  const { version } = (await (await fetch(`${url}/?ms=1`)).json()) as { version: string };
  assert.equal(version, "one");
  const events = await (await fetch(`${url}/events?count=2`, { method: "POST", body: "x".repeat(100_000) })).text();
  assert.equal(events, "data: 1\n\ndata: 2\n\n");
  for (const headers of [{ origin: "https://evil.example" }, { "sec-fetch-site": "cross-site" }] as const) {
    const refused = await fetch(`${url}/ok`, { headers: headers as Record<string, string> });
    assert.equal(refused.status, 403, JSON.stringify(headers));
  }
  ended.abort();
  assert.equal((await ran).code, 0);
  assert.match((await run(["port-forward", "bot", "80:8080"])).stderr, /cannot be chosen/);
});

test("refuses readers and unknown deployments, and every caller where the operator turned it off", async () => {
  const reader = await pierhead.client.createApiKey({ body: { name: "reader", role: "reader" } });
  const refused = await run(["exec", "bot", "--", "env"], {}, reader.key);
  assert.equal(refused.code, 4);
  assert.match(refused.stderr, /needs a key with the role 'deployer'/);
  const plain = await fetch(`${pierhead.url}/v2/deployments/${crypto.randomUUID()}/exec`, {
    headers: { "x-api-key": pierhead.apiKey },
  });
  assert.equal(plain.status, 404);
  assert.match((await run(["exec", "bot", "--replica", "x", "--", "env"])).stderr, /replica x does not run/);
  await pierhead.restart({ PIERHEAD_EXEC: "false" });
  const off = await run(["exec", "bot", "--", "env"]);
  assert.deepEqual([off.code, /PIERHEAD_EXEC=false/.test(off.stderr)], [4, true]);
  await pierhead.restart();
  const after = await run(["exec", "bot", "--", "sh", "-c", "echo $GREETING"]);
  assert.equal(after.stdout, "good morning\n", "a replica that an earlier server started");
});
