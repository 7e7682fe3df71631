import type { Readable } from "node:stream";

/** Names the context of one attempt at a build. */
export interface ContextKey {
  deploymentId: string;
  orderId: string;
}

/** Port: build contexts that every server of the installation can serve, not only the one that prepared them. */
export interface SharedContexts {
  /** Keeps a context until it is removed. Earlier contexts of the deployment are removed. */
  keep(key: ContextKey, file: string, signal: AbortSignal): Promise<void>;
  /** Opens a context, which the caller reads or destroys; undefined: it is not kept. */
  open(key: ContextKey, signal: AbortSignal): Promise<{ content: Readable; sizeBytes: number } | undefined>;
  /** Removes a context. One that is gone already is not an error. */
  remove(key: ContextKey): Promise<void>;
  /** Removes all contexts of a deployment. */
  removeAllOf(deploymentId: string): Promise<void>;
}
