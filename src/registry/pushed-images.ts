import { readdir, readFile, rm, stat } from "node:fs/promises";
import path from "node:path";

/** An image in the registry: one manifest of one repository. */
export interface PushedImage {
  deploymentId: string;
  /** Of the repository, in the registry's files. */
  directory: string;
  /** `sha256:...` */
  digest: string;
  /** The last time. */
  pushedAt: Date;
}

/** What of the registry's files has to stay. */
export interface Needed {
  /** Those of these deployments that there are. */
  deployments(ids: string[]): Promise<Set<string>>;
  /** Those of these digests that a revision may go back to. */
  digests(digests: string[]): Promise<Set<string>>;
}

/** Pushed and not deployed yet: somebody may be about to. */
const recentMs = 86_400_000;

/**
 * Images that nothing needs any more: of deployments that are gone, and those that no kept revision names a day after
 * they were pushed. Images that a needed list of images names, one for each platform, are needed as well.
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

/** Directories of deployments that are gone: links to layers stay there when their images go, and uploads that broke off. */
export async function findGone(blobsDir: string, { deployments }: Pick<Needed, "deployments">): Promise<string[]> {
  const root = path.join(blobsDir, repositoriesDir);
  const found = await names(root);
  const known = await deployments(found);
  return found.filter((deploymentId) => !known.has(deploymentId)).map((name) => path.join(root, name));
}

/** Takes images out of their repositories, with the tags that stand for them. Only while the registry does not run. */
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

/** Digests of the images in a list of images; none for a single image. */
async function listParts(blobsDir: string, digest: string): Promise<string[]> {
  const [algorithm = "", hex = ""] = digest.split(":");
  const file = path.join(blobsDir, blobDir, algorithm, hex.slice(0, 2), hex, "data");
  const text = await readFile(file, "utf8").catch(() => "{}");
  const { manifests = [] } = JSON.parse(text) as { manifests?: { digest: string }[] };
  return manifests.map((part) => part.digest);
}

const names = (directory: string) => readdir(directory).catch((): string[] => []);
