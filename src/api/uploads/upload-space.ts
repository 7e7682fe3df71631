import { isDiskLow, readDiskSpace, reserveOf } from "../../base/disk-reserve.ts";
import { type Held, Shares } from "../../base/shares.ts";
import { errors } from "../../contract/error.ts";
import { readUploadedBytes } from "../../store/builds/uploads.ts";
import type { ApiDeps } from "../deps.ts";

const mib = 1024 * 1024;

/** Part of the data directory's disk that uploads may fill, so that builds and the database have the rest. */
const uploadFraction = 1 / 2;

/** Space in a bucket, which says nothing about its size, when the operator sets none. */
const bucketSpaceMib = 1024 * 1024;

const wantedOf = ({ uploadSpaceMib }: ApiDeps["settings"], diskBytes: number) =>
  uploadSpaceMib === undefined ? diskBytes * uploadFraction : uploadSpaceMib * mib;

/** On a disk that other files fill, a workspace gets a share of what uploads can still use. */
function spaceOnDisk(space: { stored: Map<string, number>; freeBytes: number; wanted: number }): number {
  const storedBytes = [...space.stored.values()].reduce((sum, bytes) => sum + bytes, 0);
  return Math.max(0, Math.min(space.wanted, storedBytes + space.freeBytes));
}

/**
 * Space for uploaded archives. A workspace holds at most its share of what the others leave, counting the archives that are
 * stored and those that arrive. No upload takes the space that the disk reserves for the database.
 */
export class UploadSpace {
  readonly #deps: Pick<ApiDeps, "db" | "settings" | "uploads">;
  /** Bytes of the uploads in progress, by workspace. */
  readonly #arriving = new Map<string, number>();

  constructor(deps: Pick<ApiDeps, "db" | "settings" | "uploads">) {
    this.#deps = deps;
  }

  /** Checks that an upload could begin. @throws ApiError 413 `uploadSpaceTaken`, 503 `diskFull` */
  async check(workspaceId: string): Promise<void> {
    (await this.hold(workspaceId, 1)).release();
  }

  /** Holds space for an archive until it is stored or refused. @throws ApiError 413 `uploadSpaceTaken`, 503 `diskFull` */
  async hold(workspaceId: string, bytes: number): Promise<Held> {
    const { db, settings, uploads } = this.#deps;
    const space = await readDiskSpace(settings.dataDir);
    const reserve = reserveOf(space, settings.diskReserveMib);
    if (space.freeBytes < reserve) throw errors.diskFull();
    const stored = await readUploadedBytes(db);
    const total = uploads.isShared
      ? (settings.uploadSpaceMib ?? bucketSpaceMib) * mib
      : spaceOnDisk({ stored, freeBytes: space.freeBytes - reserve, wanted: wantedOf(settings, space.sizeBytes) });
    // No code waits between this count and the next line that adds to it, so two uploads never take the same space.
    const shares = new Shares({ total, workspace: settings.workspaceShare, key: 1 });
    for (const [id, held] of stored) shares.hold({ workspaceId: id }, held);
    for (const [id, held] of this.#arriving) shares.hold({ workspaceId: id }, held);
    const taken = shares.take({ workspaceId }, bytes);
    if (!("release" in taken)) throw errors.uploadSpaceTaken(taken.limit, Math.floor(taken.max / mib));
    const held = this.#add(workspaceId, bytes);
    const neededBytes = [...this.#arriving.values()].reduce((sum, arriving) => sum + arriving, 0);
    try {
      const { diskReserveMib: reserveMib } = settings;
      if (await isDiskLow(settings.dataDir, { reserveMib, neededBytes })) throw errors.diskFull();
      return held;
    } catch (error) {
      held.release();
      throw error;
    }
  }

  #add(workspaceId: string, bytes: number): Held {
    const change = (amount: number) => {
      const held = (this.#arriving.get(workspaceId) ?? 0) + amount;
      if (held === 0) this.#arriving.delete(workspaceId);
      else this.#arriving.set(workspaceId, held);
    };
    change(bytes);
    let isHeld = true;
    return {
      release() {
        if (isHeld) change(-bytes);
        isHeld = false;
      },
    };
  }
}
