import { randomUUID } from "node:crypto";
import { mkdir, mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { epochHeader } from "../../src/contract/listeners/assignment.ts";
import { ensureTemplate } from "../../src/store/engine/embedded/prepare-directory.ts";
import { type ServerProcess, startServerProcess } from "../storm/server-process.ts";
import { type Call, makeListener, thingMakers } from "../support/call-api.ts";
import { loopWatch } from "../support/event-loop.ts";
import type { FuzzRequest, KeyName } from "./requests.ts";

/** Starts a server for the requests, on a directory of its own, with simulated agents and no access to the outside. */
export async function startTarget() {
  const directory = await mkdtemp(path.join(tmpdir(), "pierhead-fuzz-"));
  const [dataDir, templatesDir] = [path.join(directory, "data"), path.join(directory, "templates")];
  await mkdir(templatesDir);
  const emptyDatabaseDir = path.resolve("node_modules/.cache/pierhead");
  await mkdir(emptyDatabaseDir, { recursive: true });
  await ensureTemplate(emptyDatabaseDir);
  const loop = loopWatch(directory);
  const server = (await startServerProcess(dataDir, {
    ...loop.environment,
    PORT: "0",
    PIERHEAD_COMPUTE: "simulated",
    PIERHEAD_TEMPLATES_DIR: templatesDir,
    PIERHEAD_DATABASE_TEMPLATE_DIR: emptyDatabaseDir,
    PIERHEAD_ALLOW_LOCAL_SOURCES: "false",
    PIERHEAD_ALLOW_PRIVATE_NETWORK: "false",
    PIERHEAD_RATE_LIMIT: "0",
    // No program that the server starts can reach another host, whatever a request names.
    ...Object.fromEntries(["http_proxy", "https_proxy", "all_proxy"].map((name) => [name, "http://127.0.0.1:1"])),
  })) as ServerProcess;
  const callAs = callsOf(server.url);
  const call = callAs(server.apiKey);
  const keys = await makeKeys(call, server);
  const listener = await makeListener(call, "fuzz");
  const epoch = { now: 0 };
  return {
    server,
    loop,
    dataDir,
    origin: new URL(server.url),
    things: new ResourcePool(call),
    /** The authentication headers. */
    identify: ({ key, operation }: FuzzRequest): Record<string, string> => {
      if (key === "none") return {};
      if (key === "bearer") return { authorization: `Bearer ${server.apiKey}` };
      if (key !== "listener") return { "x-api-key": keys[key] };
      const session = operation?.role === "listener" ? { [epochHeader]: String(epoch.now) } : {};
      return { "x-api-key": listener.listener_key, ...session };
    },
    /** Records each opened session, because it makes the earlier ones stale. */
    opened: (newest: number) => {
      epoch.now = Math.max(epoch.now, newest);
    },
    remove: () => rm(directory, { recursive: true, force: true }),
  };
}

export type Target = Awaited<ReturnType<typeof startTarget>>;

function callsOf(url: string) {
  return (key: string): Call =>
    async (verb, target, body) => {
      const payload = body === undefined ? {} : { body: JSON.stringify(body) };
      const answer = await fetch(url + target, { method: verb, headers: { "x-api-key": key }, ...payload });
      const text = await answer.text();
      if (!answer.ok) throw new Error(`${verb} ${target}: ${answer.status} ${text}`);
      return text === "" ? null : JSON.parse(text);
    };
}

async function makeKeys(
  call: Call,
  server: ServerProcess,
): Promise<Record<Exclude<KeyName, "none" | "bearer" | "listener">, string>> {
  const mint = async (role: string) => (await call("POST", "/v2/admin/api-keys", { name: "fuzz", role })).key as string;
  return {
    admin: server.apiKey,
    deployer: await mint("deployer"),
    reader: await mint("reader"),
    bad: `ph_000000000000_${"0".repeat(43)}`,
  };
}

/** Resources that requests use: a few of each kind, created on first use and again after they were deleted. */
class ResourcePool {
  readonly #call: Call;
  readonly #slots = new Map<string, Promise<string>>();

  constructor(call: Call) {
    this.#call = call;
  }

  /** Puts ids into the placeholders of a path: `<deployment_id:3>`. */
  async fill(target: string): Promise<string> {
    const ids: Record<string, string> = {};
    for (const [, name = "", slot = ""] of target.matchAll(/<(\w+):(\d+)>/g))
      ids[name] = await this.#find(name, slot, ids);
    return target.replaceAll(/<(\w+):\d+>/g, (_, name: string) => ids[name] ?? "");
  }

  /** Forgets a deleted resource and what belonged to it. */
  forget(target: string): void {
    for (const [, , slot] of target.matchAll(/<(\w+):(\d+)>/g)) {
      for (const key of this.#slots.keys()) if (key.endsWith(`:${slot}`)) this.#slots.delete(key);
    }
  }

  #find(name: string, slot: string, ids: Record<string, string>): Promise<string> {
    const key = `${name}:${slot}`;
    const made = this.#slots.get(key) ?? this.#make(name, { ...ids }).catch(() => randomUUID());
    this.#slots.set(key, made);
    return made;
  }

  async #make(name: string, ids: Record<string, string>): Promise<string> {
    if (name === "organization_id") return (await this.#call("POST", "/v2/admin/organizations", { name: "fuzz" })).id;
    // Never use the workspace that the run works in, because a request may disable or delete it.
    if (name === "workspace_id") return (await this.#call("POST", "/v2/admin/workspaces", { name: randomUUID() })).id;
    if (name === "upload_path") {
      const { upload_url } = await this.#call("POST", `/v2/deployments/${await this.#source()}/upload-url`);
      const { pathname, search } = new URL(upload_url);
      return pathname + search;
    }
    const make = thingMakers[name];
    if (make === undefined) throw new RangeError(`define in test/support/call-api.ts how to make what ${name} names`);
    return make({ call: this.#call, mark: "fuzz", ids });
  }

  async #source(): Promise<string> {
    const config = { source_config: {}, source_revision_config: {} };
    return (await this.#call("POST", "/v2/deployments", { name: randomUUID(), source: "internal_source", ...config }))
      .id;
  }
}
