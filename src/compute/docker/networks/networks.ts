import { type Engine, EngineError } from "../engine/engine.ts";
import { labels } from "../replicas/container.ts";

/**
 * One bridge network per workspace: its agents reach each other and the outside, and nobody else's. It is made for the
 * first container and removed with the last, because an engine has address space of its own for about thirty.
 */
export class Networks {
  readonly #engine: Engine;
  readonly #installationId: string;
  readonly #users = new Map<string, Set<string>>();

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
    return openNetwork(this.#engine, this.#installationId, tenantId);
  }

  async leave(tenantId: string, replicaId: string): Promise<void> {
    const users = this.#usersOf(tenantId);
    users.delete(replicaId);
    if (users.size > 0) return;
    await closeNetwork(this.#engine, networkName(this.#installationId, tenantId), () => {
      if (this.#usersOf(tenantId).size > 0) return false;
      return this.#users.delete(tenantId);
    });
  }

  /** Removes those that were left behind by a process that died between two calls. */
  async sweep(): Promise<void> {
    const filters = { label: [`${labels.installation}=${this.#installationId}`] };
    const found = await this.#engine.call<{ Name: string; Labels: Record<string, string> }[]>("GET", "/networks", {
      query: { filters },
    });
    for (const { Name, Labels } of found) {
      if (!this.#users.has(Labels[labels.tenant] ?? "")) await closeNetwork(this.#engine, Name);
    }
  }

  #usersOf(tenantId: string): Set<string> {
    const users = this.#users.get(tenantId) ?? new Set();
    this.#users.set(tenantId, users);
    return users;
  }
}

export const networkName = (installationId: string, tenantId: string) =>
  `pierhead-${installationId.slice(0, 8)}-${tenantId}`;

/**
 * By name: none is removed while a container is about to join, and none is made twice. The engine lets several have one
 * name, and refuses containers then.
 */
const turns = new Map<string, Promise<unknown>>();

function inTurn<T>(name: string, act: () => Promise<T>): Promise<T> {
  const turn = (turns.get(name) ?? Promise.resolve()).then(act);
  const settled = turn.then(
    () => {},
    () => {},
  );
  turns.set(name, settled);
  void settled.then(() => {
    if (turns.get(name) === settled) turns.delete(name);
  });
  return turn;
}

/** @returns the name of a workspace's network, which is there now. */
export function openNetwork(engine: Engine, installationId: string, tenantId: string): Promise<string> {
  const name = networkName(installationId, tenantId);
  return inTurn(name, async () => {
    if ((await engine.callUnless([404], "GET", `/networks/${name}`)) !== undefined) return name;
    await createNetwork(engine, {
      Name: name,
      CheckDuplicate: true,
      Driver: "bridge",
      Labels: { [labels.installation]: installationId, [labels.tenant]: tenantId },
    });
    return name;
  });
}

/** Where the 31st workspace and what bridges others left on the machine do not end the deploys: 256 networks of /24. */
const spareSpace = Array.from({ length: 256 }, (_, index) => `10.199.${index}.0/24`);

/** 409: somebody was quicker. */
async function createNetwork(engine: Engine, body: object): Promise<void> {
  try {
    await engine.callUnless([409], "POST", "/networks/create", { body });
  } catch (error) {
    if (!isSpaceLacking(error)) throw error;
    await createInSpareSpace(engine, body, error);
  }
}

async function createInSpareSpace(engine: Engine, body: object, lacking: EngineError): Promise<void> {
  const found = await engine.call<{ IPAM?: { Config?: { Subnet?: string }[] | null } }[]>("GET", "/networks");
  const taken = new Set(found.flatMap(({ IPAM }) => (IPAM?.Config ?? []).map(({ Subnet }) => Subnet)));
  for (const Subnet of spareSpace.filter((subnet) => !taken.has(subnet))) {
    try {
      await engine.callUnless([409], "POST", "/networks/create", { body: { ...body, IPAM: { Config: [{ Subnet }] } } });
      return;
    } catch (error) {
      if (!isSpaceLacking(error)) throw error;
    }
  }
  throw new EngineError(
    lacking.status,
    `${lacking.message}: give the engine more of them with 'default-address-pools' in its daemon.json, or remove networks that nothing uses`,
  );
}

/** As the engine words it: its pools are used up, or the wanted subnet overlaps with one that is there. */
const isSpaceLacking = (error: unknown): error is EngineError =>
  error instanceof EngineError && /address pool|overlap/i.test(error.message);

/** Removes a network that no container is in, be it one that does not run just now: it could not start again. */
export async function closeNetwork(engine: Engine, name: string, isUnused = () => true): Promise<void> {
  const query = { all: true, filters: { network: [name] } };
  await inTurn(name, async () => {
    if (!isUnused() || (await engine.call<unknown[]>("GET", "/containers/json", { query })).length > 0) return;
    // 403: somebody was quicker.
    await engine.callUnless([403, 404], "DELETE", `/networks/${name}`);
  });
}
