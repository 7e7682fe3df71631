import assert from "node:assert/strict";
import { createListenerClient, httpSend, type ListenerSession } from "../../src/client/listener-client.ts";
import type { EngineChoice } from "../../src/contract/deployments/deployment.ts";
import type { TestServer } from "../support/server.ts";

interface Chosen {
  /** Path of the configuration. */
  config?: string;
  engine?: EngineChoice | null;
}

/** Plays listeners of clusters that build images, over the protocol that listeners use. `signal` ends all waits. */
export function buildingListeners({ client, url }: TestServer, repositoryUrl: string, signal: AbortSignal) {
  return {
    /** Opens a session of a new listener that pushes images to a repository. */
    async openListener(name: string, image_registry: string) {
      const body = { compute_type: "k8s", compute_id: name, compute_config: {} } as const;
      const { id, listener_key: key } = await client.createListener({ body });
      const facts = { instance_id: name, version: "1.0.0", protocols: [1], compute_type: "kubernetes", image_registry };
      const session = await createListenerClient(httpSend(url, key)).openSession(facts, signal);
      return { id, session, image_registry };
    },
    deploy: (name: string, listener_id: string, { config = "pierhead.json", engine = null }: Chosen = {}) =>
      client.createDeployment({
        body: {
          ...{ name, source: "github", secrets: [] },
          source_config: { listener_id, repo_url: repositoryUrl, build_on_push: false, engine },
          source_revision_config: { repo_ref: "main", langgraph_config_path: config },
        },
      }),
    /** Waits for the next build of a listener. */
    async nextOrder(session: ListenerSession) {
      const [order] = await session.buildOrders([], 30_000, signal);
      assert.ok(order);
      return order;
    },
  };
}
