import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { test } from "node:test";
import type { InjectOptions } from "fastify";
import { sql } from "kysely";
import type { Operation } from "../../src/contract/operation.ts";
import { operations } from "../../src/contract/operations.ts";
import { startApi } from "./harness.ts";

const t = await startApi();
const owner = t.tenant.adminKey;
const stranger = t.stranger.adminKey;

/** Operations on things of a workspace; a new one is in these tests without being named. */
const ofWorkspaces: Operation[] = Object.values(operations).filter(
  ({ role }) => role === "reader" || role === "deployer" || role === "admin",
);
/** The audit log may be asked for a deployment that is gone: there an unknown one is an empty page. */
const ofDeployments = ofWorkspaces.filter(
  ({ params, query, administers }) =>
    JSON.stringify([params, query]).includes('"deployment_id"') && administers === null,
);

/** Queries and bodies that pass the checks of shape, where an empty one does not. */
const queries: Partial<Record<string, string>> = { getRevisionLogs: "type=build", getDeploymentLogs: "type=deploy" };
const bodies: Partial<Record<string, object>> = {
  patchDeployment: { display_name: "taken over", source_revision_config: { repo_ref: "evil" } },
  patchDeploymentTier: { deployment_tier: "DEDICATED_M" },
  putDeploymentTags: { tag_value_ids: [] },
  createDeployment: { name: "x", source: "internal_docker", source_config: {}, source_revision_config: {} },
};

const listenerAnswer = await t.ask({
  method: "POST",
  url: "/v2/listeners",
  payload: { compute_type: "k8s", compute_id: "cluster", compute_config: {} },
});
const listenerId: string = listenerAnswer.body.id;
const tagAnswer = await t.ask({ method: "POST", url: "/v2/admin/tags", payload: { name: "team", values: ["a"] } });
const tagIds = { tag_id: tagAnswer.body.id, tag_value_id: tagAnswer.body.values[0].id };

function callOf({ id, verb, path, query, body }: Operation, deploymentId: string, revisionId: string): InjectOptions {
  const named = JSON.stringify(query).includes('"deployment_id"') ? `deployment_id=${deploymentId}` : "";
  const ids = { deployment_id: deploymentId, revision_id: revisionId, listener_id: listenerId, ...tagIds };
  const url = path.replaceAll(/\{(\w+)\}/g, (_, name: keyof typeof ids) => ids[name]);
  return {
    method: verb as "GET",
    url: `${url}?${queries[id] ?? named}`,
    ...(body !== null && { payload: bodies[id] ?? {} }),
  };
}

async function createDeployment(name: string) {
  const payload = {
    name,
    source: "github",
    source_config: { repo_url: "https://github.com/acme/bot", build_on_push: false },
    source_revision_config: { repo_ref: "main", langgraph_config_path: "langgraph.json" },
    secrets: [{ name: "KEY", value: "sk-hidden" }],
  };
  const { body } = await t.ask({ method: "POST", url: "/v2/deployments", payload });
  return body;
}

test("without a valid key every operation answers 401, whoever's ids are named", async () => {
  const { id, latest_revision_id } = await createDeployment("keyless");
  for (const operation of ofWorkspaces) {
    for (const key of [null, "ph_000000000000_0000000000000000000000000000000000000000000", owner.slice(0, -1)]) {
      const answer = await t.ask({ ...callOf(operation, id, latest_revision_id), key });
      assert.deepEqual([answer.status, answer.body], [401, { detail: "Invalid token" }], operation.id);
    }
  }
});

test("with another workspace's key every deployment answers exactly as an unknown one", async () => {
  const { id, latest_revision_id } = await createDeployment("hidden");
  const unknown = randomUUID();
  assert.ok(ofDeployments.length >= 15);
  for (const operation of ofDeployments) {
    const foreign = await t.ask({ ...callOf(operation, id, latest_revision_id), key: stranger });
    const absent = await t.ask({ ...callOf(operation, unknown, randomUUID()), key: stranger });
    assert.deepEqual([foreign.status, foreign.body], [404, { detail: `Deployment ID ${id} not found.` }], operation.id);
    assert.deepEqual([absent.status, absent.text.replace(unknown, id)], [404, foreign.text], operation.id);
  }
  assert.deepEqual((await t.ask({ url: "/v2/deployments?name=hidden", key: stranger })).body.resources, []);
  const after = await t.ask({ url: `/v2/deployments/${id}` });
  assert.deepEqual([after.body.display_name, after.body.latest_revision_id], [null, latest_revision_id]);
});

test("with the right key and another workspace's name every operation answers 403", async () => {
  const { id, latest_revision_id } = await createDeployment("named");
  for (const operation of ofWorkspaces) {
    const headers = { "x-tenant-id": t.stranger.tenantId };
    const answer = await t.ask({ ...callOf(operation, id, latest_revision_id), key: owner, headers });
    assert.deepEqual([answer.status, answer.body], [403, { detail: "API key tenant mismatch" }], operation.id);
  }
});

test("readers are let into what reads, and into nothing that writes", async () => {
  const { id, latest_revision_id } = await createDeployment("read");
  const key = await t.mintKey({ role: "reader" });
  for (const operation of ofWorkspaces) {
    const answer = await t.ask({ ...callOf(operation, id, latest_revision_id), key });
    const isReading = operation.role === "reader";
    assert.equal(answer.status, isReading ? 200 : 403, operation.id);
    assert.ok(!answer.text.includes("sk-hidden"), operation.id);
  }
});

test("a listener's key opens no operation on deployments, and a workspace's key none of the listener protocol", async () => {
  const { id, latest_revision_id } = await createDeployment("listened");
  const listenerKey = await t.mintKey({ role: "listener", isOrganizational: true, listenerId: t.deps.listenerId });
  const headers = { "x-tenant-id": t.tenant.tenantId };
  for (const operation of ofWorkspaces) {
    const answer = await t.ask({ ...callOf(operation, id, latest_revision_id), key: listenerKey, headers });
    assert.equal(answer.status, 403, operation.id);
  }
  for (const operation of Object.values(operations).filter(({ role }) => role === "listener")) {
    const answer = await t.ask({ ...callOf(operation, id, latest_revision_id), key: owner });
    assert.deepEqual(
      [answer.status, answer.body.detail],
      [403, "This call needs a key with the role 'listener'."],
      operation.id,
    );
  }
});

test("nothing of a secret's value is in any table", async () => {
  await createDeployment("sealed");
  for (const table of ["deployments", "revisions", "secret_sets", "audit_log", "events"]) {
    const { rows } = await sql<{ row: string }>`select t::text as row from ${sql.table(table)} t`.execute(t.db.kysely);
    assert.ok(!rows.some(({ row }) => row.includes("sk-hidden")), table);
  }
});
