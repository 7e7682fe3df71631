import { randomUUID } from "node:crypto";
import { type Client, createClient } from "../../src/client/client.ts";
import type { Logger } from "../../src/telemetry/log.ts";
import { startTestServer, type TestServer } from "../support/server.ts";

/** A workspace and a client with an admin key of it. */
export interface Workspace {
  id: string;
  apiKey: string;
  api: Client;
}

export interface TwoWorkspaces extends AsyncDisposable {
  pierhead: TestServer;
  /** Does its worst. */
  attacker: Workspace;
  /** Must not notice. */
  victim: Workspace;
}

/** Starts a whole server with two workspaces of different organizations. */
export async function startWithTwoWorkspaces(
  environment: Record<string, string> = {},
  options: { logger?: Logger } = {},
): Promise<TwoWorkspaces> {
  const pierhead = await startTestServer(environment, options);
  const [attacker, victim] = await Promise.all([makeWorkspace(pierhead), makeWorkspace(pierhead)]);
  return { pierhead, attacker, victim, [Symbol.asyncDispose]: () => pierhead[Symbol.asyncDispose]() };
}

/** Creates an organization with one workspace and an admin key of it. */
export async function makeWorkspace({ client, url }: Pick<TestServer, "client" | "url">): Promise<Workspace> {
  const organization = await client.createOrganization({ body: { name: `organization ${randomUUID()}` } });
  const body = { name: "workspace", organization_id: organization.id };
  const { id } = await client.createWorkspace({ body });
  const { key } = await client.createApiKey({ body: { name: "admin", role: "admin", workspace_id: id } });
  return { id, apiKey: key as string, api: createClient({ baseUrl: url, apiKey: key as string }) };
}
