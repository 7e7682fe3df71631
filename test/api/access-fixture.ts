import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import type { AddressInfo } from "node:net";
import type { TSchema } from "typebox";
import { exampleOf } from "../../src/api/documents/schema-example.ts";
import { createDeploymentExample } from "../../src/contract/examples.ts";
import { epochHeader } from "../../src/contract/listeners/assignment.ts";
import type { Operation } from "../../src/contract/operation.ts";
import type { OperationId, operations } from "../../src/contract/operations.ts";
import { explainDeployment } from "../../src/reconciler/plan/explain.ts";
import { recordAlerts } from "../../src/store/alerts/alerts.ts";
import { sql } from "../../src/store/engine/sql.ts";
import { revokeApiKey } from "../../src/store/tenants/api-keys.ts";
import { createWorkspace } from "../../src/store/tenants/tenants.ts";
import {
  type Call,
  type Ids,
  makeListener,
  namedThings,
  newProvider,
  secretText,
  thingMakers,
  userHeaders,
} from "../support/call-api.ts";
import { signServiceKey } from "../support/service-key.ts";
import { startApi, type Tenant } from "./harness.ts";

/** A tenant with its keys and resources; every text of its own that a response could show contains `mark`. */
export interface Owner extends Tenant {
  mark: string;
  listenerId: string;
  listenerKey: string;
}

const serviceSecret = "shared with a service: 32 characters";

/** Key of a service without a user. */
export const serviceKeyOf = (tenantId: string): string => {
  const claims = { sub: "tools", exp: Date.now() / 1_000 + 3_600, tenant_id: tenantId };
  return signServiceKey(claims, { secret: serviceSecret });
};

/** Starts a server on a socket with two unrelated organizations, and a way to make every resource they can own. */
export async function startAccessFixture() {
  const t = await startApi({ serviceSecret }, { explain: (id) => explainDeployment(t.db, id) });
  await t.api.listen({ host: "127.0.0.1", port: 0 });
  const base = `http://127.0.0.1:${(t.api.server.address() as AddressInfo).port}`;

  const callAs =
    (key: string): Call =>
    async (verb, path, body, headers = {}) => {
      const payload = body === undefined ? {} : { body: JSON.stringify(body) };
      const answer = await fetch(base + path, { method: verb, headers: { "x-api-key": key, ...headers }, ...payload });
      const text = await answer.text();
      assert.ok(answer.ok, `${verb} ${path}: ${answer.status} ${text}`);
      return text === "" ? null : JSON.parse(text);
    };

  const makeOwner = async (tenant: Tenant, mark: string): Promise<Owner> => {
    await createWorkspace(t.db, { organizationId: tenant.organizationId, name: "sibling" });
    const listener = await makeListener(callAs(tenant.adminKey), mark);
    return { ...tenant, mark, listenerId: listener.id, listenerKey: listener.listener_key };
  };

  /** Ids that every owner has, or that only the tables contain. */
  const known: Record<string, (owner: Owner, ids: Ids) => Promise<string>> = {
    organization_id: async ({ organizationId }) => organizationId,
    workspace_id: async ({ tenantId }) => tenantId,
    secret_set_id: async (_owner, ids) => {
      const { rows } = await t.db.query<{ secret_set_id: string }>(sql`
        select secret_set_id from deployments where id = ${ids["deployment_id"]}`);
      return rows[0]?.secret_set_id ?? "";
    },
    alert_id: async ({ tenantId, mark }) => {
      const [subjectId, subject] = [randomUUID(), `${mark} host`];
      const message = `The disk of ${subject} is full.`;
      await recordAlerts(t.db, [{ tenantId, deploymentId: null, subjectId, subject, kind: "disk_used", message }]);
      const { rows } = await t.db.query<{ id: string }>(sql`select id from alerts where subject_id = ${subjectId}`);
      return rows[0]?.id ?? "";
    },
  };

  const makeOne = async (name: string, { owner, ids, operation }: { owner: Owner; ids: Ids; operation: Operation }) => {
    const call = callAs(owner.adminKey);
    if (name === "deployment_id" && operation.audience === "listener") {
      return (await call("POST", "/v2/deployments", onListener(owner))).id;
    }
    if (name === "deployment_id" && operation.id === "createPushToken") {
      return (await call("POST", "/v2/deployments", ofPushedImages(owner))).id;
    }
    const make = thingMakers[name];
    const found = known[name]?.(owner, ids) ?? make?.({ call, mark: owner.mark, ids });
    assert.ok(found, `${operation.id} takes ${name}: define in test/support/call-api.ts how to make it`);
    return found;
  };

  const namesOf = (operation: Operation) =>
    namesIn(operation, (optional) => optional in thingMakers || optional in known);

  /** Makes one of each resource that an operation names, for this call only. */
  const make = async (operation: Operation, owner: Owner): Promise<Ids> => {
    const ids: Ids = {};
    for (const name of namesOf(operation)) {
      ids[name] = await makeOne(name, { owner, ids, operation });
    }
    return ids;
  };

  /**
   * Headers that the listener protocol needs, with the epoch of an open session, and that name the user whose tokens
   * are meant.
   */
  const headersOf = async (operation: Operation, owner: Owner): Promise<Record<string, string>> => {
    if (operation.tag === "Auth") return userHeaders(owner.mark);
    if (operation.role !== "listener") return {};
    const { epoch } = await callAs(owner.listenerKey)("POST", "/dp/v1/sessions", sessionRequest);
    return { [epochHeader]: String(epoch) };
  };

  const revokedKey = async () => {
    const key = await t.mintKey();
    const { rows } = await t.db.query<{ id: string }>(sql`select id from api_keys where prefix = ${key.split("_")[1]}`);
    const reach = { organizationId: t.tenant.organizationId, workspaceId: null };
    assert.ok(await revokeApiKey(t.db, reach, rows[0]?.id ?? "", "test"));
    return key;
  };

  const mine = await makeOwner(t.tenant, "mine-alone");
  const theirs = await makeOwner(t.stranger, "theirs-alone");
  /** Returns every row that contains one of these ids, as text, without the time that a key was last used, which any request sets. */
  const rowsOf = async (ids: Ids): Promise<string[]> => {
    const { rows: tables } = await t.db.query<{ name: string }>(sql`
      select table_name as name from information_schema.columns
       where table_schema = 'public' and column_name = 'id' and data_type = 'uuid'`);
    const found = tables.map(({ name }) =>
      t.db.query<{
        row: string;
      }>(sql`select (to_jsonb(one) - 'last_used_at')::text as row from ${sql.identifier(name)} one
         where exists (select 1 from unnest(${Object.values(ids)}::text[]) id where position(id in one::text) > 0)
         order by 1`),
    );
    return (await Promise.all(found)).flatMap(({ rows }) => rows.map(({ row }) => row));
  };

  return { t, base, mine, theirs, make, namesOf, headersOf, revokedKey, rowsOf };
}

