import { type Engine, EngineError } from "../engine/engine.ts";
import { labels } from "../replicas/container.ts";
import { baseTag, builtRepositoryPrefix, usedRepository } from "./images.ts";
import { ImageTooLarge, inspectImage } from "./inspect-image.ts";

/** An image as `GET /system/df` lists it. Removing it does not free the size that it shares with others. */
interface ListedImage {
  Id: string;
  RepoTags: string[] | null;
  Labels: Record<string, string> | null;
  Size: number;
  SharedSize: number;
  Containers: number;
}

/** The engine adds up layers and, in older versions, volumes: this takes minutes on a slow disk. */
const diskUseTimeoutMs = 600_000;

/** Images used this recently are not removed, because a container may be about to be created from them. */
const recentlyUsedMs = 600_000;

/** Minimum age of containers that a build left behind when the engine died. No build runs longer. */
const leftContainerMs = 86_400_000;

/** Name that the engine gives to an unnamed container, for example `epic_edison`. */
const givenName = /^\/[a-z]+_[a-z]+\d*$/;

/** A container as `GET /containers/json` lists it. */
interface LeftContainer {
  Id: string;
  Names: string[];
  /** The image id, when the image has no name. */
  Image: string;
  Created: number;
}

/** Layers of failed builds speed up the next try. After this time a next try is unlikely. */
const unfinishedHours = 24;

export interface Collected {
  removed: string[];
  /** Size of our remaining images. */
  bytes: number;
}

/**
 * Removes what this installation has put into an engine and no longer needs: containers, networks and layers of failed builds, and,
 * above `bytesMax`, images that no container uses and that can be restored: pulled images, and base images that no image
 * is based on any more, least recently used first. Images of agents built here stay as long as their revisions.
 */
export async function collectGarbage(
  engine: Engine,
  options: { installationId: string; bytesMax: number; signal: AbortSignal; recentMs?: number },
): Promise<Collected> {
  const { installationId, bytesMax, signal } = options;
  const own = `${labels.installation}=${installationId}`;
  await removeLeftContainers(engine, own, signal);
  const builds = { label: [own, labels.build], until: [`${unfinishedHours}h`] };
  await engine.call("POST", "/networks/prune", { query: { filters: builds }, signal });
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
 * Containers inherit labels from their image, and so do containers of users' images that are based on ours. A container of
 * a build has no given name, neither ours nor a user's, and its image has no name yet.
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

/** A base image that also has a public name is the newest of its kind. */
const isOldBase = (tags: string[] | null, installationId: string) =>
  (tags ?? []).length > 0 && (tags ?? []).every((tag) => tag.startsWith(baseTag(installationId)));

/** Returns removable images, least recently used first. Each use renews our tag, and the engine records when. */
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
      const details = await inspectImage(engine, image.Id).catch((error: unknown) => {
        if (error instanceof ImageTooLarge) return undefined;
        throw error;
      });
      return { image, usedAt: Date.parse(details?.Metadata?.LastTagTime ?? "") || 0 };
    }),
  );
  return dated
    .filter(({ usedAt }) => Date.now() - usedAt > recentMs)
    .toSorted((a, b) => a.usedAt - b.usedAt)
    .map(({ image }) => image);
}

/** Removes an image. @returns false when a container uses it after all */
async function removeImage(engine: Engine, imageId: string): Promise<boolean> {
  try {
    await engine.call("DELETE", `/images/${imageId}`, { query: { force: true } });
    return true;
  } catch (error) {
    if (error instanceof EngineError && (error.status === 404 || error.status === 409)) return error.status === 404;
    throw error;
  }
}
