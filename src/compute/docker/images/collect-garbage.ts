import { type Engine, EngineError } from "../engine/engine.ts";
import { labels } from "../replicas/container.ts";
import { baseTag, builtRepositoryPrefix, usedRepository } from "./images.ts";

/** As `GET /system/df` lists it; the size that others share is not freed by removing one. */
interface ListedImage {
  Id: string;
  RepoTags: string[] | null;
  Labels: Record<string, string> | null;
  Size: number;
  SharedSize: number;
  Containers: number;
}

/** The engine adds up layers and, in older versions, volumes: minutes on a slow disk. */
const diskUseTimeoutMs = 600_000;

/** What was used within this is not removed: its container may just be about to be made. */
const recentlyUsedMs = 600_000;

/** Containers that a build left behind when the engine died under it. No build runs longer. */
const leftContainerMs = 86_400_000;

/** As the engine names a container that nobody has named, such as `epic_edison`. */
const givenName = /^\/[a-z]+_[a-z]+\d*$/;

/** As `GET /containers/json` lists it. */
interface LeftContainer {
  Id: string;
  Names: string[];
  /** Its id, when the image has no name. */
  Image: string;
  Created: number;
}

/** Layers of builds that came to nothing make the next try quicker; after this nobody tries again. */
const unfinishedHours = 24;

export interface Collected {
  removed: string[];
  /** What is left of ours. */
  bytes: number;
}

/**
 * Removes what this installation brought into an engine and nothing needs any more: containers and layers of builds that
 * ended badly, and, beyond `bytesMax`, what no container uses and can be had again, the one longest unused first: pulled images,
 * and bases that no image is built on any more. Images of agents that were built here stay as long as their revisions.
 */
export async function collectGarbage(
  engine: Engine,
  options: { installationId: string; bytesMax: number; signal: AbortSignal; recentMs?: number },
): Promise<Collected> {
  const { installationId, bytesMax, signal } = options;
  const own = `${labels.installation}=${installationId}`;
  await removeLeftContainers(engine, own, signal);
  const filters = { dangling: ["true"], label: [own], until: [`${unfinishedHours}h`] };
  await engine.call("POST", "/images/prune", { query: { filters }, signal, timeoutMs: diskUseTimeoutMs });
  const images = await listOwn(engine, installationId, signal);
  let bytes = images.reduce((sum, image) => sum + bytesOf(image), 0);
  const removed: string[] = [];
  for (const image of await unusedOnes(engine, images, {
    installationId,
    recentMs: options.recentMs ?? recentlyUsedMs,
  })) {
    if (bytes <= bytesMax) break;
    if (!(await removeImage(engine, image.Id))) continue;
    removed.push(image.Id);
    bytes -= bytesOf(image);
  }
  return { removed, bytes };
}

const bytesOf = ({ Size, SharedSize }: ListedImage) => Size - Math.max(0, SharedSize);

async function removeLeftContainers(engine: Engine, own: string, signal: AbortSignal): Promise<void> {
  const filters = { label: [own], status: ["created", "exited", "dead"] };
  const query = { all: true, filters };
  const found = await engine.call<LeftContainer[]>("GET", "/containers/json", { query, signal });
  for (const { Id } of found.filter(isLeftByBuild)) {
    await engine.callUnless([404, 409], "DELETE", `/containers/${Id}`, { query: { v: true }, signal });
  }
}

/**
 * A container has the labels of its image, and so have those that people make of images which began with ours: what a build
 * runs in has no name of somebody's or of ours, and its image none yet.
 */
const isLeftByBuild = ({ Names, Image, Created }: LeftContainer) =>
  Image.startsWith("sha256:") &&
  Names.every((name) => givenName.test(name)) &&
  Date.now() - Created * 1000 > leftContainerMs;

async function listOwn(engine: Engine, installationId: string, signal: AbortSignal): Promise<ListedImage[]> {
  const { Images } = await engine.call<{ Images: ListedImage[] | null }>("GET", "/system/df", {
    query: { type: "image" },
    signal,
    timeoutMs: diskUseTimeoutMs,
  });
  const isOurs = ({ RepoTags, Labels }: ListedImage) =>
    Labels?.[labels.installation] === installationId ||
    isPulled(RepoTags, installationId) ||
    (RepoTags ?? []).some((tag) => tag.startsWith(baseTag(installationId)));
  return (Images ?? []).filter(isOurs);
}

const isPulled = (tags: string[] | null, installationId: string) =>
  (tags ?? []).some((tag) => tag.startsWith(`${usedRepository(installationId)}:`));

/** One that people can build on by another name is the newest of its kind. */
const isOldBase = (tags: string[] | null, installationId: string) =>
  (tags ?? []).length > 0 && (tags ?? []).every((tag) => tag.startsWith(baseTag(installationId)));

/** Oldest use first: each use renews our tag, and the engine knows when. */
async function unusedOnes(
  engine: Engine,
  images: ListedImage[],
  { installationId, recentMs }: { installationId: string; recentMs: number },
): Promise<ListedImage[]> {
  const candidates = images.filter(
    ({ RepoTags, Containers }) =>
      Containers <= 0 &&
      (isOldBase(RepoTags, installationId) ||
        (isPulled(RepoTags, installationId) && !(RepoTags ?? []).some((tag) => tag.startsWith(builtRepositoryPrefix)))),
  );
  const dated = await Promise.all(
    candidates.map(async (image) => {
      const details = await engine.callUnless<{ Metadata?: { LastTagTime?: string } }>(
        [404],
        "GET",
        `/images/${image.Id}/json`,
      );
      return { image, usedAt: Date.parse(details?.Metadata?.LastTagTime ?? "") || 0 };
    }),
  );
  return dated
    .filter(({ usedAt }) => Date.now() - usedAt > recentMs)
    .toSorted((a, b) => a.usedAt - b.usedAt)
    .map(({ image }) => image);
}

/** @returns false when something uses it after all. */
async function removeImage(engine: Engine, imageId: string): Promise<boolean> {
  try {
    await engine.call("DELETE", `/images/${imageId}`, { query: { force: true } });
    return true;
  } catch (error) {
    if (error instanceof EngineError && (error.status === 404 || error.status === 409)) return error.status === 404;
    throw error;
  }
}
