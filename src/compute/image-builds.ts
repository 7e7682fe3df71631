import type { BuildEnd, BuildLogLine } from "../contract/listeners/build-order.ts";
import type { ImageRemoval, ImageRemovalEnd } from "../contract/listeners/image-removal.ts";

/** An image that a cluster shall build. */
export interface ImageBuild {
  id: string;
  deploymentId: string;
  tag: string;
  /** Path of the Dockerfile in the context. */
  dockerfile: string;
  /** Where the context is downloaded without a key. It lets its reader download the source. */
  contextUrl: string;
  timeoutS: number;
  diskBytesMax: number;
}

/** Port: builds of images in a cluster. Every call can be repeated. */
export interface ImageBuilds {
  /** Starts a build unless it runs already. */
  start(build: ImageBuild, listenerId: string, signal: AbortSignal): Promise<void>;
  /** Returns how a build ended; null: it is running. */
  inspect(id: string, signal: AbortSignal): Promise<BuildEnd | null>;
  /** Returns the next lines of a build after a cursor, and the cursor behind them. null: from the beginning. */
  readLog(
    id: string,
    cursor: string | null,
    signal: AbortSignal,
  ): Promise<{ lines: BuildLogLine[]; cursor: string | null }>;
  /** Stops a build and removes what it left in the cluster. */
  remove(id: string, signal: AbortSignal): Promise<void>;
  /** Starts the removal of images from the registry to which builds push. `remove` removes what it left in the cluster. */
  startRemoval(removal: ImageRemoval, listenerId: string, signal: AbortSignal): Promise<void>;
  /** Returns how a removal ended; null: it is running. */
  inspectRemoval(removal: ImageRemoval, signal: AbortSignal): Promise<ImageRemovalEnd | null>;
  /** Returns the builds and removals of this listener that have left something in the cluster. */
  list(listenerId: string, signal: AbortSignal): Promise<string[]>;
}
