import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer, type Server } from "node:http";
import { type AddressInfo, connect, createServer as createTcpServer, type Socket } from "node:net";
import { Readable, Writable } from "node:stream";
import { test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { systemClock } from "../../src/base/clock.ts";
import { encodeFrame, FrameReader } from "../../src/base/frames.ts";
import { CallRefused } from "../../src/client/listener-client.ts";
import type { ExecSession } from "../../src/compute/compute.ts";
import { ApiServer } from "../../src/compute/kubernetes/api/api-server.ts";
import { ClusterPrograms } from "../../src/compute/kubernetes/programs/cluster-programs.ts";
import { openPodExec } from "../../src/compute/kubernetes/programs/pod-exec.ts";
import { execChannels } from "../../src/contract/deployments/exec.ts";
import { type TunnelOrder, tunnelChannels } from "../../src/contract/listeners/tunnel.ts";
import { TunnelServer, type TunnelTargets } from "../../src/listener/tunnels/tunnel-server.ts";
import { createLogger } from "../../src/telemetry/log.ts";
import { eventually } from "../support/eventually.ts";

const order: TunnelOrder = {
  tunnel_id: crypto.randomUUID(),
  deployment_id: crypto.randomUUID(),
  slug: "bot",
  kind: "exec",
  replica_id: null,
};

/** A server that sends one order on its first connection, and hands out the connection that comes for it. */
async function controlPlane(sent: TunnelOrder) {
  const { promise: tunnel, resolve } = Promise.withResolvers<Socket>();
  let count = 0;
  const server = createTcpServer({ allowHalfOpen: true }, (socket) => {
    socket.on("error", () => socket.destroy());
    count += 1;
    if (count === 1) socket.write(encodeFrame(tunnelChannels.order, JSON.stringify(sent)));
    else resolve(socket);
  });
  await once(server.listen(0, "127.0.0.1"), "listening");
  const { port } = server.address() as AddressInfo;
  return { tunnel, close: () => server.close(), connect: () => connect(port, "127.0.0.1") };
}

const serve = (targets: TunnelTargets, open: (path: string) => Promise<Socket>) => {
  const server = new TunnelServer({ open, targets, clock: systemClock, logger: createLogger("silent") });
  server.follow({ epoch: 1 });
  return server;
};

test("a slow caller gets the end of the output and the exit code", async () => {
  const plane = await controlPlane(order);
  let tunnel: Socket | undefined;
  let sentBytes = 0;
  /** Writes until the caller's connection is full, and exits. */
  async function* output() {
    while (tunnel?.writableLength === 0) {
      sentBytes += 1_024;
      yield Buffer.alloc(1_024);
    }
  }
  const ended = Promise.withResolvers<number>();
  const start = async (): Promise<ExecSession> => {
    const stream = Readable.from(output());
    stream.on("end", () => ended.resolve(7));
    const input = new Writable({ write: (_chunk, _encoding, done) => done() });
    const session = { hasTerminal: true, input, output: stream, errors: null, ended: ended.promise };
    return { ...session, resize: async () => {}, kill: async () => {} };
  };
  const targets: TunnelTargets = {
    findProgram: async () => ({ replicaId: "one", start }),
    connect: async () => assert.fail("not asked for"),
  };
  const server = serve(targets, async () => {
    tunnel = plane.connect();
    await once(tunnel, "connect");
    return tunnel;
  });
  try {
    const caller = await plane.tunnel;
    caller.pause();
    caller.write(encodeFrame(execChannels.start, JSON.stringify({ argv: ["x"], terminal: null })));
    assert.equal(await ended.promise, 7);
    await sleep(100); // The program has exited, and been killed, when the caller reads on.
    const reader = new FrameReader(64 * 1024);
    let seen = 0;
    let end: unknown;
    for await (const chunk of caller)
      for (const { channel, payload } of reader.read(chunk as Buffer)) {
        if (channel === execChannels.output) seen += payload.length;
        if (channel === execChannels.end) end = JSON.parse(payload.toString("utf8"));
      }
    assert.deepEqual([seen, end], [sentBytes, { exit_code: 7, message: null }]);
  } finally {
    await server.close();
    plane.close();
  }
});

/** Answers as an API server with one ready pod. @param onUpgrade takes the connections to it */
async function clusterWith(onUpgrade: (socket: Socket) => void): Promise<{ server: Server; api: ApiServer }> {
  const labels = { "app.kubernetes.io/component": "server" };
  const status = { phase: "Running", conditions: [{ type: "Ready", status: "True" }] };
  const pod = { metadata: { name: "bot-1", namespace: "agents", labels }, status };
  const server = createServer((_request, response) => {
    response.setHeader("content-type", "application/json");
    response.end(JSON.stringify({ metadata: { resourceVersion: "1" }, items: [pod] }));
  });
  server.on("upgrade", (_request, socket: Socket) => {
    socket.on("error", () => socket.destroy());
    socket.write("HTTP/1.1 101 Switching Protocols\r\nconnection: Upgrade\r\nupgrade: websocket\r\n\r\n");
    onUpgrade(socket);
  });
  await once(server.listen(0, "127.0.0.1"), "listening");
  const { port } = server.address() as AddressInfo;
  const api = new ApiServer({ url: `http://127.0.0.1:${port}`, ca: null, token: async () => "token" });
  return { server, api };
}

/** The port, as the first message of a channel. */
const portMessage = Buffer.from([0x82, 3, 0, 0, 80]);

test("a connection to a pod ends when the caller has left before it was opened", async () => {
  const plane = await controlPlane({ ...order, kind: "connect" });
  const toPod = Promise.withResolvers<Socket>();
  const { server: cluster, api } = await clusterWith((socket) => {
    socket.write(portMessage);
    toPod.resolve(socket);
  });
  const server = serve(new ClusterPrograms(api, ["agents"]), async (path) => {
    if (path.endsWith(order.tunnel_id)) throw new CallRefused(404, null, "no user waits");
    return plane.connect();
  });
  try {
    const socket = (await toPod.promise).resume();
    await eventually(
      async () => socket.readableEnded || socket.destroyed,
      (hasEnded) => hasEnded,
      { timeoutMs: 15_000, what: "the end of the connection to the pod" },
    );
  } finally {
    await server.close();
    plane.close();
    api.close();
    cluster.closeAllConnections();
    (await toPod.promise).destroy();
    cluster.close();
  }
});

test("a cluster that resets a connection before its caller has come ends only that one", async () => {
  let left = Promise.withResolvers<void>();
  const { server: cluster, api } = await clusterWith((socket) => {
    setTimeout(() => socket.resetAndDestroy(), 50);
    socket.once("close", () => left.resolve());
  });
  const plane = await controlPlane(order);
  try {
    const programs = new ClusterPrograms(api, ["agents"]);
    const connection = await programs.connect(order, AbortSignal.timeout(5_000));
    await left.promise;
    left = Promise.withResolvers();
    const caller = plane.connect();
    caller.on("error", () => {});
    await once(caller, "connect");
    await sleep(50); // The reset has arrived.
    connection.join(caller);
    await once(caller, "close");
  } finally {
    plane.close();
    api.close();
    cluster.close();
  }
});

test("a cluster that sends a wrong status of a program ends only that program", async () => {
  const wrong = Buffer.from([0x82, 3, 3, 0x7b, 0x7b]);
  const { server: cluster, api } = await clusterWith((socket) => void socket.resume().write(wrong));
  try {
    const container = { namespace: "agents", name: "bot-1", container: "api-server" };
    const session = await openPodExec(api, container, { argv: ["true"], terminal: null });
    await assert.rejects(session.ended, /connection to the cluster ended/);
    await session.kill();
  } finally {
    api.close();
    cluster.closeAllConnections();
    cluster.close();
  }
});
