/** Where a build finds an uploaded archive: in a file of this host, or at a URL that is valid for one build. */
export type ArchivePlace = { path: string } | { url: string };

/** A received file that no other request uses. */
export interface ReceivedArchive {
  path: string;
  /** Hex. */
  sha256: string;
  sizeBytes: number;
}

/**
 * Uploaded source archives, by the `object_path` of their row: in the data directory of this server, or in object storage
 * that all servers share.
 */
export interface Uploads {
  /** Whether every server of the installation finds the archives. */
  readonly isShared: boolean;
  /**
   * Keeps a received file under its path; durable when it resolves.
   * @returns false when the directory of its deployment was removed meanwhile
   */
  keep(file: ReceivedArchive, objectPath: string, signal: AbortSignal): Promise<boolean>;
  /** @param lifeMs time in which the build begins to read it */
  locate(objectPath: string, lifeMs: number): Promise<ArchivePlace>;
  /** Removes one archive. One that is gone already is not an error. */
  remove(objectPath: string): Promise<void>;
  /** Removes all archives of a deployment. */
  removeAllOf(deploymentId: string): Promise<void>;
  /** Finishes removals that a crash interrupted, and returns how many. */
  finishRemovals(): Promise<number>;
  /** Copies an archive into a backup. One that is gone, as of a deployment that is being deleted, is left out. */
  copyTo(objectPath: string, target: string, signal: AbortSignal): Promise<void>;
  /** Takes the archives of an unpacked backup over. @returns a function that undoes it. */
  takeOver(directory: string, signal: AbortSignal): Promise<() => Promise<void>>;
}
