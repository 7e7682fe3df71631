/** A resource that a server has a limited amount of, and how much of it one workspace and one key may hold at the same time. */
export interface ShareRules {
  total: number;
  /**
   * Fraction of what the other workspaces leave that one workspace may hold. Below 1, something is left for the next
   * workspace, however many workspaces hold all they may.
   */
  workspace: number;
  /** The same fraction for one key. */
  key: number;
}

/** Returns the rules of a resource. @param workspaceShare fraction that a workspace may hold; a key may hold half of it. */
export const shareRules = (total: number, workspaceShare: number): ShareRules => ({
  total,
  workspace: workspaceShare,
  key: workspaceShare / 2,
});

export interface Holder {
  workspaceId: string;
  /** Absent: the resource is not counted by key. */
  keyId?: string;
}

/** Which limit refused a request, and how much it allows at the moment. */
export interface ShareRefusal {
  limit: "total" | "workspace" | "key";
  max: number;
}

/** A part of the resource that is held until `release`. Only the first call has an effect. */
export interface Held {
  release(): void;
}

/** Counts who holds how much of one resource of this server. A lookup and two additions per request. */
export class Shares {
  readonly #rules: ShareRules;
  readonly #byWorkspace = new Map<string, number>();
  readonly #byKey = new Map<string, number>();
  #held = 0;

  constructor(rules: ShareRules) {
    this.#rules = rules;
  }

  get held(): number {
    return this.#held;
  }

  /** Takes an amount, or returns which limit it would exceed. */
  take({ workspaceId, keyId }: Holder, amount = 1): Held | ShareRefusal {
    const { total, workspace, key } = this.#rules;
    const byWorkspace = this.#byWorkspace.get(workspaceId) ?? 0;
    const byKey = keyId === undefined ? 0 : (this.#byKey.get(keyId) ?? 0);
    if (this.#held + amount > total) return { limit: "total", max: total };
    const left = total - (this.#held - byWorkspace);
    const workspaceMax = Math.max(1, Math.floor(left * workspace));
    if (byWorkspace + amount > workspaceMax) return { limit: "workspace", max: workspaceMax };
    const keyMax = Math.max(1, Math.floor(left * key));
    if (keyId !== undefined && byKey + amount > keyMax) return { limit: "key", max: keyMax };
    return this.hold({ workspaceId, ...(keyId !== undefined && { keyId }) }, amount);
  }

  /** Counts an amount that is held already, whatever the limits say. */
  hold({ workspaceId, keyId }: Holder, amount = 1): Held {
    this.#add(workspaceId, keyId, amount);
    let isHeld = true;
    return {
      release: () => {
        if (isHeld) this.#add(workspaceId, keyId, -amount);
        isHeld = false;
      },
    };
  }

  #add(workspaceId: string, keyId: string | undefined, amount: number): void {
    this.#held += amount;
    addTo(this.#byWorkspace, workspaceId, amount);
    if (keyId !== undefined) addTo(this.#byKey, keyId, amount);
  }
}

function addTo(counts: Map<string, number>, name: string, amount: number): void {
  const count = (counts.get(name) ?? 0) + amount;
  if (count === 0) counts.delete(name);
  else counts.set(name, count);
}
