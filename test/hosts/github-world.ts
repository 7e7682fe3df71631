import { after } from "node:test";
import { createAgentRepository } from "../support/agent-repository.ts";
import { startTestServer } from "../support/server.ts";
import { startGithub } from "./github-server.ts";

/** Opens a repository `acme/bot`, a GitHub that serves it, and a server whose App is installed there. All end with the test file. */
export async function openGithubWorld(files?: Record<string, string>) {
  const repository = await createAgentRepository(files);
  const github = await startGithub({ "acme/bot": repository.directory });
  const t = await startTestServer(github.environment);
  after(async () => {
    await t[Symbol.asyncDispose]();
    await github[Symbol.asyncDispose]();
    await repository[Symbol.asyncDispose]();
  });
  const { workspaceId } = t.server.credentials;
  const integration = await t.client.attachInstallation({ body: { installation_id: 41, workspace_id: workspaceId } });
  return { repository, github, t, workspaceId, integration };
}
