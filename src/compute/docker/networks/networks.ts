import { setTimeout as sleep } from "node:timers/promises";
import { type Engine, EngineError } from "../engine/engine.ts";
import { labels } from "../replicas/container.ts";

/**
 * One bridge network per workspace: its agents reach each other and the internet, but no other workspace. A network is
 * created with its first container and removed with its last one, because an engine has addresses for about thirty only.
 */
export class Networks {
  readonly #engine: Engine;
  readonly #installationId: string;
  readonly #users = new Map<string, Set<string>>();

  constructor(engine: Engine, installationId: string) {
    this.#engine = engine;
    this.#installationId = installationId;
  }

  /** Registers a running replica as a user of its existing network. */
  adopt(tenantId: string, replicaId: string): void {
    this.#usersOf(tenantId).add(replicaId);
  }

  /** Returns the name of the network, creating it if needed. The network stays until the replica leaves. */
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

  /** Removes networks that a process left behind because it died between two calls. */
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
 * Serializes calls by network name, so that no network is removed while a container is about to join, and none is created
 * twice. The engine allows several networks with the same name, but then refuses to start containers in them.
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

/** Creates a workspace's network unless it exists. @returns its name */
export function openNetwork(engine: Engine, installationId: string, tenantId: string): Promise<string> {
  const name = networkName(installationId, tenantId);
  return open(engine, name, { [labels.installation]: installationId, [labels.tenant]: tenantId });
}

const buildNetworkName = (installationId: string, buildId: string) =>
  `pierhead-${installationId.slice(0, 8)}-build-${buildId}`;

/**
 * Creates the network of one build unless it exists. On the engine's default network, programs of two builds would reach
 * each other.
 * @returns its name
 */
export function openBuildNetwork(engine: Engine, installationId: string, buildId: string): Promise<string> {
  const name = buildNetworkName(installationId, buildId);
  return open(engine, name, { [labels.installation]: installationId, [labels.build]: buildId });
}

/** Removes the network of a build as soon as it has no container. Gives up after `withinMs`: `Networks.sweep` removes it later. */
export async function closeBuildNetwork(engine: Engine, installationId: string, buildId: string, withinMs: number) {
  const name = buildNetworkName(installationId, buildId);
  const end = performance.now() + withinMs;
  for (;;) {
    await closeNetwork(engine, name);
    if ((await engine.callUnless([404], "GET", `/networks/${name}`)) === undefined) return;
    if (performance.now() > end) return;
    // The engine needs a moment to kill the running step of a build whose connection was closed.
    await sleep(100);
  }
}

function open(engine: Engine, name: string, given: Record<string, string>): Promise<string> {
  return inTurn(name, async () => {
    if ((await engine.callUnless([404], "GET", `/networks/${name}`)) !== undefined) return name;
    await createNetwork(engine, { Name: name, CheckDuplicate: true, Driver: "bridge", Labels: given });
    return name;
  });
}

/** 256 networks of /24, for when the engine's own pools are used up by the 31st workspace or by other bridges on the machine. */
const spareSpace = Array.from({ length: 256 }, (_, index) => `10.199.${index}.0/24`);

/** 409: another call has created it in the meantime. */
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
    `${lacking.message}: the engine has no addresses left for another network. Add 'default-address-pools' to its daemon.json, or remove unused networks`,
  );
}

/** Matches the engine's messages: its pools are used up, or the requested subnet overlaps with an existing one. */
const isSpaceLacking = (error: unknown): error is EngineError =>
  error instanceof EngineError && /address pool|overlap/i.test(error.message);

/** Removes a network unless it has a container, including stopped ones, which could not start again without it. */
export async function closeNetwork(engine: Engine, name: string, isUnused = () => true): Promise<void> {
  const query = { all: true, filters: { network: [name] } };
  await inTurn(name, async () => {
    if (!isUnused() || (await engine.call<unknown[]>("GET", "/containers/json", { query })).length > 0) return;
    // 403: a container has joined in the meantime.
    await engine.callUnless([403, 404], "DELETE", `/networks/${name}`);
  });
}
