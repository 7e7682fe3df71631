import assert from "node:assert/strict";
import { createHash, createHmac, randomUUID } from "node:crypto";
import { once } from "node:events";
import { mkdtemp, rm } from "node:fs/promises";
import { request as ask, createServer, type RequestListener, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import path from "node:path";
import { type TestContext, test } from "node:test";
import { promisify } from "node:util";
import { repositoryPrefix, type Signer, signAccess, tokenUser } from "../../src/registry/access-token.ts";
import { findRegistryProgram, RegistryProcess } from "../../src/registry/registry-process.ts";
import { RegistryDoor, type Upstream } from "../../src/registry/registry-proxy.ts";
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

/** A door before a registry, and what a deployment asks it with. */
async function openDoor(context: TestContext, upstream: () => Promise<Upstream>) {
  const door = new RegistryDoor({ signer, logger, upstream });
  context.after(() => door.close());
  const { server, origin } = await listen(context, (asked, response) => door.handle(asked, response));
  const keyOf = (deploymentId: string) => {
    const token = signAccess(signer, { deploymentId, kind: "push" });
    return { authorization: `Basic ${Buffer.from(`${tokenUser}:${token}`).toString("base64")}` };
  };
  return { door, server, origin, keyOf };
}

const at = (origin: string): Upstream => ({ origin, prefix: "", login: null });

test("an answer that breaks off in the registry breaks off for who asked, who would wait for ever", async (context) => {
  const registry = await listen(context, (_asked, response) => {
    response.writeHead(200, { "content-length": "1000" }).write("the beginning");
    setImmediate(() => response.destroy());
  });
  const { origin, keyOf } = await openDoor(context, async () => at(registry.origin));
  const deploymentId = randomUUID();
  const place = `${origin}/v2/${repositoryPrefix(deploymentId)}app/blobs/sha256:0`;
  const signal = AbortSignal.timeout(10_000);
  const read = fetch(place, { headers: keyOf(deploymentId), signal }).then((answer) => answer.text());
  await assert.rejects(read, (error: Error) => error.name !== "TimeoutError");
});

test("a push whose client leaves while the registry starts is over, and images can be swept again", async (context) => {
  let asked = 0;
  const registry = await listen(context, () => {
    asked += 1;
  });
  const started = Promise.withResolvers<Upstream>();
  const { door, server, origin, keyOf } = await openDoor(context, () => started.promise);
  const deploymentId = randomUUID();
  const headers = { ...keyOf(deploymentId), "content-length": "1000" };
  const push = ask(`${origin}/v2/${repositoryPrefix(deploymentId)}app/blobs/uploads/1`, { method: "PATCH", headers });
  push.on("error", () => {}).write("the beginning");
  const quietFor = () => door.quietForMs;
  await eventually(quietFor, (ms) => ms === 0, { what: "a push" });
  push.destroy();
  const connections = () => promisify(server.getConnections.bind(server))();
  await eventually(connections, (count) => count === 0, { what: "that the client has left" });
  started.resolve(at(registry.origin));
  await eventually(quietFor, (ms) => ms > 0, { timeoutMs: 10_000, what: "quiet" });
  assert.equal(asked, 0);
});

test("pushes that stand still keep nobody else from the registry", async (context) => {
  let pushes = 0;
  const registry = await listen(context, ({ method }, response) => {
    if (method === "PATCH") pushes += 1;
    else response.end("there");
  });
  const { origin, keyOf } = await openDoor(context, async () => at(registry.origin));
  const begin = (deploymentId: string) => {
    const headers = { ...keyOf(deploymentId), "content-length": "1000" };
    const place = `${origin}/v2/${repositoryPrefix(deploymentId)}app/blobs/uploads/1`;
    ask(place, { method: "PATCH", headers })
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
  const place = `${origin}/v2/${repositoryPrefix(deploymentId)}app/blobs/sha256:0`;
  const answer = await fetch(place, { headers: keyOf(deploymentId), signal: AbortSignal.timeout(10_000) });
  assert.equal(await answer.text(), "there");
});

const program = findRegistryProgram();
const skip = program === null ? "docker-registry (Debian: apt-get install docker-registry)" : false;

test("a blob of another deployment is mounted by no way of asking", { skip }, async (context) => {
  const directory = await mkdtemp(path.join(tmpdir(), "pierhead-registry-"));
  const own = new RegistryProcess({ directory, program: program as string, logger });
  context.after(async () => {
    await own.stop();
    await rm(directory, { recursive: true, force: true });
  });
  const { origin, keyOf } = await openDoor(context, async () => at(`http://127.0.0.1:${await own.port()}`));
  const [theirs, mine] = [randomUUID(), randomUUID()];
  const digest = `sha256:${createHash("sha256").update("secret").digest("hex")}`;
  const uploadsOf = (id: string) => `${origin}/v2/${repositoryPrefix(id)}app/blobs/uploads/`;
  const begun = await fetch(uploadsOf(theirs), { method: "POST", headers: keyOf(theirs) });
  const place = new URL(begun.headers.get("location") ?? "", origin);
  place.searchParams.set("digest", digest);
  const pushed = await fetch(place, { method: "PUT", headers: keyOf(theirs), body: "secret" });
  assert.equal(pushed.status, 201);

  const asked = new URLSearchParams({ mount: digest, from: `${repositoryPrefix(theirs)}app` });
  const form = new FormData();
  for (const [name, value] of asked) form.set(name, value);
  for (const [query, body] of [[`?${asked}`, null] as const, ["", asked] as const, ["", form] as const]) {
    const answer = await fetch(uploadsOf(mine) + query, { method: "POST", headers: keyOf(mine), body });
    assert.equal(answer.status, 202, "an upload of its own begins"); // 201: it was mounted
  }
  const read = await fetch(`${origin}/v2/${repositoryPrefix(mine)}app/blobs/${digest}`, { headers: keyOf(mine) });
  assert.equal(read.status, 404);
});
