import assert from "node:assert/strict";
import { once } from "node:events";
import { existsSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { type IncomingMessage, request } from "node:http";
import type { Socket } from "node:net";
import { PassThrough } from "node:stream";
import { after, before, test } from "node:test";
import { type RunOptions, runCli, typing } from "../cli/run-cli.ts";
import { makeWorkspace } from "../security/two-workspaces.ts";
import { createAgentRepository, nodeAgent } from "../support/agent-repository.ts";
import { eventually } from "../support/eventually.ts";
import { startTestServer, type TestServer } from "../support/server.ts";

let pierhead: TestServer;
before(async () => {
  pierhead = await startTestServer();
  await using repository = await createAgentRepository();
  const { "server.js": server } = nodeAgent("one");
  const upgrade = `
    server.on("upgrade", (request, socket) => {
      socket.on("error", () => socket.destroy());
      socket.write("HTTP/1.1 101 Switching Protocols\\r\\nconnection: Upgrade\\r\\nupgrade: websocket\\r\\n\\r\\n");
      socket.pipe(socket);
    });`;
  await repository.commit({ "server.js": server + upgrade });
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
  const missing = await run(["exec", "bot", "--", "no-such-program"]);
  assert.deepEqual([missing.code, /no such program in PATH/.test(missing.stderr)], [127, true], missing.stderr);
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

test("a shell has a terminal of the caller's size", { skip: !existsSync("/usr/bin/python3") }, async () => {
  const { code, stdout } = await run(["shell", "bot"], typing("stty size; echo $GREETING; yes | head -n 1; exit 3"));
  assert.equal(code, 3, stdout);
  // After the echo of the line, its output. A program that inherits an ignored SIGPIPE reports a broken pipe.
  assert.match(stdout, /\n24 93\r\ngood morning\r\ny\r\n/);
});

test("a terminal takes a paste that is longer than the kernel's buffers", {
  skip: !existsSync("/usr/bin/python3"),
}, async () => {
  const lines = Array.from({ length: 20_000 }, (_, at) => `line ${at}`);
  const stdin = new PassThrough();
  let isTyped = false;
  const { code, stdout } = await run(["exec", "bot", "--", "sh", "-c", "stty -echo; echo ready; cat"], {
    isTTY: true,
    stdin,
    onStdout(text) {
      if (!isTyped && text.includes("ready")) stdin.write(`${lines.join("\n")}\n\u0004`);
      isTyped ||= text.includes("ready");
    },
  });
  assert.equal(code, 0);
  assert.deepEqual(stdout.split("\r\n").slice(1, -1), lines);
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
  const { hostname, port } = new URL(url);
  const asked = request({ hostname, port, path: "/../../v2/session", headers: { connection: "close" } }).end();
  const [outside] = (await once(asked, "response")) as [IncomingMessage];
  assert.equal(outside.statusCode, 403, "a path that leads out of the agent");
  // A body of unknown length, which must not become a request of its own.
  const body = new Blob(["GET /v2/info HTTP/1.1\r\n\r\n"]).stream();
  const deleted = await fetch(`${url}/events?count=1`, { method: "DELETE", body, duplex: "half" } as RequestInit);
  assert.equal(await deleted.text(), "data: 1\n\n");
  const upgrade = { connection: "Upgrade", upgrade: "websocket", "sec-websocket-version": "13" };
  const sent = request({
    hostname,
    port,
    headers: { ...upgrade, "sec-websocket-key": "dGhlIHNhbXBsZSBub25jZQ==" },
  }).end();
  const [, tunnel] = (await once(sent, "upgrade")) as [IncomingMessage, Socket];
  tunnel.write("through the tunnel");
  assert.equal(String((await once(tunnel, "data"))[0]), "through the tunnel");
  const left = once(tunnel, "close");
  ended.abort();
  assert.equal((await ran).code, 0, "an open WebSocket does not keep it");
  await left;
  assert.match((await run(["port-forward", "bot", "80:8080"])).stderr, /cannot be chosen/);
});

test("port-forward lets pages of the allowed origin read the agent's responses, and no other pages", async () => {
  const ended = new AbortController();
  const { promise: printed, resolve } = Promise.withResolvers<string>();
  const argv = ["port-forward", "bot", "--allow-origin", "https://app.example"];
  const ran = run(argv, { signal: ended.signal, onStdout: (text) => resolve(text.trim()) });
  const url = await printed;
  const ask = (origin: string, headers: Record<string, string> = {}, method = "GET") =>
    fetch(`${url}/ok`, { method, headers: { origin, ...headers } });
  const wanted = { "access-control-request-method": "POST", "access-control-request-headers": "content-type" };
  const preflight = await ask("https://app.example", wanted, "OPTIONS");
  const granted = (name: string) => preflight.headers.get(`access-control-allow-${name}`);
  assert.deepEqual([preflight.status, granted("origin"), granted("methods")], [204, "https://app.example", "POST"]);
  assert.equal(granted("credentials"), null);
  assert.equal((await ask("https://app.example")).headers.get("access-control-allow-origin"), "https://app.example");
  for (const origin of ["https://app.example.evil", "http://app.example", "https://app.example:444", "null"]) {
    for (const answer of [await ask(origin, wanted, "OPTIONS"), await ask(origin)])
      assert.deepEqual([answer.status, answer.headers.get("access-control-allow-origin")], [403, null], origin);
  }
  ended.abort();
  assert.equal((await ran).code, 0);
});

test("ends programs when the server stops, and frees the slots of callers that leave early", async () => {
  const { hostname, port } = new URL(pierhead.url);
  const [deployment] = (await pierhead.client.listDeployments({})).resources;
  const headers = { connection: "Upgrade", upgrade: "pierhead-exec", "x-api-key": pierhead.apiKey };
  const path = `/v2/deployments/${deployment?.id}/exec`;
  // More than a server runs at a time.
  const gone = Array.from({ length: 100 }, async () => {
    const sent = request({ hostname, port, path, headers }).on("error", () => {});
    sent.end(() => sent.destroy());
    await new Promise((resolve) => sent.once("close", resolve));
  });
  await Promise.all(gone);
  let pid = 0;
  const ran = run(["exec", "bot", "--", "sh", "-c", "sleep 1000 & echo $!; wait"], {
    stdin: new PassThrough(),
    onStdout(text) {
      pid = Number(text);
    },
  });
  await eventually(
    async () => pid,
    (seen) => seen > 0,
  );
  await pierhead.restart();
  assert.equal((await ran).code, 137);
  // What has ended has no command line, even before its parent collects its exit code.
  assert.equal(await readFile(`/proc/${pid}/cmdline`, "utf8").catch(() => ""), "");
});

test("refuses readers, strangers and unknown deployments, and every caller where the operator turned it off", async () => {
  const reader = await pierhead.client.createApiKey({ body: { name: "reader", role: "reader" } });
  const refused = await run(["exec", "bot", "--", "env"], {}, reader.key);
  assert.equal(refused.code, 4);
  assert.match(refused.stderr, /needs a key with the role 'deployer'/);
  const stranger = await makeWorkspace(pierhead);
  const deploymentId = (await pierhead.client.listDeployments({})).resources[0]?.id as string;
  const foreign = await run(["exec", deploymentId, "--", "env"], {}, stranger.apiKey);
  assert.deepEqual([foreign.code, foreign.stdout], [1, ""], foreign.stderr);
  const plain = await fetch(`${pierhead.url}/v2/deployments/${crypto.randomUUID()}/exec`, {
    headers: { "x-api-key": pierhead.apiKey },
  });
  assert.equal(plain.status, 404);
  const gone = await run(["exec", "bot", "--replica", "x", "--", "env"]);
  assert.match(gone.stderr, new RegExp(`replica x does not run\\. .*pierhead ps ${deploymentId}`));
  await pierhead.restart({ PIERHEAD_EXEC: "false" });
  const off = await run(["exec", "bot", "--", "env"]);
  assert.deepEqual([off.code, /PIERHEAD_EXEC=false/.test(off.stderr)], [4, true]);
  await pierhead.restart();
  const after = await run(["exec", "bot", "--", "sh", "-c", "echo $GREETING"]);
  assert.equal(after.stdout, "good morning\n", "a replica that an earlier server started");
});
