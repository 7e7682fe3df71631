import assert from "node:assert/strict";
import { chmod, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { test } from "node:test";
import { ApiFailure, type Client, createClient } from "../../src/client/client.ts";
import type { Deployment } from "../../src/contract/deployments/deployment.ts";
import { type ServerProcess, startServerProcess } from "../storm/server-process.ts";
import { createAgentRepository, nodeAgent } from "../support/agent-repository.ts";
import { templateDirectory } from "../support/database-template.ts";
import { eventually } from "../support/eventually.ts";
import { fakeTimeEnvironment, fakeTimeSkipped, findFakeTime } from "../support/fake-time.ts";
import { findBinaries, postgresSkipped, startPostgresServer } from "../support/postgres-server.ts";
import { sharedCacheDir } from "../support/server.ts";

const timeoutMs = 180_000;
const hourS = 3_600;

/** Offsets from the real time in seconds, set in this order: jumps of 1 h forward, 2 h back, 25 h forward and 24 h back. */
const jumps = [hourS, -hourS, 24 * hourS, 0];

/** An agent whose build takes 3 s, so that the clock changes while the build runs. */
const slowly = {
  ...nodeAgent("x"),
  "pierhead.json": JSON.stringify({
    build: ["node", "-e", "setTimeout(() => {}, 3000)"],
    start: ["node", "server.js"],
  }),
};

interface Clockwork {
  server: ServerProcess;
  api: Client;
  set(offsetS: number): Promise<void>;
}

async function withClockwork(
  { library, postgres }: { library: string; postgres?: "right" | "set" },
  act: (world: Clockwork) => Promise<void>,
): Promise<void> {
  const directory = await mkdtemp(path.join(tmpdir(), "pierhead-clock-"));
  // PostgreSQL runs as another user, which must be able to reach the offset file.
  await chmod(directory, 0o711);
  const file = path.join(directory, "offset");
  const set = (offsetS: number) => writeFile(file, `${offsetS < 0 ? "" : "+"}${offsetS}`);
  await using stop = new AsyncDisposableStack();
  stop.defer(() => rm(directory, { recursive: true, force: true }));
  await set(0);
  const faked = fakeTimeEnvironment(library, file);
  const database = postgres && (await startPostgresServer(postgres === "set" ? { environment: faked } : {}));
  stop.defer(async () => database?.stop());
  const server = (await startServerProcess(path.join(directory, "data"), {
    ...{ PORT: "0", PIERHEAD_CACHE_DIR: sharedCacheDir, PIERHEAD_DATABASE_TEMPLATE_DIR: await templateDirectory() },
    ...(database && { DATABASE_URL: database.url }),
    ...(postgres !== "set" && faked),
  })) as ServerProcess;
  stop.defer(() => server.stop());
  const api = createClient({ baseUrl: server.url, apiKey: server.apiKey });
  stop.defer(() => deleteAll(api));
  await act({ server, api, set });
}

/** Deletes all deployments, because agents outlive their server. Polls each one until 404: lists omit deletions in progress. */
async function deleteAll(api: Client): Promise<void> {
  for (const { id } of (await api.listDeployments()).resources) {
    await api.deleteDeployment({ deployment_id: id });
    const isGone = () =>
      api.getDeployment({ deployment_id: id }).then(
        () => false,
        (error: unknown) => error instanceof ApiFailure && error.status === 404,
      );
    await eventually(isGone, (gone) => gone, { timeoutMs, what: "the deletion of a deployment" });
  }
}

const create = (api: Client, name: string, repoUrl: string, ref: string): Promise<Deployment> =>
  api.createDeployment({
    body: {
      ...{ name, source: "github" },
      source_config: { repo_url: repoUrl, build_on_push: false, deployment_type: "dev" },
      source_revision_config: { repo_ref: ref, langgraph_config_path: "pierhead.json" },
    },
  });

async function jumpUnderDeploys({ server, api, set }: Clockwork): Promise<void> {
  await using repository = await createAgentRepository(nodeAgent("one"));
  const serving = await create(api, "serving", repository.url, "main");
  const first = { deployment_id: serving.id, revision_id: serving.latest_revision_id as string };
  assert.equal((await api.waitForRevision(first, { timeoutMs })).status, "DEPLOYED");
  const session = await startSession(server);
  const made = [serving];
  for (const [index, offsetS] of jumps.entries()) {
    // Each deployment gets its own commit, because deployments of the same commit would share one build.
    const ref = await repository.commit({ ...slowly, "turn.txt": String(index) });
    const deployment = await create(api, `agent-${index}`, repository.url, ref);
    made.push(deployment);
    const ids = { deployment_id: deployment.id, revision_id: deployment.latest_revision_id as string };
    await eventually(
      () => api.getRevision(ids),
      ({ status }) => status !== "CREATING" && status !== "QUEUED" && status !== "AWAITING_BUILD",
      { timeoutMs, what: "a build in progress" },
    );
    await set(offsetS);
    const { status, status_message: message } = await api.waitForRevision(ids, { timeoutMs });
    assert.equal(status, "DEPLOYED", `after ${offsetS} s: ${message}`);
    await onceEach(api, deployment.id);
    assert.equal((await fetch(`${server.url}${new URL(serving.url ?? "").pathname}/version`)).status, 200);
    assert.equal(await session(), 200, "the session must stay valid");
  }
  await pagesHold(api, made);
}

/** Asserts that the only revision took each step once, so no lease expired and no deadline passed during the rollout. */
async function onceEach(api: Client, id: string): Promise<void> {
  const { events } = await api.listEvents({ deployment_ids: [id], order: "asc", limit: 1_000 });
  const moves = events.flatMap(({ type, data }) => (type === "revision.status" ? [String(data["to"])] : []));
  assert.deepEqual(moves.toSorted(), [...new Set(moves)].toSorted());
  const { resources } = await api.listRevisions({ deployment_id: id });
  assert.equal(resources.length, 1);
}

/** Asserts that paging through the list returns each deployment once, whatever its timestamps are. */
async function pagesHold(api: Client, made: Deployment[]): Promise<void> {
  for (const sort_by of ["created_at", "updated_at", "name"] as const) {
    const seen: string[] = [];
    for (let offset = 0; ; offset += 2) {
      const { resources } = await api.listDeployments({ sort_by, limit: 2, offset });
      seen.push(...resources.map(({ id }) => id));
      if (resources.length < 2) break;
    }
    assert.deepEqual(seen.toSorted(), made.map(({ id }) => id).toSorted(), sort_by);
  }
}

/** Signs in as a browser does. Returns a function that sends a request with the cookie and returns its status. */
async function startSession({ url, apiKey }: ServerProcess): Promise<() => Promise<number>> {
  const fromConsole = { "x-pierhead-console": "1" };
  const headers = { ...fromConsole, "content-type": "application/json" };
  const body = JSON.stringify({ api_key: apiKey });
  const opened = await fetch(`${url}/v2/session`, { method: "POST", headers, body });
  assert.equal(opened.status, 200);
  const cookie = opened.headers.getSetCookie()[0]?.split(";")[0] ?? "";
  return async () => (await fetch(`${url}/v2/deployments`, { headers: { ...fromConsole, cookie } })).status;
}

test("deploys, sessions and lists survive clock jumps of the machine", async (context) => {
  const library = findFakeTime();
  if (library === undefined) return context.skip(fakeTimeSkipped);
  await withClockwork({ library }, jumpUnderDeploys);
});

test("deploys, sessions and lists survive clock jumps of a server with an external PostgreSQL", async (context) => {
  const library = findFakeTime();
  if (library === undefined) return context.skip(fakeTimeSkipped);
  if (findBinaries() === undefined) return context.skip(postgresSkipped);
  await withClockwork({ library, postgres: "right" }, jumpUnderDeploys);
});

test("deploys, sessions and lists survive clock jumps of the PostgreSQL machine", async (context) => {
  const library = findFakeTime();
  if (library === undefined) return context.skip(fakeTimeSkipped);
  if (findBinaries() === undefined) return context.skip(postgresSkipped);
  await withClockwork({ library, postgres: "set" }, jumpUnderDeploys);
});
