import { once } from "node:events";
import { type AddressInfo, connect, createServer, type Socket } from "node:net";
import { resetSocket } from "./reset-socket.ts";

/** How a partition looks to both sides: bytes are lost, or connections are reset. */
export type Partition = "none" | "blackhole" | "reset";

export interface TcpProxy extends AsyncDisposable {
  /** As `http://host:port`. */
  url: string;
  /** Takes effect immediately. Connections that were open during a blackhole stay dead afterwards, as behind a NAT. */
  become(partition: Partition): void;
}

/** Starts a TCP proxy that a test can interrupt. @param host the address on which it listens */
export async function startTcpProxy(target: string, host = "127.0.0.1"): Promise<TcpProxy> {
  const { hostname, port } = new URL(target);
  const sockets = new Set<Socket>();
  let partition: Partition = "none";
  const server = createServer({ allowHalfOpen: true }, (near) => {
    sockets.add(near);
    near.once("close", () => sockets.delete(near));
    near.on("error", () => {});
    if (partition === "reset") return resetSocket(near);
    if (partition === "blackhole") return void near.resume();
    const far = connect({ host: hostname, port: Number(port), allowHalfOpen: true });
    sockets.add(far);
    far.once("close", () => sockets.delete(far));
    far.on("error", () => near.destroy());
    near.once("close", () => far.destroy());
    far.once("close", () => near.destroy());
    pass(near, far);
    pass(far, near);
  });
  function pass(from: Socket, to: Socket): void {
    let isDead = false;
    from.on("data", (chunk) => {
      isDead ||= partition === "blackhole";
      if (!isDead) to.write(chunk);
    });
    from.on("end", () => {
      if (!isDead && partition !== "blackhole") to.end();
    });
  }
  server.listen(0, host);
  await once(server, "listening");
  return {
    url: `http://${host}:${(server.address() as AddressInfo).port}`,
    become(next) {
      partition = next;
      if (next === "reset") for (const socket of sockets) resetSocket(socket);
    },
    async [Symbol.asyncDispose]() {
      for (const socket of sockets) socket.destroy();
      server.close();
      await once(server, "close");
    },
  };
}
