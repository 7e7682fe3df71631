import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import type { AddressInfo } from "node:net";
import { sql } from "kysely";
import type { TSchema } from "typebox";
import { exampleOf } from "../../src/api/example.ts";
import { epochHeader } from "../../src/contract/assignment.ts";
import { createDeploymentExample } from "../../src/contract/examples.ts";
import type { Operation } from "../../src/contract/operation.ts";
import type { OperationId, operations } from "../../src/contract/operations.ts";
import { explainDeployment } from "../../src/reconciler/explain.ts";
import { revokeApiKey } from "../../src/store/api-keys.ts";
import { startApi, type Tenant } from "./harness.ts";

/** A tenant with what it may call with and what it owns; `mark` is in every text of its own that an answer could show. */
export interface Owner extends Tenant {
  mark: string;
  listenerId: string;
  listenerKey: string;
}

export type Ids = Record<string, string>;

/** A server on a socket, two organizations that know nothing of each other, and how to make each thing they can own. */
export async function startWorld() {
  const t = await startApi({}, { explain: (id) => explainDeployment(t.db, id) });
  await t.api.listen({ host: "127.0.0.1", port: 0 });
  const base = `http://127.0.0.1:${(t.api.server.address() as AddressInfo).port}`;

  const call = async (key: string, verb: string, path: string, body?: unknown, headers = {}) => {
    const answer = await fetch(base + path, {
      method: verb,
      headers: { "x-api-key": key, ...headers },
      ...(body !== undefined && { body: JSON.stringify(body) }),
    });
    const text = await answer.text();
    assert.ok(answer.ok, `${verb} ${path}: ${answer.status} ${text}`);
    return text === "" ? null : JSON.parse(text);
  };

  const makeListener = (key: string, mark: string) =>
    call(key, "POST", "/v2/listeners", {
      compute_type: "k8s",
      compute_id: `${mark}-${randomUUID()}`,
      compute_config: { k8s_namespaces: ["agents"] },
    });

  const makeOwner = async (tenant: Tenant, mark: string): Promise<Owner> => {
    const listener = await makeListener(tenant.adminKey, mark);
    return { ...tenant, mark, listenerId: listener.id, listenerKey: listener.listener_key };
  };

  /**
   * How to make what a parameter of that name names, for an owner. An operation with another parameter fails the matrix
   * until its name is here. `ids` holds what was made before, in the order of the parameters.
   */
  const makers: Record<string, (owner: Owner, ids: Ids, operation: Operation) => Promise<string>> = {
    deployment_id: async ({ adminKey, mark, listenerId }, _ids, { audience }) => {
      const source = audience === "listener" ? onListener(listenerId) : {};
      const secrets = [{ name: "KEY", value: `${mark} ${secretText}` }];
      const body = { ...createDeploymentExample, ...source, name: `${mark} ${randomUUID()}`, secrets };
      return (await call(adminKey, "POST", "/v2/deployments", body)).id;
    },
    revision_id: async ({ adminKey }, ids) =>
      (await call(adminKey, "GET", `/v2/deployments/${ids["deployment_id"]}`)).latest_revision_id,
    upload_id: async ({ adminKey }) => {
      const body = { name: randomUUID(), source: "internal_source", source_config: {}, source_revision_config: {} };
      const { id } = await call(adminKey, "POST", "/v2/deployments", body);
      const { upload_url } = await call(adminKey, "POST", `/v2/deployments/${id}/upload-url`);
      return new URL(upload_url).pathname.split("/").at(-1) ?? "";
    },
    secret_set_id: async (_owner, ids) => {
      const { rows } = await sql<{ secret_set_id: string }>`
        select secret_set_id from deployments where id = ${ids["deployment_id"]}`.execute(t.db.kysely);
      return rows[0]?.secret_set_id ?? "";
    },
    listener_id: async ({ adminKey, mark }) => (await makeListener(adminKey, mark)).id,
    organization_id: async ({ organizationId }) => organizationId,
    workspace_id: async ({ tenantId }) => tenantId,
    api_key_id: async ({ adminKey, mark }) =>
      (await call(adminKey, "POST", "/v2/admin/api-keys", { name: mark, role: "reader" })).id,
    member_id: async ({ adminKey, mark }) =>
      (await call(adminKey, "POST", "/v2/admin/members", { email: `${randomUUID()}@${mark}`, role: "reader" })).id,
    tag_id: async ({ adminKey, mark, tenantId }) => {
      // A workspace has 50 at most: those of requests that are over make room.
      await sql`delete from tag_keys where tenant_id = ${tenantId} and id not in
        (select id from tag_keys where tenant_id = ${tenantId} order by created_at desc limit 20)`.execute(t.db.kysely);
      return (await call(adminKey, "POST", "/v2/admin/tags", { name: `${mark} ${randomUUID()}` })).id;
    },
    tag_value_id: async ({ adminKey, mark }, ids) =>
      (await call(adminKey, "POST", `/v2/admin/tags/${ids["tag_id"]}/values`, { name: mark })).id,
  };

  /** Makes one of each thing that an operation names, for itself alone. */
  const make = async (operation: Operation, owner: Owner): Promise<Ids> => {
    const ids: Ids = {};
    for (const name of namesOf(operation, (optional) => optional in makers)) {
      const maker = makers[name];
      assert.ok(
        maker,
        `${operation.id} takes ${name}: say in test/api/access-world.ts (makers) how to make what it names`,
      );
      ids[name] = await maker(owner, ids, operation);
    }
    return ids;
  };

  /** Headers that the protocol of listeners needs: the epoch of a session that lives. */
  const headersOf = async (operation: Operation, owner: Owner): Promise<Record<string, string>> => {
    if (operation.role !== "listener") return {};
    const { epoch } = await call(owner.listenerKey, "POST", "/dp/v1/sessions", sessionRequest);
    return { [epochHeader]: String(epoch) };
  };

  const revokedKey = async () => {
    const key = await t.mintKey();
    const { rows } = await sql<{ id: string }>`select id from api_keys where prefix = ${key.split("_")[1]}`.execute(
      t.db.kysely,
    );
    const reach = { organizationId: t.tenant.organizationId, workspaceId: null };
    assert.ok(await revokeApiKey(t.db, reach, rows[0]?.id ?? "", "test"));
    return key;
  };

  const mine = await makeOwner(t.tenant, "mine-alone");
  const theirs = await makeOwner(t.stranger, "theirs-alone");
  /** Every row that any of these ids names, as text. */
  const rowsOf = async (ids: Ids): Promise<string[]> => {
    const { rows: tables } = await sql<{ name: string }>`
      select table_name as name from information_schema.columns
       where table_schema = 'public' and column_name = 'id' and data_type = 'uuid'`.execute(t.db.kysely);
    const found = tables.map(({ name }) =>
      sql<{ row: string }>`select one::text as row from ${sql.table(name)} one
         where id = any(${Object.values(ids)}::uuid[]) order by 1`.execute(t.db.kysely),
    );
    return (await Promise.all(found)).flatMap(({ rows }) => rows.map(({ row }) => row));
  };

  return { t, base, mine, theirs, make, headersOf, revokedKey, rowsOf };
}

