import { createHash } from "node:crypto";
import { buffer } from "node:stream/consumers";
import { setTimeout as sleep } from "node:timers/promises";
import { Parser } from "tar";
import type { ImageBuild, ImageBuilds } from "../../src/compute/image-builds.ts";
import { type BuildEnd, contextUnread } from "../../src/contract/listeners/build-order.ts";

export interface SimulatedBuilds extends ImageBuilds {
  registry: string;
  /** `server.js` of each context that was read, by image. */
  readonly sources: ReadonlyMap<string, string>;
  /** Builds that the listener has not removed. */
  count(): number;
}

/** How long building takes once the context was read. */
const buildMs = 300;

/** Builds of images whose programs are not run: each reads its context as BuildKit would, and its image is the digest of it. */
export function openSimulatedBuilds(): SimulatedBuilds {
  const registry = "registry.invalid/built";
  const sources = new Map<string, string>();
  const builds = new Map<string, { end: BuildEnd | null; stop: AbortController }>();
  const run = async ({ id, contextUrl }: ImageBuild, signal: AbortSignal) => {
    const end = await readSource(contextUrl, signal).then(
      async (source) => {
        await sleep(buildMs, undefined, { signal });
        const image = `${registry}@sha256:${createHash("sha256").update(source).digest("hex")}`;
        sources.set(image, source);
        return { image, reason: null, message: "" };
      },
      (error: Error) => {
        signal.throwIfAborted();
        return { image: null, reason: "BuilderFailed" as const, message: `${contextUnread} (${error.message}).` };
      },
    );
    const build = builds.get(id);
    if (build !== undefined) build.end = end;
  };
  return {
    registry,
    sources,
    count: () => builds.size,
    async start(build) {
      if (builds.has(build.id)) return;
      const stop = new AbortController();
      builds.set(build.id, { end: null, stop });
      run(build, stop.signal).catch(() => {});
    },
    inspect: async (id) => builds.get(id)?.end ?? null,
    readLog: async (_id, cursor) => ({ lines: [], cursor }),
    async remove(id) {
      builds.get(id)?.stop.abort();
      builds.delete(id);
    },
    list: async () => [...builds.keys()],
    startRemoval: async () => {},
    inspectRemoval: async ({ removal_id, references }) => ({ removal_id, removed: references, message: null }),
  };
}

/** Downloads a context, once, as BuildKit does. @returns its `server.js` */
async function readSource(url: string, signal: AbortSignal): Promise<string> {
  const answer = await fetch(url, { signal });
  if (answer.status !== 200) throw new Error(`invalid response status ${answer.status}`);
  return sourceIn(Buffer.from(await answer.arrayBuffer()));
}

async function sourceIn(archive: Buffer): Promise<string> {
  const found: Promise<Buffer>[] = [];
  const parser = new Parser({
    onReadEntry: (entry) => {
      if (entry.path.endsWith("/server.js")) found.push(buffer(entry));
      else entry.resume();
    },
  });
  const ended = new Promise((resolve, reject) => parser.once("end", resolve).once("error", reject));
  parser.end(archive);
  await ended;
  const [source] = await Promise.all(found);
  if (source === undefined) throw new Error("the context has no server.js");
  return source.toString();
}
