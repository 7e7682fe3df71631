import { createHash } from "node:crypto";
import { writeFile } from "node:fs/promises";
import { type Descriptor, openBlob, readManifest, readTop } from "./oci-layout.ts";
import { manifestType, openRepository, type Registry, retry } from "./registry.ts";

/**
 * Main program of the last container of a build: pushes the image that the builder left as an OCI layout, and writes its
 * digest to the termination log. Then it pushes the cache for the next build of the deployment, if the builder left one. It
 * runs in Pierhead's own image with the credentials of the registry, which no program of the project has seen, and runs
 * nothing from the image.
 *
 *     node push-image.js <layout> <repository> <tag> [<layout of the cache> <tag of the cache>]
 */
const terminationLog = process.env["PIERHEAD_TERMINATION_LOG"] ?? "/dev/termination-log";

async function main([layout = "", repository = "", tag = "", cache = "", cacheTag = ""]: string[]): Promise<void> {
  const registry = await openRepository(repository, process.env);
  const digest = await push(registry, layout, tag);
  console.log(`pushed ${repository}:${tag}`);
  await writeFile(terminationLog, JSON.stringify({ image: `${repository}@${digest}` }));
  if (cache !== "") await pushCache(registry, cache, cacheTag);
}

/** Pushes a layout. @returns the digest of its manifest */
async function push(registry: Registry, layout: string, tag: string): Promise<string> {
  const top = await readTop(layout);
  if (top === undefined) throw new Error("the builder left no image");
  const { manifest, content } = await readManifest(layout, top);
  for (const blob of [...manifest.layers, manifest.config]) await retry(() => pushBlob(registry, layout, blob));
  await retry(() => registry.putManifest(tag, content, manifest.mediaType ?? manifestType));
  return `sha256:${createHash("sha256").update(content).digest("hex")}`;
}

/** The build has succeeded, so a cache that cannot be stored costs only time. */
async function pushCache(registry: Registry, layout: string, tag: string): Promise<void> {
  try {
    const before = await retry(() => registry.findDigest(tag));
    const digest = await push(registry, layout, tag);
    // A registry that deletes nothing keeps it without a tag.
    if (before !== null && before !== digest) await registry.deleteManifest(before).catch(() => {});
  } catch (error) {
    console.log(`The cache of this build was not stored: ${error instanceof Error ? error.message : error}`);
  }
}

async function pushBlob(registry: Registry, layout: string, { digest, size }: Descriptor): Promise<void> {
  if (await registry.hasBlob(digest)) return;
  const file = await openBlob(layout, digest);
  try {
    if ((await file.stat()).size !== size) throw new Error(`${digest} has another size than its manifest says`);
    await registry.putBlob(digest, file, size);
  } finally {
    await file.close();
  }
}

try {
  await main(process.argv.slice(2));
} catch (error) {
  const message = `The image could not be pushed: ${error instanceof Error ? error.message : error}`;
  const cause = (error as Error).cause;
  const text = cause instanceof Error ? `${message}: ${cause.message}` : message;
  console.error(text);
  await writeFile(terminationLog, JSON.stringify({ message: text.slice(0, 3_000) })).catch(() => {});
  process.exitCode = 1;
}
