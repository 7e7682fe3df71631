import assert from "node:assert/strict";
import { setTimeout as sleep } from "node:timers/promises";
import { gzipSync } from "node:zlib";
import { ApiFailure, type Client, createClient, ServerUnreachable } from "../../src/client/client.ts";
import type { Deployment } from "../../src/contract/deployments/deployment.ts";
import type { Revision } from "../../src/contract/revisions/revision.ts";
import { type AgentRepository, nodeAgent } from "../support/agent-repository.ts";
import { eventually } from "../support/eventually.ts";
import { type Received, startReceiver } from "../webhooks/receiver.ts";
import type { ServerProcess } from "./server-process.ts";

/** A server that restarts: `call` continues on the next one when this one dies. */
export interface Survivor {
  current(): ServerProcess;
  /** Resolves once a server answers again. */
  revive(): Promise<void>;
  /** Called when nothing is in progress. */
  settled(): void;
}

export const settleTimeoutMs = 120_000;

/**
 * Drives a deployment's whole life as a careful client does: when a call gets no answer, the client checks
 * whether it was accepted and repeats it if not. Deletes everything at the end. Throws when something was lost or done twice.
 */
export async function liveThrough(survivor: Survivor, repository: AgentRepository, name: string): Promise<void> {
  await using receiver = await startReceiver(() => ({ status: 200 }));
  const call = callOf(survivor);

  // A webhook receiver for every event.
  const webhook = await call((api) => webhookOnce(api, name, receiver.url));

  // The first deploy from git.
  const first = await repository.commit(nodeAgent(`${name}-1`));
  const source = { repo_url: repository.url, build_on_push: false };
  const made = await call((api) => createOnce(api, source, name, first));
  const id = made.deployment_id;
  await expectStatus(call, id, made.revision_id, "DEPLOYED");
  await expectVersion(survivor, call, id, `${name}-1`);

  // A new commit, while the old one serves.
  const second = await repository.commit(nodeAgent(`${name}-2`));
  await expectStatus(call, id, await call((api) => patchOnce(api, id, second)), "DEPLOYED");
  await expectVersion(survivor, call, id, `${name}-2`);

  // A build that fails, and one whose server never starts: the old revision keeps serving.
  const broken = await repository.commit({
    ...nodeAgent("x"),
    "pierhead.json": JSON.stringify({ build: ["node", "-e", "process.exit(7)"], start: ["node", "server.js"] }),
  });
  await expectStatus(call, id, await call((api) => patchOnce(api, id, broken)), "BUILD_FAILED");
  const dying = await repository.commit({ ...nodeAgent("x"), "server.js": "process.exit(9)" });
  await expectStatus(call, id, await call((api) => patchOnce(api, id, dying)), "DEPLOY_FAILED");
  await expectVersion(survivor, call, id, `${name}-2`);

  // A rollout that is stopped halfway: the data plane goes back to the revision that serves.
  const mute = await repository.commit({ ...nodeAgent("x"), "server.js": "setInterval(() => {}, 1000)" });
  const halfway = await call((api) => patchOnce(api, id, mute));
  await eventuallyStatus(call, id, halfway, ["DEPLOYING"]);
  await call((api) => interruptOnce(api, id, halfway));
  await expectStatus(call, id, halfway, "INTERRUPTED");
  await expectVersion(survivor, call, id, `${name}-2`);

  // Two revisions queue behind a long build, then the build is stopped. The older queued revision is skipped.
  const slow = await repository.commit({
    ...nodeAgent("x"),
    "pierhead.json": JSON.stringify({
      build: ["node", "-e", "setTimeout(() => {}, 600000)"],
      start: ["node", "server.js"],
    }),
  });
  const third = await repository.commit(nodeAgent(`${name}-3`));
  const stuck = await call((api) => patchOnce(api, id, slow));
  await eventuallyStatus(call, id, stuck, ["BUILDING"]);
  const skipped = await call((api) => patchOnce(api, id, second));
  await eventuallyStatus(call, id, skipped, ["QUEUED"]);
  const last = await call((api) => patchOnce(api, id, third));
  await eventuallyStatus(call, id, last, ["QUEUED"]);
  await call((api) => interruptOnce(api, id, stuck));
  await expectStatus(call, id, last, "DEPLOYED");
  await expectStatus(call, id, skipped, "SKIPPED");
  await expectStatus(call, id, stuck, "INTERRUPTED");
  await expectVersion(survivor, call, id, `${name}-3`);

  // An upload, then back to the first revision without a build.
  await call((api) => uploadOnce(api, id));
  const back = await call((api) => redeployOnce(api, id, made.revision_id));
  await expectStatus(call, id, back, "DEPLOYED");
  await expectVersion(survivor, call, id, `${name}-1`);

  const all = await call((api) => api.listRevisions({ deployment_id: id, limit: 100 }));
  assert.equal(all.resources.length, 9, `revisions were lost or made twice: ${all.resources.map((one) => one.status)}`);

  await call((api) => api.deleteDeployment({ deployment_id: id }).catch(ignoreGone));
  await call((api) => api.waitForDeletion({ deployment_id: id }, { timeoutMs: settleTimeoutMs }));
  await expectTold(call, id, receiver.received);
  await call((api) => api.deleteWebhook({ webhook_id: webhook }).catch(ignoreGone));
}

