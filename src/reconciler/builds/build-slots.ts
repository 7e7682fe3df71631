import { Stagger } from "../slots.ts";

/** Why a build has to wait, and when it asks again. */
export interface BuildWait {
  retryInMs: number;
  because: string;
}

interface Builder {
  /** Revisions whose build runs here. */
  running: Set<string>;
  /** Revisions that wait for a slot, with the time until which they count as waiting. */
  waiting: Map<string, number>;
  lastStartedAtMs: number;
  /** A workspace with many waiting builds asks less often for each of them, which must not delay another workspace. */
  stagger: Stagger;
}

/** A pass that asks later than planned by less than this still counts as waiting: passes may wait for others too. */
const lateMs = 2_000;

/**
 * Build slots of this server, shared by its workspaces. While there are several workspaces, one of them never holds the
 * last slot, because a build may hang until its deadline. A free slot goes to the waiting workspace with the fewest
 * running builds, then to the one whose last build began first.
 */
export class BuildSlots {
  readonly #max: number;
  readonly #now: () => number;
  readonly #builders = new Map<string, Builder>();
  #running = 0;

  constructor(max: number, now: () => number = () => performance.now()) {
    this.#max = max;
    this.#now = now;
  }

  get isFull(): boolean {
    return this.#running >= this.#max;
  }

  /** Most builds of one workspace. @param isShared whether this installation has several workspaces. */
  workspaceMax(isShared: boolean): number {
    return isShared ? Math.max(1, this.#max - 1) : this.#max;
  }

  /** Takes a slot for a revision, or returns why it has to wait. */
  take(revision: { id: string; tenantId: string }, isShared: boolean): BuildWait | null {
    const wait = this.findWait(revision, isShared);
    if (wait !== null) return wait;
    const builder = this.#builderOf(revision.tenantId);
    builder.waiting.delete(revision.id);
    builder.running.add(revision.id);
    builder.lastStartedAtMs = this.#now();
    this.#running += 1;
    return null;
  }

  /** Returns why a revision has to wait for a slot, and counts it as waiting; null: a slot is free for it. */
  findWait({ id, tenantId }: { id: string; tenantId: string }, isShared: boolean): BuildWait | null {
    const builder = this.#builderOf(tenantId);
    const because = this.#reasonToWait(tenantId, builder, isShared);
    if (because === null) return null;
    const retryInMs = builder.stagger.nextInMs(this.#now());
    builder.waiting.set(id, this.#now() + retryInMs + lateMs);
    return { retryInMs, because };
  }

  release({ id, tenantId }: { id: string; tenantId: string }): void {
    const builder = this.#builders.get(tenantId);
    if (builder?.running.delete(id)) this.#running -= 1;
  }

  #reasonToWait(tenantId: string, builder: Builder, isShared: boolean): string | null {
    const own = builder.running.size;
    const running = own === 1 ? "1 build of your workspace is running" : `${own} builds of your workspace are running`;
    if (this.isFull) return `waiting for a build slot, all ${this.#max} are taken: ${running}`;
    if (own >= this.workspaceMax(isShared)) return `waiting for a build slot of your workspace: ${running}`;
    const rivals = [...this.#builders].filter(
      ([id, other]) => id !== tenantId && goesFirst(other, builder) && this.#isWaiting(other),
    );
    if (rivals.length < this.#max - this.#running) return null;
    return `waiting for a build slot, it is another workspace's turn: ${running}`;
  }

  #isWaiting({ waiting }: Builder): boolean {
    const nowMs = this.#now();
    for (const [id, untilMs] of waiting) {
      if (untilMs > nowMs) return true;
      waiting.delete(id);
    }
    return false;
  }

  #builderOf(tenantId: string): Builder {
    let builder = this.#builders.get(tenantId);
    if (builder === undefined) {
      this.#forgetIdle();
      builder = {
        running: new Set(),
        waiting: new Map(),
        lastStartedAtMs: Number.NEGATIVE_INFINITY,
        stagger: new Stagger(),
      };
      this.#builders.set(tenantId, builder);
    }
    return builder;
  }

  #forgetIdle(): void {
    if (this.#builders.size < buildersMax) return;
    for (const [id, builder] of this.#builders) {
      if (builder.running.size === 0 && !this.#isWaiting(builder)) this.#builders.delete(id);
    }
  }
}

/** Workspaces to remember before idle ones are forgotten. */
const buildersMax = 1_000;

function goesFirst(one: Builder, other: Builder): boolean {
  const difference = one.running.size - other.running.size;
  return difference < 0 || (difference === 0 && one.lastStartedAtMs < other.lastStartedAtMs);
}
