import { labels } from "./container.ts";
import type { Engine } from "./engine.ts";

/**
 * One bridge network per workspace: its agents reach each other and the outside, and nobody else's. It is made for the
 * first replica and removed with the last, because an engine has address space for about thirty.
 */
export class Networks {
  readonly #engine: Engine;
  readonly #installationId: string;
  readonly #users = new Map<string, Set<string>>();
  /** Per workspace, so that none is removed while another replica is about to join. */
  readonly #turns = new Map<string, Promise<unknown>>();

  constructor(engine: Engine, installationId: string) {
    this.#engine = engine;
    this.#installationId = installationId;
  }

  /** A replica that is there already, in a network that is there. */
  adopt(tenantId: string, replicaId: string): void {
    this.#usersOf(tenantId).add(replicaId);
  }

  /** @returns the name of the network, which stays until the replica leaves. */
  join(tenantId: string, replicaId: string): Promise<string> {
    this.#usersOf(tenantId).add(replicaId);
    return this.#inTurn(tenantId, async () => {
      const name = this.#nameOf(tenantId);
      const found = await this.#engine.callUnless([404], "GET", `/networks/${name}`);
      if (found === undefined) await this.#create(name, tenantId);
      return name;
    });
  }

  async leave(tenantId: string, replicaId: string): Promise<void> {
    const users = this.#usersOf(tenantId);
    users.delete(replicaId);
    if (users.size > 0) return;
    await this.#inTurn(tenantId, async () => {
      if (users.size > 0) return;
      this.#users.delete(tenantId);
      // 403: somebody put a container of their own into it.
      await this.#engine.callUnless([403, 404], "DELETE", `/networks/${this.#nameOf(tenantId)}`);
    });
  }

  /** Removes those that were left behind by a process that died between two calls. */
  async sweep(): Promise<void> {
    const filters = { label: [`${labels.installation}=${this.#installationId}`] };
    const found = await this.#engine.call<{ Id: string; Labels: Record<string, string> }[]>("GET", "/networks", {
      query: { filters },
    });
    for (const { Id, Labels } of found) {
      if (this.#users.has(Labels[labels.tenant] ?? "")) continue;
      await this.#engine.callUnless([403, 404], "DELETE", `/networks/${Id}`);
    }
  }

  #create(name: string, tenantId: string): Promise<unknown> {
    return this.#engine.callUnless([409], "POST", "/networks/create", {
      body: {
        Name: name,
        CheckDuplicate: true,
        Driver: "bridge",
        Labels: { [labels.installation]: this.#installationId, [labels.tenant]: tenantId },
      },
    });
  }

  #nameOf(tenantId: string): string {
    return `pierhead-${this.#installationId.slice(0, 8)}-${tenantId}`;
  }

  #usersOf(tenantId: string): Set<string> {
    const users = this.#users.get(tenantId) ?? new Set();
    this.#users.set(tenantId, users);
    return users;
  }

  #inTurn<T>(tenantId: string, act: () => Promise<T>): Promise<T> {
    const turn = (this.#turns.get(tenantId) ?? Promise.resolve()).then(act);
    this.#turns.set(
      tenantId,
      turn.catch(() => {}),
    );
    return turn;
  }
}
