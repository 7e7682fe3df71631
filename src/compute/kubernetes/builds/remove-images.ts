import { writeFile } from "node:fs/promises";
import { isAboutOneImage, openRepository, type Registry, retry } from "./registry.ts";

/**
 * Main program of a removal: deletes images from a registry, and writes to the termination log which of them are gone, by their
 * positions, and why others are left. Digests name images, and tags name caches.
 *
 *     node remove-images.js <repository> <reference>...
 */
const terminationLog = process.env["PIERHEAD_TERMINATION_LOG"] ?? "/dev/termination-log";

async function main([repository = "", ...references]: string[]): Promise<void> {
  const removed: number[] = [];
  let message: string | null = null;
  try {
    const registry = await openRepository(repository, process.env);
    for (const [position, reference] of references.entries()) {
      try {
        await retry(() => remove(registry, reference));
        removed.push(position);
      } catch (error) {
        // One image that the registry protects must not keep the others there.
        if (!isAboutOneImage(error)) throw error;
        message ??= (error as Error).message;
      }
    }
  } catch (error) {
    message = error instanceof Error ? error.message : String(error);
  }
  console.log(
    `${removed.length} of ${references.length} images removed from ${repository}${message === null ? "" : `: ${message}`}`,
  );
  await writeFile(terminationLog, JSON.stringify({ removed, message: message?.slice(0, 3_000) ?? null }));
}

/** Removes an image. Only a digest can be deleted, and every tag that names it goes with it. */
async function remove(registry: Registry, reference: string): Promise<void> {
  const digest = reference.startsWith("sha256:") ? reference : await registry.findDigest(reference);
  if (digest !== null) await registry.deleteManifest(digest);
}

await main(process.argv.slice(2));
