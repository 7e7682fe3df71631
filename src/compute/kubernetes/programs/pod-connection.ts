import type { Socket } from "node:net";
import { drained } from "../../../base/drained.ts";
import type { AgentConnection } from "../../choose-replica.ts";
import { ExecRefused } from "../../compute.ts";
import { type ApiServer, KubeError } from "../api/api-server.ts";
import { pathOf } from "../api/kinds.ts";
import { explain } from "./pod-exec.ts";
import { ChannelSocket } from "./web-socket.ts";

const channels = { data: 0, error: 1 } as const;

/** The first message of each channel repeats the port. */
const portBytes = 2;

/**
 * Connects to a port of a pod through the API server, which reaches pods that no NetworkPolicy admits the listener to.
 * @throws ExecRefused when the cluster refuses it
 */
export async function connectToPod(
  api: ApiServer,
  { namespace, name, port }: { namespace: string; name: string; port: number },
  signal: AbortSignal,
): Promise<AgentConnection> {
  const path = `${pathOf("Pod", namespace, name)}/portforward`;
  const query = new URLSearchParams({ ports: String(port) });
  const { socket: pod } = await api
    .openWebSocket(path, { query, protocols: ["v4.channel.k8s.io"], signal })
    .catch((error: unknown) => {
      throw error instanceof KubeError ? new ExecRefused(explain(error, name)) : error;
    });
  pod.pause();
  const close = () => pod.destroy();
  // The cluster may end the connection before it is joined.
  pod.on("error", close);
  return { close, join: (socket) => join(socket, pod) };
}

function join(socket: Socket, pod: Socket): void {
  const seen = new Set<number>();
  const connection = new ChannelSocket(pod, (channel, bytes) => {
    const isFirst = !seen.has(channel);
    seen.add(channel);
    const payload = isFirst ? bytes.subarray(portBytes) : bytes;
    if (payload.length === 0) return;
    // The agent does not listen, for example.
    if (channel === channels.error) return void socket.destroy();
    if (!socket.writable || socket.write(payload) || pod.isPaused()) return;
    pod.pause();
    void drained(socket).then(() => pod.resume());
  });
  pod.once("close", () => socket.destroySoon());
  socket.on("end", () => connection.close()).on("close", () => connection.close());
  socket.on("data", (chunk: Buffer) => {
    if (connection.send(channels.data, chunk)) return;
    socket.pause();
    void drained(pod).then(() => socket.resume());
  });
  if (pod.closed) socket.destroySoon();
  pod.resume();
  socket.resume();
}
