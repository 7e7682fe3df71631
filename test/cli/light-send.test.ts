import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { createServer } from "node:net";
import { test } from "node:test";
import { promisify } from "node:util";
import { lightSend } from "../../src/cli/light-send.ts";
import { ApiFailure, createClient, ServerUnreachable } from "../../src/client/client.ts";
import { startAnswering } from "../client/answering.ts";
import { startTlsDoor } from "../support/tls-proxy.ts";
import { runCli } from "./run-cli.ts";

const deployment_id = "6b1f0f64-5f0e-4a0e-9a35-0d5b6c1f7a11";
const light = (baseUrl: string) => createClient({ baseUrl, apiKey: "key", workspaceId: "w", send: lightSend({}) });
const usual = (baseUrl: string) => createClient({ baseUrl, apiKey: "key", workspaceId: "w" });
const failureOf = (work: Promise<unknown>) =>
  work.then(
    () => assert.fail("it should have failed"),
    (reason: unknown) => reason,
  );

test("sends the same requests and reads the same responses as fetch", async () => {
  const umlauts = "ü€😀".repeat(30_000);
  await using server = await startAnswering(({ method }, count) => {
    if (method === "DELETE") return { status: 204 };
    if (count % 4 === 0) return { status: 404, body: { detail: "none" }, headers: { "x-request-id": "r" } };
    return { status: 200, body: `\uFEFF${JSON.stringify({ umlauts })}` };
  });
  const ended: unknown[] = [];
  for (const client of [usual(server.url), light(server.url)]) {
    const got = await client.getInfo();
    const patched = await client.patchDeployment({ deployment_id, body: { display_name: "ä" } });
    const deleted = await client.deleteDeployment({ deployment_id });
    const failure = await failureOf(client.redeployRevision({ deployment_id, revision_id: deployment_id }));
    assert.ok(failure instanceof ApiFailure);
    ended.push({ got, patched, deleted, status: failure.status, detail: failure.detail, id: failure.requestId });
  }
  assert.deepEqual(ended[1], ended[0]);
  assert.deepEqual((ended[1] as { got: unknown }).got, { umlauts });
  const heard = server.asked.map(({ method, url, body, headers }) => {
    const {
      "x-api-key": key,
      "x-tenant-id": workspace,
      "content-type": type,
      "content-length": length,
      accept,
    } = headers;
    return { method, url, body, key, workspace, type, length, accept, agent: headers["user-agent"] };
  });
  assert.equal(heard.length, 8);
  assert.deepEqual(heard.slice(4), heard.slice(0, 4));
});

test("reports a silent, closed or missing server as unreachable after the same retries", async () => {
  await using silent = await startAnswering(() => "silence");
  const late = await failureOf(light(silent.url).getInfo({}, { deadlineMs: 100 }));
  assert.ok(late instanceof ServerUnreachable);
  assert.match(late.message, /later than 0.1 s/);
  const stop = new AbortController();
  const stopped = failureOf(light(silent.url).getInfo({}, { signal: stop.signal }));
  stop.abort(new Error("Ctrl-C"));
  assert.equal(((await stopped) as Error).message, "Ctrl-C");

  await using rude = await startAnswering((_, count) => (count < 3 ? "hang up" : { status: 200, body: { ok: 1 } }));
  assert.deepEqual(await light(rude.url).getInfo(), { ok: 1 });
  assert.equal(rude.asked.length, 3);
  const unreachable = await failureOf(light("http://127.0.0.1:1").getInfo());
  assert.ok(unreachable instanceof ServerUnreachable);
  assert.match(unreachable.message, /ECONNREFUSED/);
});

test("trims the line break of a key from the environment", async () => {
  await using server = await startAnswering(() => ({ status: 200, body: { resources: [], offset: 0 } }));
  const env = { PIERHEAD_URL: server.url, PIERHEAD_API_KEY: "ph_key\n" };
  const { code, stderr } = await runCli(["list", "--json"], { env });
  assert.equal(code, 0, stderr);
  assert.equal(server.asked[0]?.headers["x-api-key"], "ph_key");
});

test("rejects a truncated response", async () => {
  const server = createServer((socket) => {
    socket.on("error", () => {});
    socket.once("data", () => socket.end("HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n{}"));
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  try {
    const { port } = server.address() as { port: number };
    assert.ok((await failureOf(light(`http://127.0.0.1:${port}`).getInfo())) instanceof ServerUnreachable);
  } finally {
    server.close();
  }
});

test("requires a trusted certificate for HTTPS", async () => {
  await using server = await startAnswering(() => ({ status: 200, body: { ok: 1 } }));
  await using door = await startTlsDoor(server.url);
  assert.deepEqual(await light(door.url).getInfo(), { ok: 1 });
  // The certificate is valid only for 127.0.0.1.
  const other = await failureOf(light(door.url.replace("127.0.0.1", "localhost")).getInfo({}, { deadlineMs: 5_000 }));
  assert.ok(other instanceof ServerUnreachable);
});

test("leaves uploads, proxies from the environment and addresses with a password to fetch", async (t) => {
  const asked: string[] = [];
  t.mock.method(globalThis, "fetch", async (url: string) => {
    asked.push(url);
    return new Response("{}");
  });
  const request = { method: "GET", headers: {}, redirect: "manual", signal: new AbortController().signal } as const;
  await lightSend({})("http://127.0.0.1:1/upload", { ...request, method: "PUT", body: new Blob(["x"]) });
  await lightSend({ NODE_USE_ENV_PROXY: "1" })("http://127.0.0.1:1/proxy", request);
  await lightSend({ NODE_OPTIONS: "--use-env-proxy" })("http://127.0.0.1:1/option", request);
  await lightSend({})("http://name:password@127.0.0.1:1/password", request);
  assert.deepEqual(
    asked.map((url) => url.replace(/.*\//, "")),
    ["upload", "proxy", "option", "password"],
  );
});

test("loads neither fetch nor TLS, and idle connections keep no process alive", async () => {
  await using server = await startAnswering(() => ({
    status: 200,
    body: { ok: 1 },
    headers: { connection: "keep-alive" },
  }));
  const program = `
    import { createClient } from "./src/client/client.ts";
    import { lightSend } from "./src/cli/light-send.ts";
    const answer = await createClient({ baseUrl: ${JSON.stringify(server.url)}, send: lightSend({}) }).getInfo();
    const heavy = process.moduleLoadList.filter((name) => /undici|tls|http2/.test(name));
    console.log(JSON.stringify({ answer, heavy }));`;
  const { stdout } = await promisify(execFile)(process.execPath, ["--input-type=module", "-e", program]);
  assert.deepEqual(JSON.parse(stdout), { answer: { ok: 1 }, heavy: [] });
});
