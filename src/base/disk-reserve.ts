import { statfs } from "node:fs/promises";

export interface DiskSpace {
  sizeBytes: number;
  /** For users without privileges. */
  freeBytes: number;
}

/** Returns the space of the file system that holds a directory. */
export async function readDiskSpace(directory: string): Promise<DiskSpace> {
  const { bavail, blocks, bsize } = await statfs(directory);
  return { sizeBytes: blocks * bsize, freeBytes: bavail * bsize };
}

/** Enough for the database to write for hours, so that it stops last. A small disk keeps a twentieth of its size. */
const reserveBytesMax = 512 * 1024 * 1024;
const reserveFraction = 1 / 20;

/** Returns the free space that uploads, builds and logs leave to the database. @param wantedMib undefined: the default. */
export function reserveOf({ sizeBytes }: DiskSpace, wantedMib?: number): number {
  return wantedMib === undefined ? Math.min(reserveBytesMax, sizeBytes * reserveFraction) : wantedMib * 1024 * 1024;
}

/** Whether the disk has less than its reserve once `neededBytes` are written. */
export async function isDiskLow(
  directory: string,
  { reserveMib, neededBytes = 0 }: { reserveMib?: number | undefined; neededBytes?: number },
): Promise<boolean> {
  const space = await readDiskSpace(directory);
  return space.freeBytes - neededBytes < reserveOf(space, reserveMib);
}