export type Call = <T>(act: (client: Client) => Promise<T>) => Promise<T>;

/** Calls the running server and repeats each call until it is answered. */
export function callOf(survivor: Survivor): Call {
  const client = () => createClient({ baseUrl: survivor.current().url, apiKey: survivor.current().apiKey });
  return (act) => persist(survivor, () => act(client()));
}

/** Repeats an unanswered action on the next server. The action itself avoids doing anything twice. */
export async function persist<T>(survivor: Survivor, act: () => Promise<T>): Promise<T> {
  for (let tries = 0; ; tries++) {
    try {
      return await act();
    } catch (error) {
      if (!(error instanceof ServerUnreachable) || tries > 20) throw error;
      await survivor.revive();
    }
  }
}

export async function createOnce(
  api: Client,
  source: { repo_url: string; build_on_push: boolean; integration_id?: string },
  name: string,
  ref: string,
) {
  const found = await findByName(api, name);
  const deployment =
    found ??
    (await api.createDeployment({
      body: {
        name,
        source: "github",
        source_config: { ...source, deployment_type: "dev" },
        source_revision_config: { repo_ref: ref, langgraph_config_path: "pierhead.json" },
        secrets: [{ name: "TOKEN", value: "storm-token" }],
      },
    }));
  assert.ok(deployment.latest_revision_id);
  return { deployment_id: deployment.id, revision_id: deployment.latest_revision_id };
}

async function findByName(api: Client, name: string): Promise<Deployment | undefined> {
  const page = await api.listDeployments({ name });
  return page.resources[0];
}

async function webhookOnce(api: Client, name: string, url: string): Promise<string> {
  const { resources } = await api.listWebhooks({ limit: 100 });
  const found = resources.find(({ description }) => description === name);
  return (found ?? (await api.createWebhook({ body: { url, description: name } }))).id;
}

/** Asserts that every event of the deployment arrived in order, and that repeated deliveries kept their id. */
async function expectTold(call: Call, deploymentId: string, received: readonly Received[]): Promise<void> {
  const question = { deployment_ids: [deploymentId], order: "desc" as const, limit: 1_000 };
  const { events } = await call((api) => api.listEvents(question));
  const happened = events.map(({ id }) => id).toReversed();
  assert.ok(happened.length > 30, `only ${happened.length} events`);
  const arrived = () => {
    const own = received.filter(({ message }) => message.data.deployment_id === deploymentId);
    return { own, ids: [...new Set(own.map(({ message }) => message.data.id as string))] };
  };
  // A dead server held its messages for as long as one attempt may take.
  const timeoutMs = settleTimeoutMs;
  await eventually(arrived, ({ ids }) => ids.length >= happened.length, { what: "the last message", timeoutMs });
  const { own, ids } = arrived();
  assert.deepEqual(ids, happened, "messages came out of order");
  assert.equal(new Set(own.map(({ id }) => id)).size, ids.length, "a message came again under another id");
}

