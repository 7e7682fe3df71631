import { randomBytes, randomUUID } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import { gzipSync } from "node:zlib";
import { type Client, createClient } from "../src/client/client.ts";
import { nodeAgent } from "../test/support/agent-repository.ts";
import { eventually } from "../test/support/eventually.ts";

/** What an attack of one workspace works with. It travels to the attacker's process as JSON. */
export interface AttackSite {
  url: string;
  /** An admin key of the attacker's workspace. */
  apiKey: string;
  repositoryUrl: string;
  /** Commits of agents: one whose build hangs, one that logs without end, one that answers late. */
  commits: { hanging: string[]; logging: string; slow: string };
}

/** Begins an attack and returns once it is in force. It goes on until `signal` aborts. */
type Attack = (site: AttackSite, signal: AbortSignal) => Promise<void>;

const timeoutMs = 120_000;

/** Connections of an attack: more than the server has cores, fewer than would only measure the load generator. */
const connections = 8;

/** Requests that a key may send at once by default (PIERHEAD_RATE_LIMIT_BURST). The attack goes on beyond them. */
export const burst = 5_000;

/** The ways in which a workspace does its worst. */
export const attacks = {
  bodies: async (site, signal) => {
    // Valid JSON of the largest size that the API reads, in a shape that no operation accepts.
    const body = JSON.stringify({
      name: "x",
      secrets: Array.from({ length: 150_000 }, () => ({ name: "a", value: "b" })),
    });
    await repeat(signal, connections / 2, () => send(site, "/v2/deployments", { method: "POST", body, signal }));
  },
  streams: async (site, signal) => {
    const api = clientOf(site);
    const keys = await Promise.all([1, 2].map(() => api.createApiKey({ body: { name: "reader", role: "reader" } })));
    const open = async ({ key }: { key?: unknown }) => {
      const headers = { "x-api-key": key as string, accept: "text/event-stream" };
      const answer = await fetch(`${site.url}/v2/events`, { headers, signal });
      void answer.text().catch(() => {});
    };
    for (let round = 0; round < 8; round += 1) {
      await Promise.all(keys.flatMap((key) => Array.from({ length: 50 }, () => open(key))));
    }
  },
  builds: async (site) => {
    const api = clientOf(site);
    const ids: string[] = [];
    for (const commit of site.commits.hanging) ids.push((await createAgent(api, site, commit)).id);
    const begun = async () => {
      const { resources } = await api.listDeployments({ limit: 100 });
      const revisions = resources.filter(({ id }) => ids.includes(id)).map(({ id }) => newest(api, id));
      return (await Promise.all(revisions)).filter((status) => status === "BUILDING").length;
    };
    await eventually(begun, (count) => count > 0, { timeoutMs, what: "a build that hangs" });
  },
  uploads: async (site, signal) => {
    const api = clientOf(site);
    const body = {
      name: randomUUID(),
      source: "internal_source" as const,
      source_config: {},
      source_revision_config: {},
    };
    const { id } = await api.createDeployment({ body });
    const archive = gzipSync(randomBytes(8 * 1024 * 1024));
    await repeat(signal, connections / 2, async () => {
      const made = await send(site, `/v2/deployments/${id}/upload-url`, { method: "POST", signal });
      const { upload_url: url } = JSON.parse(made) as { upload_url?: string };
      if (url !== undefined) await fetch(url, { method: "PUT", body: archive, signal }).then((answer) => answer.text());
    });
  },
  logs: async (site) => {
    const api = clientOf(site);
    await deployed(api, await createAgent(api, site, site.commits.logging));
  },
  "agent calls": async (site, signal) => {
    const api = clientOf(site);
    const { id } = await deployed(api, await createAgent(api, site, site.commits.slow));
    const { url } = await api.getDeployment({ deployment_id: id });
    const call = () =>
      fetch(`${site.url}${new URL(url ?? "").pathname}?ms=5000`, { signal }).then((answer) => answer.text());
    await repeat(signal, 200, call, { isCounted: false });
  },
  "API rate": (site, signal) =>
    repeat(signal, connections, () => send(site, "/v2/deployments?limit=1", { signal }), { answers: burst + 500 }),
} satisfies Record<string, Attack>;

export type AttackName = keyof typeof attacks;

/** Repeats an action on `count` connections until the signal aborts. Resolves after `answers` calls, by default one per connection. */
async function repeat(
  signal: AbortSignal,
  count: number,
  act: () => Promise<unknown>,
  { isCounted = true, answers = count } = {},
): Promise<void> {
  const begun = Promise.withResolvers<void>();
  let answered = 0;
  const loop = async () => {
    while (!signal.aborted) {
      await act().catch(() => sleep(10));
      answered += 1;
      if (answered >= answers) begun.resolve();
    }
  };
  for (let index = 0; index < count; index += 1) void loop();
  if (!isCounted) return sleep(500);
  await Promise.race([begun.promise, sleep(30_000, undefined, { ref: false })]);
}

async function send(site: AttackSite, path: string, options: RequestInit): Promise<string> {
  const headers = { "x-api-key": site.apiKey, "content-type": "application/json" };
  return fetch(site.url + path, { ...options, headers }).then((answer) => answer.text());
}

const clientOf = ({ url, apiKey }: AttackSite): Client => createClient({ baseUrl: url, apiKey });

/** Creates a deployment of a commit. */
export const createAgent = (api: Client, { repositoryUrl }: Pick<AttackSite, "repositoryUrl">, commit: string) =>
  api.createDeployment({
    body: {
      ...{ name: `bench-${randomUUID()}`, source: "github" },
      source_config: { repo_url: repositoryUrl, deployment_type: "dev", build_on_push: false },
      source_revision_config: { repo_ref: commit, langgraph_config_path: "pierhead.json" },
    },
  });

async function deployed(
  api: Client,
  { id, latest_revision_id: revisionId }: { id: string; latest_revision_id?: unknown },
) {
  await api.waitForRevision({ deployment_id: id, revision_id: revisionId as string }, { timeoutMs });
  return { id };
}

/** Returns the status of the newest revision. */
export const newest = async (api: Client, id: string) =>
  (await api.listRevisions({ deployment_id: id, limit: 1 })).resources[0]?.status;

const hangingBuild = JSON.stringify({
  build: ["node", "-e", "setTimeout(() => {}, 3600000)"],
  start: ["node", "server.js"],
});

/** Returns the files of the agents that the attacks deploy. */
export function attackFiles(): { hanging: () => Record<string, string>; logging: Record<string, string> } {
  const { "server.js": server, ...rest } = nodeAgent(randomUUID());
  // 20,000 lines a second: ten times what the listener reads from one replica.
  const flood = `setInterval(() => { for (let n = 0; n < 400; n += 1) console.log("a line of a flood " + n); }, 20);`;
  return {
    hanging: () => ({ ...nodeAgent(randomUUID()), "pierhead.json": hangingBuild }),
    logging: { ...rest, "server.js": `${server}\n${flood}` },
  };
}
