import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { type ListenerProgram, startListenerProgram } from "../server/listener-program.ts";
import { startTestServer } from "../support/server.ts";
import type { Plane } from "./plane.ts";

/** A control plane, and listener processes that share one key. */
export async function openKeySite(
  namespaces: string[],
  settings: { server?: Record<string, string>; listener?: Record<string, string> } = {},
) {
  const server = await startTestServer({ PIERHEAD_COMPUTE: "none", ...settings.server });
  const directory = await mkdtemp(path.join(tmpdir(), "pierhead-key-"));
  const replicas: ListenerProgram[] = [];
  const create = (compute_id: string) =>
    server.client.createListener({ body: { compute_type: "k8s", compute_id, compute_config: {} } });
  const { id: listener_id, listener_key } = await create("cluster");
  return {
    server,
    listener_id,
    /** Starts a process of this listener, or of another one, for these namespaces. */
    async start(plane: Plane, other?: { name: string; namespaces: string[] }): Promise<ListenerProgram> {
      const replica = await startListenerProgram({
        PIERHEAD_URL: server.url,
        PIERHEAD_LISTENER_KEY: other === undefined ? listener_key : (await create(other.name)).listener_key,
        PIERHEAD_COMPUTE: "kubernetes",
        PIERHEAD_KUBERNETES_URL: plane.address("listener").url,
        PIERHEAD_KUBERNETES_CA_FILE: plane.caFile,
        PIERHEAD_KUBERNETES_TOKEN_FILE: plane.tokenFile("listener"),
        PIERHEAD_KUBERNETES_NAMESPACES: (other?.namespaces ?? namespaces).join(","),
        PIERHEAD_DATA_DIR: path.join(directory, String(replicas.length)),
        ...settings.listener,
      });
      replicas.push(replica);
      return replica;
    },
    async [Symbol.asyncDispose]() {
      for (const replica of replicas) await replica.stop();
      await server[Symbol.asyncDispose]();
      await rm(directory, { recursive: true, force: true });
    },
  };
}
