import { createClient } from "../../src/client/client.ts";
import type { TestServer } from "../support/server.ts";

/** Creates a key of the server's first workspace, or of its organization. */
export async function mintKey(pierhead: TestServer, scope: "workspace" | "organization"): Promise<string> {
  const made = await administer(pierhead, "POST", "/api-keys", { name: "test", role: "admin", scope });
  return String(made["key"]);
}

export async function switchDeploymentsOff(pierhead: TestServer): Promise<void> {
  const { workspaceId } = pierhead.server.credentials;
  await administer(pierhead, "PATCH", `/workspaces/${workspaceId}`, { deployments_enabled: false });
}

/** Creates a key of a workspace of another organization. */
export async function mintStrangersKey(pierhead: TestServer): Promise<string> {
  const name = "others";
  const organization = await administer(pierhead, "POST", "/organizations", { name });
  const workspace = await administer(pierhead, "POST", "/workspaces", { name, organization_id: organization["id"] });
  const wanted = { name, role: "admin", scope: "workspace", workspace_id: workspace["id"] };
  return String((await administer(pierhead, "POST", "/api-keys", wanted))["key"]);
}

/** Creates a deployment of another organization and returns its id. */
export async function strangersDeployment(pierhead: TestServer): Promise<string> {
  const client = createClient({ baseUrl: pierhead.url, apiKey: await mintStrangersKey(pierhead) });
  const body = { name: "theirs", source: "internal_source", source_config: {}, source_revision_config: {} } as const;
  return (await client.createDeployment({ body })).id;
}

async function administer({ url, apiKey }: TestServer, method: string, path: string, body: object) {
  const response = await fetch(`${url}/v2/admin${path}`, {
    method,
    headers: { "x-api-key": apiKey, "content-type": "application/json" },
    body: JSON.stringify(body),
  });
  const text = await response.text();
  if (!response.ok) throw new Error(`${method} ${path}: ${response.status} ${text}`);
  return JSON.parse(text) as Record<string, unknown>;
}
