import assert from "node:assert/strict";
import { once } from "node:events";
import { type IncomingMessage, request } from "node:http";
import type { Socket } from "node:net";
import { after, before, test } from "node:test";
import { encodeFrame, FrameReader, readFirstFrame } from "../../src/base/frames.ts";
import { execChannels } from "../../src/contract/deployments/exec.ts";
import { epochHeader } from "../../src/contract/listeners/assignment.ts";
import { type TunnelOrder, tunnelChannels } from "../../src/contract/listeners/tunnel.ts";
import { eventually } from "../support/eventually.ts";
import { startTestServer, type TestServer } from "../support/server.ts";

let pierhead: TestServer;
let listenerKey: string;
let epoch: string;
let deploymentId: string;

before(async () => {
  pierhead = await startTestServer({ PIERHEAD_COMPUTE: "none" });
  const listener = await pierhead.client.createListener({
    body: { compute_type: "k8s", compute_id: "cluster", compute_config: { k8s_namespaces: ["agents"] } },
  });
  listenerKey = listener.listener_key;
  const answer = await fetch(`${pierhead.url}/dp/v1/sessions`, {
    method: "POST",
    headers: { "x-api-key": listenerKey, "content-type": "application/json" },
    body: JSON.stringify({ instance_id: "one", version: "0.0.0", protocols: [1], compute_type: "k8s" }),
  });
  const session = (await answer.json()) as { epoch: number };
  assert.equal(answer.status, 201, JSON.stringify(session));
  epoch = String(session.epoch);
  const { id } = await pierhead.client.createDeployment({
    body: {
      name: "bot",
      source: "external_docker",
      source_config: { listener_id: listener.id },
      source_revision_config: { image_uri: "registry.example.com/bot:1" },
      secrets: [
        { name: "POSTGRES_URI_CUSTOM", value: "postgresql://127.0.0.1:1/x" },
        { name: "REDIS_URI_CUSTOM", value: "redis://127.0.0.1:1" },
      ],
    },
  });
  deploymentId = id;
});

after(() => pierhead?.[Symbol.asyncDispose]());

/** Opens an upgraded connection to the server. @returns it, or the status of the refusal with its body */
async function open(at: string, protocol: string, headers: Record<string, string>): Promise<Socket | Refused> {
  const { hostname, port } = new URL(pierhead.url);
  const sent = request({
    ...{ hostname, port, path: at, agent: false },
    headers: { connection: "Upgrade", upgrade: protocol, ...headers },
  }).end();
  const { promise, resolve, reject } = Promise.withResolvers<Socket | Refused>();
  sent.on("upgrade", (_answer: IncomingMessage, socket: Socket, head: Buffer) => {
    socket.on("error", () => socket.destroy());
    if (head.length > 0) socket.unshift(head);
    resolve(socket);
  });
  sent.on("response", async (answer) => {
    const text = Buffer.concat(await answer.toArray()).toString("utf8");
    resolve({ status: answer.statusCode ?? 0, text });
  });
  sent.on("error", reject);
  return promise;
}

interface Refused {
  status: number;
  text: string;
}

async function opened(...parts: Parameters<typeof open>): Promise<Socket> {
  const found = await open(...parts);
  if ("status" in found) assert.fail(`${found.status} ${found.text}`);
  return found;
}

const asUser = (kind: "exec" | "connect") =>
  [`/v2/deployments/${deploymentId}/${kind}`, `pierhead-${kind}`, { "x-api-key": pierhead.apiKey }] as const;

const openAsListener = (at = "") =>
  opened(`/dp/v1/tunnels${at}`, "pierhead-tunnel", { "x-api-key": listenerKey, [epochHeader]: epoch });

/** Follows the orders, as a listener. */
async function follow(): Promise<{ next(): Promise<TunnelOrder>; [Symbol.dispose](): void }> {
  const socket = await openAsListener();
  const reader = new FrameReader(16 * 1024);
  const orders: TunnelOrder[] = [];
  socket.on("data", (chunk: Buffer) => {
    for (const { channel, payload } of reader.read(chunk))
      if (channel === tunnelChannels.order) orders.push(JSON.parse(payload.toString("utf8")));
  });
  return {
    async next() {
      const count = { timeoutMs: 15_000, what: "an order" };
      await eventually(
        async () => orders.length,
        (length) => length > 0,
        count,
      );
      return orders.shift() as TunnelOrder;
    },
    [Symbol.dispose]: () => void socket.destroy(),
  };
}

const hasEnded = (socket: Socket, what: string) =>
  eventually(
    async () => socket.resume().readableEnded || socket.destroyed,
    (ended) => ended,
    { timeoutMs: 15_000, what },
  );

const found = (value: unknown) => encodeFrame(tunnelChannels.found, JSON.stringify(value));

test("a connection of a listener ends when its user left before the listener found the agent", async () => {
  using orders = await follow();
  const user = await opened(...asUser("exec"));
  user.write(encodeFrame(execChannels.start, JSON.stringify({ argv: ["true"] })));
  const { tunnel_id } = await orders.next();
  const tunnel = await openAsListener(`/${tunnel_id}`);
  user.destroy();
  await once(user, "close");
  tunnel.write(found({ replica_id: "one", message: null }));
  await hasEnded(tunnel, "the end of the connection of the listener");
});

test("a connection whose first frame is wrong ends, and the user reads why", async () => {
  using orders = await follow();
  for (const wrong of ["{", "null", "{}", '{"replica_id": 7, "message": null}']) {
    const asked = open(...asUser("connect"));
    const { tunnel_id } = await orders.next();
    const tunnel = await openAsListener(`/${tunnel_id}`);
    tunnel.write(encodeFrame(tunnelChannels.found, wrong));
    const refused = await asked;
    assert.ok("status" in refused, wrong);
    assert.deepEqual([refused.status, /listener of this agent closed/.test(refused.text)], [409, true], refused.text);
    await hasEnded(tunnel, "the end of the connection of the listener");
  }
});

test("a connection for which no user waits is refused", async () => {
  using orders = await follow();
  const user = await opened(...asUser("exec"));
  user.write(encodeFrame(execChannels.start, JSON.stringify({ argv: ["true"] })));
  const { tunnel_id } = await orders.next();
  user.destroy();
  const refusal = await eventually(
    () => open(`/dp/v1/tunnels/${tunnel_id}`, "pierhead-tunnel", { "x-api-key": listenerKey, [epochHeader]: epoch }),
    (answer) => "status" in answer,
    { timeoutMs: 15_000, what: "the refusal" },
  );
  assert.equal("status" in refusal && refusal.status, 404);
});

test("a server that stops answers users that wait for a listener", async () => {
  using orders = await follow();
  const user = await opened(...asUser("exec"));
  user.write(encodeFrame(execChannels.start, JSON.stringify({ argv: ["true"] })));
  await orders.next();
  const startedMs = performance.now();
  const closed = pierhead.server.close();
  const first = await readFirstFrame(user, { bytesMax: 64 * 1024, timeoutMs: 10_000 });
  assert.match(first?.payload.toString("utf8") ?? "nothing", /This server stops/);
  user.destroy();
  await closed;
  assert.ok(performance.now() - startedMs < 10_000);
});
