import { createHash } from "node:crypto";
import { createReadStream, openAsBlob, type Stats } from "node:fs";
import { mkdtemp, rm, stat } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { pipeline } from "node:stream/promises";
import { create } from "tar";

export interface Archive extends AsyncDisposable {
  /** Streamed from disk during the upload. */
  blob: Blob;
  sizeBytes: number;
  sha256: string;
}

/**
 * Packs files into a gzip tar that holds regular files only. Equal files give equal bytes, regardless of times, owners and umask, so
 * that the server reuses the artifact of an unchanged source instead of building it.
 *
 * @param files Relative to `root`, with `/`, in the order of the archive.
 */
export async function packArchive(root: string, files: readonly string[], signal: AbortSignal): Promise<Archive> {
  const directory = await mkdtemp(path.join(tmpdir(), "pierhead-source-"));
  const remove = () => rm(directory, { recursive: true, force: true });
  try {
    const file = path.join(directory, "source.tar.gz");
    signal.throwIfAborted();
    // tar would treat a name with a leading "@" as the name of an archive, so "./" is added.
    const names = files.map((name) => (name.startsWith("@") ? `./${name}` : name));
    await create({ file, cwd: root, ...deterministic }, names);
    signal.throwIfAborted();
    const hash = createHash("sha256");
    await pipeline(createReadStream(file), hash, { signal });
    const { size: sizeBytes } = await stat(file);
    return { blob: await openAsBlob(file), sizeBytes, sha256: hash.digest("hex"), [Symbol.asyncDispose]: remove };
  } catch (error) {
    await remove();
    throw error;
  }
}

/** Disables the detection of hard links, so that each name is packed as a file of its own. */
class NoLinks extends Map<never, string> {
  override set(): this {
    return this;
  }
}

const deterministic = {
  gzip: { level: 6 },
  /** Omits owners, access times, and the operating system in the gzip header. */
  portable: true,
  mtime: new Date(0),
  noDirRecurse: true,
  /** Safe, because the list contains only links to files inside the root. */
  follow: true,
  strict: true,
  linkCache: new NoLinks(),
  /** Keeps only the executable bit, because other permissions depend on this machine. */
  onWriteEntry: ({ stat }: { stat?: Stats | undefined }) => {
    if (stat !== undefined) stat.mode = (stat.mode & ~0o7777) | (stat.mode & 0o100 ? 0o755 : 0o644);
  },
};
