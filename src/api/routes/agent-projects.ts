import type { Principal } from "../../auth/principal.ts";
import { errors } from "../../contract/error.ts";
import { operations } from "../../contract/operations.ts";
import { agentProjectsIn } from "../../domain/agent-projects.ts";
import { repoUrlProblem } from "../../domain/git-url.ts";
import { isValidRef, normaliseRef } from "../../domain/refs.ts";
import { defaultBranch, resolveRef } from "../../integrations/git.ts";
import { gitAccess } from "../../integrations/git-access.ts";
import { listFiles } from "../../integrations/git-tree.ts";
import { openIntegration } from "../../store/integrations.ts";
import { askHost } from "../code-hosts.ts";
import { type Api, route } from "../route.ts";

/** Clients wait for 30 s: each step has its share. */
const gitTimeoutMs = 8_000;

/** Agents that a repository holds, for a console or command line to offer. */
export function addProjectRoutes(api: Api): void {
  const { db, sealer, github, settings } = api.deps;

  route(api, operations.findAgentProjects, async ({ principal, query, signal }) => {
    const { repo_url: repoUrl, ref: asked } = query;
    const problem = repoUrlProblem(repoUrl, settings.allowLocalSources);
    if (problem !== null) throw errors.invalidField("repo_url", problem);
    const name = asked === undefined ? undefined : normaliseRef(asked);
    if (name !== undefined && !isValidRef(name)) throw errors.invalidField("ref", "must be a branch, tag or commit.");
    const integration = await integrationOf(principal, query.integration_id ?? null);
    return askHost(async () => {
      const access = await gitAccess({ github, ...settings }, { integration, repoUrl }, signal);
      const remote = { ...access, repoUrl, allowLocal: settings.allowLocalSources, signal, timeoutMs: gitTimeoutMs };
      const ref = name ?? (await defaultBranch(remote));
      const { commitSha } = await resolveRef({ ...remote, ref });
      return { ref, commit_sha: commitSha, projects: agentProjectsIn(await listFiles({ ...remote, commitSha })) };
    });
  });

  /** @throws ApiError 404 for another workspace's as for an unknown one. */
  async function integrationOf({ tenantId }: Principal, id: string | null) {
    if (id === null) return null;
    const open = await openIntegration(db, sealer, { tenantId, id });
    if (open === undefined) throw errors.integrationNotFound(id);
    return { ...open.row, ...open.secrets, installationId: open.row.installation_id };
  }
}
