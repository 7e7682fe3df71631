import { mkdir, readdir, rm } from "node:fs/promises";
import path from "node:path";
import type { ReplicaExit } from "../../compute.ts";
import { readJson, writeJson } from "../../json-file.ts";
import type { ReplicaRecord } from "./container.ts";

/** Facts about a replica that the engine does not store: when it became ready, and why it ended. */
export interface JournalEntry {
  ready?: { port: number; serverVersion: string | null };
  /** The replica was asked to stop. */
  stopping?: true;
  exit?: ReplicaExit;
  /** Record of a replica that never had a container. */
  refused?: ReplicaRecord;
}

/** One small file per replica. Losing a file loses an explanation but never a replica, because the engine knows what runs. */
export class ReplicaJournal {
  readonly #directory: string;

  constructor(dataDir: string) {
    this.#directory = path.join(dataDir, "docker");
  }

  async open(): Promise<void> {
    await mkdir(this.#directory, { recursive: true, mode: 0o700 });
  }

  async list(): Promise<string[]> {
    const names = await readdir(this.#directory);
    return names.filter((name) => name.endsWith(".json")).map((name) => name.slice(0, -".json".length));
  }

  async read(replicaId: string): Promise<JournalEntry> {
    return (await readJson<JournalEntry>(this.#file(replicaId))) ?? {};
  }

  async write(replicaId: string, entry: JournalEntry): Promise<void> {
    await writeJson(this.#file(replicaId), entry);
  }

  async remove(replicaId: string): Promise<void> {
    await rm(this.#file(replicaId), { force: true });
  }

  /** @throws Error for an id that could escape the directory. */
  #file(replicaId: string): string {
    if (!/^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$/.test(replicaId)) {
      throw new Error(`'${replicaId}' is not a valid replica id`);
    }
    return path.join(this.#directory, `${replicaId}.json`);
  }
}
