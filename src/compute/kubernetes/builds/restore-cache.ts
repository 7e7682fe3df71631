import { createHash } from "node:crypto";
import { createWriteStream } from "node:fs";
import { mkdir, rename, writeFile } from "node:fs/promises";
import path from "node:path";
import { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import { blobFile, type Descriptor, type ImageManifest } from "./oci-layout.ts";
import { openRepository, type Registry, retry } from "./registry.ts";

/**
 * Main program of the first container of a build: downloads the cache that the build before pushed, as an OCI layout which
 * the builder imports. It has the credentials of the registry, which the builder has not. A build without a cache is only
 * slower, so this program always succeeds.
 *
 *     node restore-cache.js <layout> <repository> <tag> <largest size in bytes>
 */
const downloadsMax = 4;

/** Name of an image in a layout, which BuildKit looks for. */
const annotations = { "org.opencontainers.image.ref.name": "latest" };

async function main([layout = "", repository = "", tag = "", bytesMax = ""]: string[]): Promise<string> {
  const registry = await openRepository(repository, process.env);
  const found = await retry(() => registry.getManifest(tag));
  if (found === null) return "There is no cache of an earlier build.";
  const { config, layers } = JSON.parse(found.content.toString()) as ImageManifest;
  const blobs = [...new Map([config, ...layers].map((blob) => [blob.digest, blob])).values()];
  const bytes = blobs.reduce((sum, { size }) => sum + size, 0);
  if (!(bytes <= Number(bytesMax))) return `The cache of an earlier build is too large: ${bytes} bytes.`;
  await mkdir(path.join(layout, "blobs", "sha256"), { recursive: true });
  const left = [...blobs];
  const download = async () => {
    for (let blob = left.pop(); blob !== undefined; blob = left.pop()) await restoreBlob(registry, layout, blob);
  };
  await Promise.all(Array.from({ length: downloadsMax }, download));
  const digest = `sha256:${createHash("sha256").update(found.content).digest("hex")}`;
  await writeFile(blobFile(layout, digest), found.content);
  await writeFile(path.join(layout, "oci-layout"), JSON.stringify({ imageLayoutVersion: "1.0.0" }));
  const top = { mediaType: found.type, digest, size: found.content.length, annotations };
  // The index comes last, because the builder takes a layout without an index for none.
  await writeFile(path.join(layout, "index.json"), JSON.stringify({ schemaVersion: 2, manifests: [top] }));
  return `The cache of an earlier build has ${layers.length} layers with ${bytes} bytes.`;
}

function restoreBlob(registry: Registry, layout: string, blob: Descriptor): Promise<void> {
  const file = blobFile(layout, blob.digest);
  return retry(async () => {
    const content = Readable.fromWeb((await registry.getBlob(blob)) as import("node:stream/web").ReadableStream);
    const hash = createHash("sha256");
    await pipeline(
      content,
      async function* (chunks) {
        for await (const chunk of chunks) {
          hash.update(chunk);
          yield chunk;
        }
      },
      createWriteStream(`${file}.part`),
    );
    if (`sha256:${hash.digest("hex")}` !== blob.digest) throw new Error(`${blob.digest} has another content`);
    await rename(`${file}.part`, file);
  });
}

try {
  console.log(await main(process.argv.slice(2)));
} catch (error) {
  console.log(`The cache of an earlier build cannot be used: ${error instanceof Error ? error.message : error}`);
}
