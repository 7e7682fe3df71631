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
  const body = { compute_type: "k8s", compute_id: "cluster", compute_config: {} } as const;
  const { id: listener_id, listener_key } = await server.client.createListener({ body });
  return {
    server,
    listener_id,
    async start(plane: Plane): Promise<ListenerProgram> {
      const replica = await startListenerProgram({
        PIERHEAD_URL: server.url,
        PIERHEAD_LISTENER_KEY: listener_key,
        PIERHEAD_COMPUTE: "kubernetes",
        PIERHEAD_KUBERNETES_URL: plane.address("listener").url,
        PIERHEAD_KUBERNETES_CA_FILE: plane.caFile,
        PIERHEAD_KUBERNETES_TOKEN_FILE: plane.tokenFile("listener"),
        PIERHEAD_KUBERNETES_NAMESPACES: namespaces.join(","),
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
