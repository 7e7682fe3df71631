import { createHash } from "node:crypto";
import { createReadStream, openAsBlob, type Stats } from "node:fs";
import { mkdtemp, rm, stat } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { pipeline } from "node:stream/promises";
import { create } from "tar";

export interface Archive extends AsyncDisposable {
  /** Read from disk while it is sent. */
  blob: Blob;
  sizeBytes: number;
  sha256: string;
}

/**
 * Packs files into a gzip tar that holds regular files only. The same files give the same bytes, whatever their times,
 * owners and umask, so that the server finds the artifact of an unchanged source and builds nothing.
 *
 * @param files Relative to `root`, with `/`, in the order they shall have.
 */
export async function packArchive(root: string, files: readonly string[], signal: AbortSignal): Promise<Archive> {
  const directory = await mkdtemp(path.join(tmpdir(), "pierhead-source-"));
  const remove = () => rm(directory, { recursive: true, force: true });
  try {
    const file = path.join(directory, "source.tar.gz");
    signal.throwIfAborted();
    // A leading "./" keeps a name that begins with "@" from being read as the name of an archive.
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

/** Two names of one file are two files to us. */
class NoLinks extends Map<never, string> {
  override set(): this {
    return this;
  }
}

const deterministic = {
  gzip: { level: 6 },
  /** No owners, no access times, no operating system in the gzip header. */
  portable: true,
  mtime: new Date(0),
  noDirRecurse: true,
  /** The list has only links that lead to files inside. */
  follow: true,
  strict: true,
  linkCache: new NoLinks(),
  /** May it be executed? All else about permissions is this machine's. */
  onWriteEntry: ({ stat }: { stat?: Stats | undefined }) => {
    if (stat !== undefined) stat.mode = (stat.mode & ~0o7777) | (stat.mode & 0o100 ? 0o755 : 0o644);
  },
};