function ofPushedImages({ mark }: Owner) {
  return { name: `${mark} ${randomUUID()}`, source: "internal_docker", source_config: {}, source_revision_config: {} };
}

function onListener({ mark, listenerId }: Owner) {
  return {
    name: `${mark} ${randomUUID()}`,
    source: "external_docker",
    source_config: { listener_id: listenerId },
    source_revision_config: { image_uri: "registry.example/agent:1" },
    secrets: [{ name: "KEY", value: `${mark} ${secretText}` }],
  };
}

/** What an operation needs besides its ids to succeed for its owner, where the example of its schema is not enough. */
interface Sample {
  body?: (owner: Owner) => unknown;
  query?: Record<string, string>;
  /** Error that is the correct response for a fresh resource: the matrix tests who gets it, not what it does. */
  refusal?: (typeof operations)[OperationId]["errors"][number];
}

export const samples: Partial<Record<OperationId, Sample>> = {
  createDeployment: { body: () => ({ ...createDeploymentExample, name: randomUUID() }) },
  callMcp: { body: () => ({ jsonrpc: "2.0", id: 1, method: "tools/list" }) },
  createWorkspace: { body: () => ({ name: randomUUID() }) },
  createApiKey: { body: ({ tenantId }) => ({ name: "ci", role: "reader", workspace_id: tenantId }) },
  createMember: {
    body: ({ tenantId }) => ({ email: `${randomUUID()}@example.org`, role: "reader", workspace_id: tenantId }),
  },
  createOAuthProvider: { body: newProvider },
  // The host does not answer. Only admitted callers get that error.
  discoverMcpProvider: {
    body: () => ({ provider_id: `mcp-${randomUUID()}`, name: "MCP", mcp_server_url: "http://127.0.0.1:1/mcp" }),
    refusal: "mcpDiscoveryFailed",
  },
  // The calling key is already the listener's own, so there is nothing to exchange.
  enrollListener: { refusal: "enrolled" },
  // A provider exists, but not with this name.
  authenticate: { refusal: "oauthProviderNotFound" },
  importOAuthToken: { refusal: "oauthProviderNotFound" },
  createAgentConnection: { refusal: "oauthTokenNotFound" },
  // No sign-in is in progress.
  finishAuthRequest: { refusal: "authRequestUnusable" },
  receiveCallback: { refusal: "authRequestUnusable" },
  receiveCallbackAlias: { refusal: "authRequestUnusable" },
  setupGithubApp: { refusal: "authRequestUnusable" },
  receiveGithubWebhook: { refusal: "webhookUnsigned" },
  receiveHostWebhook: { refusal: "webhookUnsigned" },
  // The host does not answer.
  findAgentProjects: { query: { repo_url: "https://127.0.0.1:1/acme/bot" }, refusal: "invalidField" },
  listGithubRepos: { refusal: "invalidField" },
  listForgeRepos: { refusal: "invalidField" },
  pageGithubRepositories: { refusal: "invalidField" },
  // This server has no GitHub App.
  createInstallationLink: { refusal: "githubAppMissing" },
  createForgeInstallationLink: { refusal: "githubAppMissing" },
  getPickerSession: { refusal: "pickerSessionNotFound" },
  selectInstallation: { refusal: "pickerSessionNotFound" },
  attachInstallation: { refusal: "githubAppMissing" },
  getGithubApp: { refusal: "githubAppMissing" },
  deleteGithubApp: { refusal: "githubAppMissing" },
  // No link has this state.
  showGithubAppForm: { refusal: "authRequestUnusable" },
  finishGithubApp: { refusal: "authRequestUnusable" },
  createTag: { body: () => ({ name: randomUUID() }) },
  patchTag: { body: () => ({ name: randomUUID() }) },
  createVariableGroup: { body: () => ({ name: randomUUID() }) },
  patchVariableGroup: { body: () => ({ name: randomUUID() }) },
  putDeploymentVariableGroups: { body: () => ({ variable_group_ids: [] }) },
  putDeploymentTags: { body: () => ({ tag_value_ids: [] }) },
  // These are in use, because the owners of this matrix belong to them.
  deleteOrganization: { refusal: "organizationInUse" },
  deleteWorkspace: { refusal: "workspaceInUse" },
  createListener: { body: () => ({ compute_type: "k8s", compute_id: randomUUID(), compute_config: {} }) },
  openListenerSession: { body: () => sessionRequest },
  // A fresh revision is still in progress.
  redeployRevision: { refusal: "revisionInProgress" },
  previewRollback: { refusal: "neverServed" },
  rollbackRevision: { refusal: "neverServed" },
  restartDeployment: { refusal: "revisionInProgress" },
  retryDeployment: { refusal: "nothingFailed" },
  scaleDeployment: { body: () => ({ min_replicas: 2 }) },
  // The request does not come from a page of the console.
  createSession: { refusal: "forbidden" },
  // No command line waits.
  startDeviceLogin: { refusal: "routeNotFound" },
  finishDeviceLogin: { refusal: "deviceLoginNotFound" },
  getDeviceLogin: { refusal: "deviceLoginNotFound" },
  decideDeviceLogin: { refusal: "deviceLoginNotFound" },
  // An administrator created the callers' keys.
  endDeviceLogin: { refusal: "forbidden" },
  // No sign-in is configured.
  beginSignIn: { refusal: "authRequestUnusable" },
  finishSignIn: { refusal: "authRequestUnusable" },
  detectSource: { body: () => ({ repo_url: "https://127.0.0.1:1/acme/bot" }), refusal: "codeHostFailed" },
  detectArchive: { refusal: "uploadBroken" },
  // The URL carries its own signature; without it, every caller is rejected.
  putUpload: { refusal: "uploadUrlInvalid" },
  getBuildContext: { refusal: "contextUrlInvalid" },
};

