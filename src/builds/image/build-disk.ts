import type { Engine } from "../../compute/docker/engine/engine.ts";
import { inspectImage } from "../../compute/docker/images/inspect-image.ts";
import { volumeBytes, volumesOf } from "../../compute/docker/replicas/volumes.ts";
import { BuildFailure, tooLarge } from "../failure.ts";

interface BuildContainer {
  SizeRw?: number;
  Mounts?: { Type: string; Name?: string; Destination: string }[];
}

/** Polling interval. To measure a container, the engine walks over its files. */
const intervalMs = 2_000;

/** The engine measures all its volumes at once. At most a fifth of the time is spent on that, because the build goes on writing. */
const pauseFactor = 4;

/**
 * Returns the ids of the containers on the build's own network. The output of a build names them too, but a program of the
 * build can print whatever it likes.
 */
export async function containersOn(engine: Engine, network: string, signal?: AbortSignal): Promise<string[]> {
  const query = { all: true, filters: { network: [network] } };
  const found = await engine.call<{ Id: string }[]>("GET", "/containers/json", { query, ...(signal && { signal }) });
  return found.map(({ Id }) => Id);
}

/**
 * Polls the size of the build's containers and of the volumes that the Dockerfile declares, because the engine does not limit what a
 * build writes.
 */
export function watchContainers(
  engine: Engine,
  network: string,
  bytesMax: number,
  onExceeded: (failure: BuildFailure) => void,
): NodeJS.Timeout {
  let isLooking = false;
  let volumesAt = 0;
  const unmeasured = new Set<string>();
  const measure = async (id: string) => {
    const found = await engine.callUnless<BuildContainer>([404], "GET", `/containers/${id}/json`, {
      query: { size: true },
    });
    const sizes = [found?.SizeRw ?? 0];
    const volumes = volumesOf(found?.Mounts);
    const began = performance.now();
    if (volumes.length > 0 && began >= volumesAt) {
      sizes.push(await volumeBytes(engine, volumes));
      volumesAt = performance.now() + (performance.now() - began) * pauseFactor;
    }
    const bytes = sizes.reduce((sum, size) => sum + size, 0);
    if (bytes > bytesMax) onExceeded(tooLarge(bytes, bytesMax));
    // For files at paths of more than 4,096 characters, and for a moment while a container ends.
    if (!sizes.includes(-1)) return void unmeasured.delete(id);
    if (unmeasured.has(id)) onExceeded(unmeasurable());
    unmeasured.add(id);
  };
  const look = async () => {
    if (isLooking) return;
    isLooking = true;
    for (const id of await containersOn(engine, network).catch(() => [])) await measure(id).catch(() => {});
    isLooking = false;
  };
  return setInterval(() => void look(), intervalMs).unref();
}

const unmeasurable = () =>
  new BuildFailure(
    "DiskFull",
    "The build makes files whose paths are too long, so that its disk use cannot be measured. Shorten the paths below the directory that grows.",
  );

/**
 * Adds up the layers of a build while it makes them. Each may be below the limit of a container, and a Dockerfile has any number of
 * steps and stages. The engine keeps the layers of all stages until the build ends, and longer in its cache.
 */
export class LayerSizes {
  readonly #engine: Engine;
  readonly #bytesMax: number;
  readonly #counted = new Set<string>();
  #bytes = 0;

  constructor(engine: Engine, bytesMax: number) {
    this.#engine = engine;
    this.#bytesMax = bytesMax;
  }

  /**
   * Counts the layer of a step's image once. A program of the build can print ids too: each costs it one call.
   * @throws BuildFailure `DiskFull`; ImageTooLarge
   */
  async add(imageId: string): Promise<void> {
    if (this.#counted.has(imageId)) return;
    this.#counted.add(imageId);
    const image = await inspectImage(this.#engine, imageId);
    // Base images have no parent. They are shared, and the size of the finished image includes them.
    if (image === undefined || !image.Parent) return;
    const parent = await inspectImage(this.#engine, image.Parent);
    this.#bytes += Math.max(0, image.Size - (parent?.Size ?? 0));
    if (this.#bytes > this.#bytesMax) throw tooLarge(this.#bytes, this.#bytesMax);
  }
}