function onListener(listenerId: string) {
  return {
    source: "external_docker",
    source_config: { listener_id: listenerId },
    source_revision_config: { image_uri: "registry.example/agent:1" },
  };
}

/** What an operation needs beside its ids to answer its owner with success, where the example of its schema is not it. */
interface Sample {
  body?: (owner: Owner) => unknown;
  /** The refusal that is the right answer to a thing fresh made: the matrix asks who gets it, not what it does. */
  refusal?: (typeof operations)[OperationId]["errors"][number];
}

/** In the value of every secret: shown to nobody who may only read. */
export const secretText = "sk-never-shown";

export const samples: Partial<Record<OperationId, Sample>> = {
  createDeployment: { body: () => ({ ...createDeploymentExample, name: randomUUID() }) },
  createWorkspace: { body: () => ({ name: randomUUID() }) },
  createApiKey: { body: ({ tenantId }) => ({ name: "ci", role: "reader", workspace_id: tenantId }) },
  createMember: {
    body: ({ tenantId }) => ({ email: `${randomUUID()}@example.org`, role: "reader", workspace_id: tenantId }),
  },
  createTag: { body: () => ({ name: randomUUID() }) },
  patchTag: { body: () => ({ name: randomUUID() }) },
  putDeploymentTags: { body: () => ({ tag_value_ids: [] }) },
  // These are in use: what the owners of this matrix stand in.
  deleteOrganization: { refusal: "organizationInUse" },
  deleteWorkspace: { refusal: "workspaceInUse" },
  createListener: { body: () => ({ compute_type: "k8s", compute_id: randomUUID(), compute_config: {} }) },
  openListenerSession: { body: () => sessionRequest },
  // A fresh revision is still being made.
  redeployRevision: { refusal: "revisionInProgress" },
  // A URL has a signature of its own; without it nobody is let in, whoever he is.
  putUpload: { refusal: "uploadUrlInvalid" },
};

/** The same instance opens one session after the other without waiting. */
const sessionRequest = { instance_id: "matrix", version: "1", protocols: [1], compute_type: "k8s" };

interface Fields {
  properties?: Record<string, { default?: unknown; format?: string; items?: { format?: string } }>;
  required?: string[];
}

const fieldsOf = (schema: TSchema | null) => (schema ?? {}) as Fields;

/** Parameters of the path and the query that hold ids: all that are required, and of the others those that name things. */
function namesOf({ params, query }: Operation, isThing: (name: string) => boolean): string[] {
  return [params, query].flatMap((schema) => {
    const { properties = {}, required = [] } = fieldsOf(schema);
    const ids = Object.entries(properties).filter(([, field]) => (field.format ?? field.items?.format) === "uuid");
    const names = ids.filter(([name]) => required.includes(name) || isThing(name)).map(([name]) => name);
    return names.map((name) => name.replace(/_ids$/, "_id"));
  });
}

/** The request of an operation about these things. */
export function requestOf(operation: Operation, ids: Ids, owner: Owner): { path: string; body: string | null } {
  const { properties = {}, required = [] } = fieldsOf(operation.query);
  const query = new URLSearchParams();
  for (const [name, field] of Object.entries(properties)) {
    const id = ids[name.replace(/_ids$/, "_id")];
    const isNeeded = required.includes(name) && field.default === undefined;
    if (id !== undefined || isNeeded) query.set(name, id ?? String(exampleOf(field)));
  }
  const path = operation.path.replaceAll(/\{(\w+)\}/g, (_, name: string) => encodeURIComponent(ids[name] ?? ""));
  const sample = samples[operation.id as OperationId]?.body ?? (() => operation.body && exampleOf(operation.body));
  const body = operation.stream === null ? sample(owner) : "bytes";
  return {
    path: query.size === 0 ? path : `${path}?${query}`,
    body: body === null ? null : JSON.stringify(body),
  };
}
