import { request } from "node:http";
import type { Socket } from "node:net";
import { FrameReader } from "../../src/base/frames.ts";
import { epochHeader } from "../../src/contract/listeners/assignment.ts";
import { type TunnelOrder, tunnelChannels, tunnelFrameBytesMax } from "../../src/contract/listeners/tunnel.ts";
import type { TestServer } from "../support/server.ts";
import type { Workspace } from "./two-workspaces.ts";

/** A listener of a workspace that sends whatever a test wants, under its own key. */
export interface HostileListener {
  id: string;
  key: string;
  epoch: string;
  call(method: "GET" | "POST", path: string, body?: object): Promise<{ status: number; body: unknown }>;
  /** Creates a deployment that this listener runs. */
  deploy(name: string): Promise<{ id: string; revisionId: string }>;
}

/** Creates a listener and opens its session. */
export async function openHostileListener({ url }: TestServer, { api }: Workspace): Promise<HostileListener> {
  const made = await api.createListener({ body: { compute_type: "k8s", compute_id: "cluster", compute_config: {} } });
  const { id, listener_key: key } = made;
  const send = async (epoch: string, method: string, path: string, body?: object) => {
    const headers = { "x-api-key": key, [epochHeader]: epoch, ...(body && { "content-type": "application/json" }) };
    const signal = AbortSignal.timeout(60_000);
    const answer = await fetch(url + path, { method, headers, signal, ...(body && { body: JSON.stringify(body) }) });
    const text = await answer.text();
    return { status: answer.status, body: text === "" ? null : (JSON.parse(text) as unknown) };
  };
  const session = { instance_id: "i", version: "1", protocols: [1], compute_type: "kubernetes" };
  const opened = await send("0", "POST", "/dp/v1/sessions", session);
  const epoch = String((opened.body as { epoch: number }).epoch);
  return {
    ...{ id, key, epoch },
    call: (method, path, body) => send(epoch, method, path, body),
    async deploy(name) {
      const { id: deploymentId, latest_revision_id } = await api.createDeployment({
        body: {
          ...{ name, source: "external_docker" as const, source_config: { listener_id: id } },
          source_revision_config: { image_uri: "127.0.0.1:1/agent:1" },
        },
      });
      return { id: deploymentId, revisionId: latest_revision_id as string };
    },
  };
}

/** Opens an upgraded connection. @throws Error when the server refuses it */
export function openUpgrade(
  { url }: TestServer,
  { path, key, protocol, epoch = "0" }: { path: string; key: string; protocol: string; epoch?: string },
): Promise<Socket> {
  const { hostname, port } = new URL(url);
  const headers = { connection: "Upgrade", upgrade: protocol, "x-api-key": key, [epochHeader]: epoch };
  const sent = request({ hostname, port, path, headers }).end();
  return new Promise((resolve, reject) => {
    sent.on("response", (answer) => reject(new Error(`${path} answered ${answer.resume().statusCode}`)));
    sent.on("upgrade", (_answer, socket, head) => {
      if (head.length > 0) socket.unshift(head);
      socket.on("error", () => socket.destroy());
      resolve(socket);
    });
    sent.on("error", reject);
  });
}

/** Yields the orders of a connection to `/dp/v1/tunnels`. */
export async function* ordersOf(socket: Socket): AsyncGenerator<TunnelOrder, void, undefined> {
  const reader = new FrameReader(tunnelFrameBytesMax);
  for await (const chunk of socket)
    for (const { channel, payload } of reader.read(chunk as Buffer))
      if (channel === tunnelChannels.order) yield JSON.parse(payload.toString("utf8"));
}
