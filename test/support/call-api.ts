import { randomUUID } from "node:crypto";
import { createDeploymentExample } from "../../src/contract/examples.ts";

/** Calls the API, fails unless the call succeeds, and returns the response body. */
// biome-ignore lint/suspicious/noExplicitAny: answers of every shape.
export type Call = (verb: string, path: string, body?: unknown, headers?: Record<string, string>) => Promise<any>;

export type Ids = Record<string, string>;

export interface MakerContext {
  /** Calls as an admin of the workspace that owns the new object. */
  call: Call;
  /** Appears in every text of the object that a response could show. */
  mark: string;
  /** Objects already created for the same request, by parameter name. */
  ids: Ids;
}

/**
 * How to create the object that a parameter refers to. If an operation has an id parameter that is missing here, the tests
 * generated from the operations table fail.
 */
export const thingMakers: Record<string, (context: MakerContext) => Promise<string>> = {
  deployment_id: async ({ call, mark }) => {
    const secrets = [{ name: "KEY", value: `${mark} ${secretText}` }];
    return (await call("POST", "/v2/deployments", { ...deploymentNowhere, name: `${mark} ${randomUUID()}`, secrets }))
      .id;
  },
  revision_id: async ({ call, ids }) =>
    (await call("GET", `/v2/deployments/${ids["deployment_id"]}`)).latest_revision_id,
  upload_id: async ({ call }) => {
    const body = { name: randomUUID(), source: "internal_source", source_config: {}, source_revision_config: {} };
    const { id } = await call("POST", "/v2/deployments", body);
    const { upload_url } = await call("POST", `/v2/deployments/${id}/upload-url`);
    return new URL(upload_url).pathname.split("/").at(-1) ?? "";
  },
  // Builds are ordered by the reconciler only.
  build_id: async () => randomUUID(),
  // Alerts are raised by the reconciler only.
  alert_id: async ({ call }) => (await call("GET", "/v2/alerts?limit=1")).resources[0]?.id ?? randomUUID(),
  listener_id: async ({ call, mark }) => (await makeListener(call, mark)).id,
  api_key_id: async ({ call, mark }) => (await call("POST", "/v2/admin/api-keys", { name: mark, role: "reader" })).id,
  member_id: async ({ call, mark }) =>
    (await call("POST", "/v2/admin/members", { email: `${randomUUID()}@${mark}`, role: "reader" })).id,
  tag_id: async ({ call, mark }) => {
    await makeRoom(call, "/v2/admin/tags");
    return (await call("POST", "/v2/admin/tags", { name: `${mark} ${randomUUID()}` })).id;
  },
  provider_id: async ({ call, mark }) =>
    (await call("POST", "/v2/auth/providers", { ...newProvider(), name: mark })).provider_id,
  token_id: async ({ call, mark }) => (await importToken(call, mark)).token_id,
  connection_id: async ({ call, mark }) => {
    const { token_id: oauth_token_id } = await importToken(call, mark);
    const path = "/v2/auth/agents/support-bot/connections";
    return (await call("POST", path, { oauth_token_id }, userHeaders(mark))).id;
  },
  variable_group_id: async ({ call, mark }) => {
    await makeRoom(call, "/v2/variable-groups");
    const variables = [{ name: "KEY", value: secretText }];
    return (await call("POST", "/v2/variable-groups", { name: `${mark} ${randomUUID()}`, variables })).id;
  },
  webhook_id: async ({ call, mark }) => {
    await makeRoom(call, "/v2/webhooks");
    return (await call("POST", "/v2/webhooks", { url: `https://hooks.invalid/${mark}/${secretText}` })).id;
  },
  integration_id: async ({ call, mark }) => {
    await makeRoom(call, "/v2/integrations");
    return (await call("POST", "/v2/integrations", newIntegration(mark))).id;
  },
  delivery_id: async ({ call, ids }) => (await call("POST", `/v2/webhooks/${ids["webhook_id"]}/test`)).id,
  tag_value_id: async ({ call, mark, ids }) =>
    (await call("POST", `/v2/admin/tags/${ids["tag_id"]}/values`, { name: `${mark} ${randomUUID()}` })).id,
};

/** Parameters whose value is a name chosen by the owner, not an id. */
export const namedThings: ReadonlySet<string> = new Set(["provider_id"]);

async function importToken(call: Call, mark: string): Promise<{ token_id: string }> {
  const { provider_id } = await call("POST", "/v2/auth/providers", { ...newProvider(), name: mark });
  return call("POST", "/v2/auth/tokens/import", { provider_id, access_token: secretText }, userHeaders(mark));
}

/** Names the user whose OAuth tokens a request is about. */
export const userHeaders = (mark: string) => ({ "x-user-id": mark });

/** Returns an OAuth provider that no test calls. */
export function newProvider() {
  // As long as an id, but not a valid one.
  const provider_id = `${randomUUID().slice(0, -1)}z`;
  const endpoints = { auth_url: "https://id.example/authorize", token_url: "https://id.example/token" };
  return { provider_id, name: "Example", client_id: "c", client_secret: secretText, ...endpoints };
}

/** Returns a credential for a host that does not exist. */
export function newIntegration(mark: string) {
  return { host: "gitlab", name: mark, url: `https://git.invalid/${mark}`, token: secretText };
}

/** Deletes old objects, because a workspace can have at most 50 of each. */
async function makeRoom(call: Call, collection: string): Promise<void> {
  const { resources } = await call("GET", `${collection}?limit=100`);
  const newestFirst = resources.toSorted((a: Dated, b: Dated) => (a.created_at < b.created_at ? 1 : -1));
  for (const { id } of newestFirst.slice(30)) {
    await call("DELETE", `${collection}/${id}`);
  }
}

interface Dated {
  created_at: string;
}

/** Part of every secret value. A caller with read access only must never see it. */
export const secretText = "sk-never-shown";

/** A deployment of an unreachable repository: its revision fails without any request to a code host. */
export const deploymentNowhere = {
  ...createDeploymentExample,
  source_config: { ...createDeploymentExample.source_config, repo_url: "https://127.0.0.1:1/acme/bot" },
};

export function makeListener(call: Call, mark: string): Promise<{ id: string; listener_key: string }> {
  const compute_config = { k8s_namespaces: ["agents"] };
  return call("POST", "/v2/listeners", { compute_type: "k8s", compute_id: `${mark}-${randomUUID()}`, compute_config });
}
