import { createHash } from "node:crypto";
import { constants } from "node:fs";
import { type FileHandle, open } from "node:fs/promises";
import path from "node:path";

/** Reads OCI layouts that programs of a project could write to: follows no links and checks contents against their digests. */

export interface Descriptor {
  mediaType: string;
  digest: string;
  size: number;
}

export interface ImageManifest {
  mediaType?: string;
  config: Descriptor;
  layers: Descriptor[];
}

const documentBytesMax = 4 * 1024 * 1024;

/** Returns the manifest of an image, also when an index of platforms and attestations leads to it. */
export async function readManifest(
  layout: string,
  top: Descriptor,
): Promise<{ manifest: ImageManifest; content: Buffer }> {
  const content = await readBlob(layout, top.digest);
  const document = JSON.parse(content.toString());
  if (!Array.isArray(document.manifests)) return { manifest: document, content };
  const isImage = ({ platform }: { platform?: { os?: string } }) => platform?.os !== "unknown";
  return readManifest(layout, document.manifests.find(isImage));
}

/** Returns the first descriptor of a layout. */
export async function readTop(layout: string): Promise<Descriptor | undefined> {
  return JSON.parse((await readDocument(path.join(layout, "index.json"))).toString()).manifests[0];
}

export const openBlob = (layout: string, digest: string): Promise<FileHandle> =>
  open(blobFile(layout, digest), constants.O_RDONLY | constants.O_NOFOLLOW);

/** @throws Error for a digest that could name a file elsewhere */
export function blobFile(layout: string, digest: string): string {
  const [, hex] = /^sha256:([0-9a-f]{64})$/.exec(digest) ?? [];
  if (hex === undefined) throw new Error("the image names a blob by something else than a sha256 digest");
  return path.join(layout, "blobs", "sha256", hex);
}

async function readBlob(layout: string, digest: string): Promise<Buffer> {
  const file = await openBlob(layout, digest);
  const content = await readOpened(file);
  if (`sha256:${createHash("sha256").update(content).digest("hex")}` !== digest)
    throw new Error(`${digest} has another content`);
  return content;
}

const readDocument = async (file: string) => readOpened(await open(file, constants.O_RDONLY | constants.O_NOFOLLOW));

async function readOpened(file: FileHandle): Promise<Buffer> {
  try {
    if ((await file.stat()).size > documentBytesMax) throw new Error("a document of the image is too large");
    return await file.readFile();
  } finally {
    await file.close();
  }
}
