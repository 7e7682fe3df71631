import { once } from "node:events";
import { type AddressInfo, connect, createServer, type Socket } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { resetSocket } from "../support/reset-socket.ts";

/** A load balancer: one address in front of several servers. Each connection goes to the next ready server. */
export interface Balancer extends AsyncDisposable {
  /** Address in the form `http://host:port`. */
  url: string;
}

/** Checks health as a load balancer does: a late server is removed until it answers, and its connections are cut. */
const lookIntervalMs = 300;
const lookTimeoutMs = 3_000;

interface Target {
  url: string;
  isReady: boolean;
  sockets: Set<Socket>;
}

export async function startBalancer(urls: string[]): Promise<Balancer> {
  const targets: Target[] = urls.map((url) => ({ url, isReady: false, sockets: new Set() }));
  const closing = new AbortController();
  let turn = 0;
  const server = createServer((near) => {
    near.on("error", () => {});
    const ready = targets.filter(({ isReady }) => isReady);
    turn += 1;
    const target = ready[turn % Math.max(1, ready.length)];
    if (target === undefined) return resetSocket(near);
    const { hostname, port } = new URL(target.url);
    const far = connect({ host: hostname, port: Number(port) });
    far.on("error", () => {});
    for (const [one, other] of [
      [near, far],
      [far, near],
    ] as const) {
      target.sockets.add(one);
      one.once("close", () => {
        target.sockets.delete(one);
        other.destroy();
      });
      one.pipe(other);
    }
  });
  const looking = Promise.all(targets.map((target) => watch(target, closing.signal)));
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    async [Symbol.asyncDispose]() {
      closing.abort();
      for (const { sockets } of targets) for (const socket of sockets) socket.destroy();
      server.close();
      await Promise.all([looking, once(server, "close")]);
    },
  };
}

async function watch(target: Target, closing: AbortSignal): Promise<void> {
  while (!closing.aborted) {
    target.isReady = await fetch(`${target.url}/ready`, { signal: AbortSignal.timeout(lookTimeoutMs) }).then(
      ({ status }) => status === 200,
      () => false,
    );
    if (!target.isReady) for (const socket of target.sockets) resetSocket(socket);
    await sleep(lookIntervalMs, undefined, { signal: closing }).catch(() => {});
  }
}
