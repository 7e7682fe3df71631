import assert from "node:assert/strict";
import { createHash, createHmac, randomUUID } from "node:crypto";
import { once } from "node:events";
import { mkdtemp, rm } from "node:fs/promises";
import { createServer, type RequestListener, request, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import path from "node:path";
import { type TestContext, test } from "node:test";
import { promisify } from "node:util";
import { repositoryPrefix, type Signer, signAccess, tokenUser } from "../../src/registry/access-token.ts";
import { findRegistryProgram, RegistryProcess } from "../../src/registry/registry-process.ts";
import { RegistryProxy, type Upstream } from "../../src/registry/registry-proxy.ts";
import { createLogger } from "../../src/telemetry/log.ts";
import { eventually } from "../support/eventually.ts";

const logger = createLogger("silent");
const sign = (text: string) => createHmac("sha256", "test").update(text).digest("hex");
const signer: Signer = { sign, isSigned: (text, signature) => sign(text) === signature };

async function listen(context: TestContext, answer: RequestListener): Promise<{ server: Server; origin: string }> {
  const server = createServer(answer).listen(0, "127.0.0.1");
  await once(server, "listening");
  context.after(() => {
    server.closeAllConnections();
    server.close();
  });
  return { server, origin: `http://127.0.0.1:${(server.address() as AddressInfo).port}` };
}

/** Starts a proxy in front of a registry. `headersFor` returns the credentials of a deployment. */
async function startProxy(context: TestContext, upstream: () => Promise<Upstream>) {
  const proxy = new RegistryProxy({ signer, logger, upstream });
  context.after(() => proxy.close());
  const { server, origin } = await listen(context, (incoming, response) => proxy.handle(incoming, response));
  const headersFor = (deploymentId: string) => {
    const token = signAccess(signer, { deploymentId, kind: "push" });
    return { authorization: `Basic ${Buffer.from(`${tokenUser}:${token}`).toString("base64")}` };
  };
  return { proxy, server, origin, headersFor };
}

const at = (origin: string): Upstream => ({ origin, prefix: "", login: null });

test("breaks off a response that breaks off in the registry", async (context) => {
  const registry = await listen(context, (_incoming, response) => {
    response.writeHead(200, { "content-length": "1000" }).write("the beginning");
    setImmediate(() => response.destroy());
  });
  const { origin, headersFor } = await startProxy(context, async () => at(registry.origin));
  const deploymentId = randomUUID();
  const url = `${origin}/v2/${repositoryPrefix(deploymentId)}app/blobs/sha256:0`;
  const signal = AbortSignal.timeout(10_000);
  const read = fetch(url, { headers: headersFor(deploymentId), signal }).then((answer) => answer.text());
  await assert.rejects(read, (error: Error) => error.name !== "TimeoutError");
});

test("ends a push whose client leaves while the registry starts", async (context) => {
  let received = 0;
  const registry = await listen(context, () => {
    received += 1;
  });
  const started = Promise.withResolvers<Upstream>();
  const { proxy, server, origin, headersFor } = await startProxy(context, () => started.promise);
  const deploymentId = randomUUID();
  const headers = { ...headersFor(deploymentId), "content-length": "1000" };
  const url = `${origin}/v2/${repositoryPrefix(deploymentId)}app/blobs/uploads/1`;
  const push = request(url, { method: "PATCH", headers });
  push.on("error", () => {}).write("the beginning");
  const quietFor = () => proxy.quietForMs;
  await eventually(quietFor, (ms) => ms === 0, { what: "a push" });
  push.destroy();
  const connections = () => promisify(server.getConnections.bind(server))();
  await eventually(connections, (count) => count === 0, { what: "the client to disconnect" });
  started.resolve(at(registry.origin));
  await eventually(quietFor, (ms) => ms > 0, { timeoutMs: 10_000, what: "the end of the push" });
  assert.equal(received, 0);
});

test("answers other requests while 32 pushes are stalled", async (context) => {
  let pushes = 0;
  const registry = await listen(context, ({ method }, response) => {
    if (method === "PATCH") pushes += 1;
    else response.end("there");
  });
  const { origin, headersFor } = await startProxy(context, async () => at(registry.origin));
  const begin = (deploymentId: string) => {
    const headers = { ...headersFor(deploymentId), "content-length": "1000" };
    const url = `${origin}/v2/${repositoryPrefix(deploymentId)}app/blobs/uploads/1`;
    request(url, { method: "PATCH", headers })
      .on("error", () => {})
      .write("the beginning");
  };
  for (let push = 0; push < 40; push += 1) begin(randomUUID());
  await eventually(
    () => pushes,
    (count) => count >= 32,
    { what: "pushes" },
  );
  const deploymentId = randomUUID();
  const url = `${origin}/v2/${repositoryPrefix(deploymentId)}app/blobs/sha256:0`;
  const answer = await fetch(url, { headers: headersFor(deploymentId), signal: AbortSignal.timeout(10_000) });
  assert.equal(await answer.text(), "there");
});

const program = findRegistryProgram();
const skip = program === null ? "docker-registry (Debian: apt-get install docker-registry)" : false;

test("never mounts a blob of another deployment", { skip }, async (context) => {
  const directory = await mkdtemp(path.join(tmpdir(), "pierhead-registry-"));
  const own = new RegistryProcess({ directory, program: program as string, logger });
  context.after(async () => {
    await own.stop();
    await rm(directory, { recursive: true, force: true });
  });
  const { origin, headersFor } = await startProxy(context, async () => ({
    ...at("http://registry"),
    socketPath: await own.socket(),
  }));
  const [theirs, mine] = [randomUUID(), randomUUID()];
  const digest = `sha256:${createHash("sha256").update("secret").digest("hex")}`;
  const uploadsOf = (id: string) => `${origin}/v2/${repositoryPrefix(id)}app/blobs/uploads/`;
  const begun = await fetch(uploadsOf(theirs), { method: "POST", headers: headersFor(theirs) });
  const url = new URL(begun.headers.get("location") ?? "", origin);
  url.searchParams.set("digest", digest);
  const pushed = await fetch(url, { method: "PUT", headers: headersFor(theirs), body: "secret" });
  assert.equal(pushed.status, 201);

  const mount = new URLSearchParams({ mount: digest, from: `${repositoryPrefix(theirs)}app` });
  const form = new FormData();
  for (const [name, value] of mount) form.set(name, value);
  for (const [query, body] of [[`?${mount}`, null] as const, ["", mount] as const, ["", form] as const]) {
    const answer = await fetch(uploadsOf(mine) + query, { method: "POST", headers: headersFor(mine), body });
    assert.equal(answer.status, 202, "starts a new upload (201 would mean that the blob was mounted)");
  }
  const read = await fetch(`${origin}/v2/${repositoryPrefix(mine)}app/blobs/${digest}`, { headers: headersFor(mine) });
  assert.equal(read.status, 404);
});