/** Returns the revision of this commit that is newer than all others: the result of this patch. */
async function patchOnce(api: Client, id: string, ref: string): Promise<string> {
  const newest = await newestRevision(api, id);
  if (newest?.source_revision_config.repo_ref === ref) return newest.id;
  const patched = await api.patchDeployment({ deployment_id: id, body: { source_revision_config: { repo_ref: ref } } });
  assert.ok(patched.latest_revision_id);
  return patched.latest_revision_id;
}

async function redeployOnce(api: Client, id: string, revisionId: string): Promise<string> {
  const newest = await newestRevision(api, id);
  if (newest?.triggered_by === "redeploy") return newest.id;
  const redeployed = await api.redeployRevision({ deployment_id: id, revision_id: revisionId });
  assert.ok(redeployed.latest_revision_id);
  return redeployed.latest_revision_id;
}

async function interruptOnce(api: Client, id: string, revisionId: string): Promise<void> {
  const { status } = await api.getRevision({ deployment_id: id, revision_id: revisionId });
  if (status !== "INTERRUPTED") await api.interruptRevision({ deployment_id: id, revision_id: revisionId });
}

async function uploadOnce(api: Client, id: string): Promise<void> {
  const { upload_url: uploadUrl } = await api.createUploadUrl({ deployment_id: id });
  await api.uploadArchive(uploadUrl, new Blob([new Uint8Array(gzipSync(emptyTar()))]));
}

const emptyTar = () => Buffer.alloc(1024);

async function newestRevision(api: Client, id: string): Promise<Revision | undefined> {
  const page = await api.listRevisions({ deployment_id: id, limit: 1 });
  return page.resources[0];
}

export async function expectStatus(
  call: Call,
  id: string,
  revisionId: string,
  wanted: Revision["status"],
): Promise<void> {
  const revision = await call((api) =>
    api.waitForRevision({ deployment_id: id, revision_id: revisionId }, { timeoutMs: settleTimeoutMs }),
  );
  assert.equal(revision.status, wanted, revision.status_message ?? "");
  if (wanted.endsWith("FAILED")) assert.ok((revision.status_message ?? "").length > 10, "a failure says why");
}

async function eventuallyStatus(
  call: Call,
  id: string,
  revisionId: string,
  wanted: Revision["status"][],
): Promise<void> {
  const end = Date.now() + settleTimeoutMs;
  for (;;) {
    const { status } = await call((api) => api.getRevision({ deployment_id: id, revision_id: revisionId }));
    if (wanted.includes(status)) return;
    assert.ok(Date.now() < end, `revision is ${status}, never was ${wanted}`);
    await sleep(50);
  }
}

/** Asserts that the active revision answers through the gateway. */
export async function expectVersion(survivor: Survivor, call: Call, id: string, wanted: string): Promise<void> {
  const { url } = await call((api) => api.getDeployment({ deployment_id: id }));
  const { pathname } = new URL(url ?? "");
  const answer = await persist(survivor, async () => {
    const address = `${survivor.current().url}${pathname}/version`;
    const response = await fetch(address).catch((error: unknown) => {
      throw new ServerUnreachable(address, "the gateway is gone", { cause: error });
    });
    return { status: response.status, text: await response.text() };
  });
  assert.equal(answer.status, 200, answer.text);
  assert.equal(JSON.parse(answer.text).version, wanted);
  survivor.settled();
  const health = async () => (await call((api) => api.getDeployment({ deployment_id: id }))).health.status;
  const isKnown = (word: string) => {
    assert.notEqual(word, "failed", `${id} serves ${wanted}`);
    return word === "live" || word === "degraded";
  };
  await eventually(health, isKnown, { what: "the health of a deployment that serves", timeoutMs: settleTimeoutMs });
}

export function ignoreGone(error: unknown): void {
  if (!(error instanceof ApiFailure && error.status === 404)) throw error;
}
