import { readdir, readFile, rm, stat } from "node:fs/promises";
import path from "node:path";

/** Image in the registry: one manifest of one repository. */
export interface PushedImage {
  deploymentId: string;
  /** Directory of the repository in the registry's files. */
  directory: string;
  /** `sha256:...` */
  digest: string;
  /** Time of the last push. */
  pushedAt: Date;
}

/** Lookups that decide which of the registry's files must stay. */
export interface Needed {
  /** Returns those of these deployments that exist. */
  deployments(ids: string[]): Promise<Set<string>>;
  /** Returns those of these digests that a revision may go back to. */
  digests(digests: string[]): Promise<Set<string>>;
}

/** A pushed image stays for a day without a revision, because its deployment may follow. */
const recentMs = 86_400_000;

/**
 * Returns the images that nothing needs any more: images of deleted deployments, and images that no stored revision names a
 * day after their push. Images in a needed image index, one for each platform, are needed as well.
 * @param blobsDir root of the registry's files
 */
export async function findUnneeded(blobsDir: string, needed: Needed, now = Date.now()): Promise<PushedImage[]> {
  const images = await listImages(blobsDir);
  const [deployments, digests] = await Promise.all([
    needed.deployments([...new Set(images.map(({ deploymentId }) => deploymentId))]),
    needed.digests([...new Set(images.map(({ digest }) => digest))]),
  ]);
  const isKept = ({ deploymentId, digest, pushedAt }: PushedImage) =>
    deployments.has(deploymentId) && (digests.has(digest) || now - pushedAt.getTime() < recentMs);
  const parts = new Set<string>();
  for (const { digest } of images.filter(isKept)) {
    for (const part of await listParts(blobsDir, digest)) parts.add(part);
  }
  return images.filter((image) => !isKept(image) && !(deployments.has(image.deploymentId) && parts.has(image.digest)));
}

/** Returns the directories of deleted deployments. They keep layer links and broken uploads when their images are deleted. */
export async function findGone(blobsDir: string, { deployments }: Pick<Needed, "deployments">): Promise<string[]> {
  const root = path.join(blobsDir, repositoriesDir);
  const found = await names(root);
  const known = await deployments(found);
  return found.filter((deploymentId) => !known.has(deploymentId)).map((name) => path.join(root, name));
}

/** Removes images and their tags from their repositories. Call it only while the registry is stopped. */
export async function unlinkImages(images: PushedImage[]): Promise<void> {
  for (const { directory, digest } of images) {
    const tagsDir = path.join(directory, "_manifests/tags");
    for (const tag of await names(tagsDir)) {
      const link = await readFile(path.join(tagsDir, tag, "current/link"), "utf8").catch(() => "");
      if (link === digest) await rm(path.join(tagsDir, tag), { recursive: true, force: true });
      else await rm(path.join(tagsDir, tag, "index", hexPath(digest)), { recursive: true, force: true });
    }
    await rm(path.join(directory, "_manifests/revisions", hexPath(digest)), { recursive: true, force: true });
  }
}

const repositoriesDir = "docker/registry/v2/repositories/r";
const blobDir = "docker/registry/v2/blobs";

const hexPath = (digest: string) => digest.replace(":", "/");

async function listImages(blobsDir: string): Promise<PushedImage[]> {
  const root = path.join(blobsDir, repositoriesDir);
  const images: PushedImage[] = [];
  const visit = async (directory: string, deploymentId: string): Promise<void> => {
    for (const name of await names(directory)) {
      if (name === "_manifests") images.push(...(await listManifests(directory, deploymentId)));
      else if (!name.startsWith("_")) await visit(path.join(directory, name), deploymentId);
    }
  };
  for (const deploymentId of await names(root)) await visit(path.join(root, deploymentId), deploymentId);
  return images;
}

async function listManifests(directory: string, deploymentId: string): Promise<PushedImage[]> {
  const revisions = path.join(directory, "_manifests/revisions/sha256");
  const found = (await names(revisions)).map(async (hex) => {
    const link = await stat(path.join(revisions, hex, "link")).catch(() => null);
    return link && { deploymentId, directory, digest: `sha256:${hex}`, pushedAt: link.mtime };
  });
  return (await Promise.all(found)).filter((image) => image !== null);
}

/** Returns the digests of the images in an image index, or nothing for a single image. */
async function listParts(blobsDir: string, digest: string): Promise<string[]> {
  const [algorithm = "", hex = ""] = digest.split(":");
  const file = path.join(blobsDir, blobDir, algorithm, hex.slice(0, 2), hex, "data");
  const text = await readFile(file, "utf8").catch(() => "{}");
  const { manifests = [] } = JSON.parse(text) as { manifests?: { digest: string }[] };
  return manifests.map((part) => part.digest);
}

const names = (directory: string) => readdir(directory).catch((): string[] => []);
