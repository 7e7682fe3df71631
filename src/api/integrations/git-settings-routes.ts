import { errors } from "../../contract/error.ts";
import { previewDefaults } from "../../contract/integrations/git-settings.ts";
import { operations } from "../../contract/operations.ts";
import { isBeingDeleted } from "../../domain/deployment-status.ts";
import { checkPatterns } from "../../domain/path-filter.ts";
import { findFollowedBranch } from "../../store/code-hosts/branch-watches.ts";
import { changeGitSettings, defaultGitSettings, findGitSettings } from "../../store/code-hosts/git-settings.ts";
import { openIntegration } from "../../store/code-hosts/integrations.ts";
import { readDeployment } from "../deployments/deployment-routes.ts";
import { type Api, route } from "../http/route.ts";
import { withoutNulls } from "../validation/without-nulls.ts";

/** Adds the routes that configure what a deployment does with pushes and pull requests. */
export function addGitSettingsRoutes(api: Api): void {
  const { db, sealer } = api.deps;

  route(api, operations.getGitSettings, async ({ principal, params }) => {
    const { id } = await readDeployment(db, principal, params.deployment_id);
    return shown(id);
  });

  route(api, operations.patchGitSettings, async ({ principal, params, body }) => {
    const row = await readDeployment(db, principal, params.deployment_id);
    const { id, source, status, is_preview: isPreview } = row;
    if (isBeingDeleted(status)) throw errors.beingDeleted(id);
    if (source !== "github") throw errors.fieldNotApplicable("git settings", source);
    if (isPreview && body.preview) throw errors.invalidField("preview", "cannot be set for a preview.");
    if (body.preview && !(await hasApp(principal.tenantId, row.source_config.integration_id))) {
      throw errors.invalidField("preview", "needs an 'integration_id' of the GitHub App in the deployment.");
    }
    checkPatterns("include_paths", body.include_paths ?? null);
    checkPatterns("exclude_paths", body.exclude_paths ?? null);
    const { preview: known } = (await findGitSettings(db, id)) ?? defaultGitSettings;
    const { include_paths, exclude_paths, preview: sent } = body;
    const preview = sent == null ? sent : { ...previewDefaults, ...known, ...withoutNulls(sent) };
    const change = {
      ...(include_paths !== undefined && { include_paths }),
      ...(exclude_paths !== undefined && { exclude_paths }),
      ...(preview !== undefined && { preview }),
    };
    await changeGitSettings(db, { id, tenantId: principal.tenantId, actor: principal.actor }, change);
    return shown(id);
  });

  const shown = async (id: string) => ({
    ...((await findGitSettings(db, id)) ?? defaultGitSettings),
    followed: await findFollowedBranch(db, id),
  });

  /**
   * Checks no permission, because callers who may not read an integration could not have set it on their deployment.
   */
  async function hasApp(tenantId: string, id: string | null): Promise<boolean> {
    const open = id === null ? undefined : await openIntegration(db, sealer, { tenantId, id });
    return open?.row.installation_id != null;
  }
}