/** One instance opens session after session without waiting. */
const sessionRequest = { instance_id: "matrix", version: "1", protocols: [1], compute_type: "k8s" };

interface Fields {
  properties?: Record<string, { default?: unknown; format?: string; items?: { format?: string } }>;
  required?: string[];
}

const fieldsOf = (schema: TSchema | null) => (schema ?? {}) as Fields;

/**
 * Returns the parameters of path and query that hold ids: all required ones, and those optional ones that name a
 * resource.
 */
function namesIn({ params, query }: Operation, isThing: (name: string) => boolean): string[] {
  return [params, query].flatMap((schema) => {
    const { properties = {}, required = [] } = fieldsOf(schema);
    const ids = Object.entries(properties).filter(
      ([name, field]) => namedThings.has(name) || (field.format ?? field.items?.format) === "uuid",
    );
    const names = ids.filter(([name]) => required.includes(name) || isThing(name)).map(([name]) => name);
    return names.map((name) => name.replace(/_ids$/, "_id"));
  });
}

/** Returns the request of an operation for these resources. */
export function requestOf(operation: Operation, ids: Ids, owner: Owner): { path: string; body: string | null } {
  const { properties = {}, required = [] } = fieldsOf(operation.query);
  const query = new URLSearchParams();
  for (const [name, field] of Object.entries(properties)) {
    const id = ids[name.replace(/_ids$/, "_id")];
    const isNeeded = required.includes(name) && field.default === undefined;
    const given = samples[operation.id as OperationId]?.query?.[name];
    if (id !== undefined || isNeeded) query.set(name, id ?? given ?? String(exampleOf(field)));
  }
  const { properties: inPath = {} } = fieldsOf(operation.params);
  const path = operation.path.replaceAll(/\{(\w+)\}/g, (_, name: string) =>
    encodeURIComponent(ids[name] ?? String(exampleOf(inPath[name] ?? {}))),
  );
  const sample = samples[operation.id as OperationId]?.body ?? (() => operation.body && exampleOf(operation.body));
  const body = operation.stream === null ? sample(owner) : "bytes";
  return {
    path: query.size === 0 ? path : `${path}?${query}`,
    body: body === null ? null : JSON.stringify(body),
  };
}
