import { mintApiKey } from "../../src/auth/api-key.ts";
import { createClient } from "../../src/client/client.ts";
import { insertApiKey } from "../../src/store/api-keys.ts";
import { createOrganization, createWorkspace, findWorkspace } from "../../src/store/tenants.ts";
import type { TestServer } from "../server.ts";

/** A key of the server's first workspace, or of the organization that workspace belongs to. */
export async function mintKey({ server }: TestServer, of: "workspace" | "organization"): Promise<string> {
  const { workspaceId } = server.credentials;
  const workspace = await findWorkspace(server.db, workspaceId);
  if (workspace === undefined) throw new Error("the first workspace is gone");
  return insertKey(server, workspace.organization_id, of === "workspace" ? workspaceId : null);
}

/** A deployment of another organization. @returns its id */
export async function strangersDeployment({ server, url }: TestServer): Promise<string> {
  const organizationId = await createOrganization(server.db, { name: "others", plan: "self_hosted_enterprise" });
  const workspaceId = await createWorkspace(server.db, { organizationId, name: "others" });
  const client = createClient({ baseUrl: url, apiKey: await insertKey(server, organizationId, workspaceId) });
  const body = { name: "theirs", source: "internal_source", source_config: {}, source_revision_config: {} } as const;
  return (await client.createDeployment({ body })).id;
}

async function insertKey(server: TestServer["server"], organizationId: string, workspaceId: string | null) {
  const { key, prefix, hash } = mintApiKey();
  const made = { prefix, hash, organizationId, workspaceId, listenerId: null, name: "test", role: "admin" } as const;
  await insertApiKey(server.db, made);
  return key;
}
