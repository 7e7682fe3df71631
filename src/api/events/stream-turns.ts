import type { Db } from "../../store/engine/database.ts";
import { Turns } from "../logs/turns.ts";

/** Reads of the streams of one workspace that run at the same time. The embedded database has one session. */
const atOnceOf: Record<Db["kind"], number> = { embedded: 1, postgres: 4 };

/** Reads in turn with the other streams of the workspace, until it leaves. */
export interface StreamTurn {
  take<T>(read: () => Promise<T>): Promise<T>;
  leave(): void;
}

/**
 * Lets the streams of one workspace read in turn. 300 of them that read a long log from its start made a request of another workspace
 * wait for 0.7 s in the median.
 */
export class StreamTurns {
  readonly #atOnce: number;
  readonly #byWorkspace = new Map<string, { lanes: Turns[]; streams: number }>();
  #joined = 0;

  constructor(database: Db["kind"]) {
    this.#atOnce = atOnceOf[database];
  }

  join(workspaceId: string): StreamTurn {
    const known = this.#byWorkspace.get(workspaceId);
    const workspace = known ?? { lanes: Array.from({ length: this.#atOnce }, () => new Turns()), streams: 0 };
    this.#byWorkspace.set(workspaceId, workspace);
    workspace.streams += 1;
    this.#joined += 1;
    const lane = workspace.lanes[this.#joined % this.#atOnce] as Turns;
    const stream = String(this.#joined);
    return {
      take: (read) => lane.take(stream, read),
      leave: () => {
        workspace.streams -= 1;
        if (workspace.streams === 0) this.#byWorkspace.delete(workspaceId);
      },
    };
  }
}
