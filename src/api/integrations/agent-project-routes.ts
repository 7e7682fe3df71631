import { errors } from "../../contract/error.ts";
import { operations } from "../../contract/operations.ts";
import { agentProjectsIn } from "../../domain/agent-projects.ts";
import { repoUrlProblem } from "../../domain/git-url.ts";
import { isValidRef, normalizeRef } from "../../domain/refs.ts";
import { defaultBranch, resolveRef } from "../../integrations/git.ts";
import { gitAccess, isBelow, outsideIntegration } from "../../integrations/git-access.ts";
import { listFiles } from "../../integrations/git-tree.ts";
import { type Api, route } from "../http/route.ts";
import { callCodeHost, findOpenIntegration } from "./call-code-host.ts";

/** Timeout of each git command: clients wait for 30 s in total. */
const gitTimeoutMs = 8_000;

/** Adds the route that finds the agents in a repository, for the console and the command line to offer. */
export function addProjectRoutes(api: Api): void {
  const { github, settings } = api.deps;

  route(api, operations.findAgentProjects, async ({ principal, query, signal }) => {
    const { repo_url: repoUrl, ref: asked } = query;
    const problem = repoUrlProblem(repoUrl, settings.allowLocalSources);
    if (problem !== null) throw errors.invalidField("repo_url", problem);
    const name = asked === undefined ? undefined : normalizeRef(asked);
    if (name !== undefined && !isValidRef(name)) throw errors.invalidField("ref", "must be a branch, tag or commit.");
    const { integration_id: integrationId = null } = query;
    const integration = await findOpenIntegration(api.deps, principal, integrationId);
    if (integration === undefined) throw errors.integrationNotFound(integrationId ?? "");
    if (integration !== null && !isBelow(integration.url, repoUrl))
      throw errors.invalidField("repo_url", `is refused: ${outsideIntegration(repoUrl, integration)}`);
    return callCodeHost(async () => {
      const access = await gitAccess({ github, ...settings }, { integration, repoUrl }, signal);
      const remote = { ...access, repoUrl, allowLocal: settings.allowLocalSources, signal, timeoutMs: gitTimeoutMs };
      const ref = name ?? (await defaultBranch(remote));
      const { commitSha } = await resolveRef({ ...remote, ref });
      return { ref, commit_sha: commitSha, projects: agentProjectsIn(await listFiles({ ...remote, commitSha })) };
    });
  });
}
