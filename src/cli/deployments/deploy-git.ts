import type { CreateDeployment, Deployment, DeploymentType, Secret } from "../../contract/deployments/deployment.ts";
import { usualConfigPath } from "../../domain/config-path.ts";
import type { Session } from "../session.ts";
import { findDefaultBranch, repositoryName, withoutUser } from "../source/git-source.ts";
import { nameFrom } from "../source/project.ts";
import { buildSettingsOf, type DeployOptions, sayTypeStays } from "./deploy-options.ts";
import { answerDryRun, changeBy, whileRollingOut } from "./dry-run.ts";
import { findByName, nameTaken } from "./find-deployment.ts";
import { checkPlacement, type Placement, placementOf } from "./find-listener.ts";
import { followRevision } from "./follow-revision.ts";
import { addVariables, readVariables } from "./variables.ts";

/** Deploys a ref of a git repository, which the server builds, and follows the revision. */
export async function deployGit(session: Session, url: string, options: DeployOptions): Promise<void> {
  const { terminal, signal, context } = session;
  const name = options.name ?? nameFrom(repositoryName(url));
  terminal.say(
    `Deploying ${terminal.paintErr("bold", name)} from ${withoutUser(url)}${options.ref ? ` at ${options.ref}` : ""}`,
  );
  const client = await session.client();
  const variables = options.envFrom === undefined ? [] : await readVariables(session, options.envFrom);
  const found = await findByName(client, name, signal);
  if (found !== undefined) {
    refuseOtherSource(found);
    sayTypeStays(session, found, options);
    await checkPlacement(client, found, options, signal);
  }

  // The saved branch and config path apply only to the same repository.
  const saved = found?.source_config.repo_url === url ? found.source_revision_config : undefined;
  const ref = options.ref ?? saved?.repo_ref ?? (await findDefaultBranch(url, context.env, signal));
  const config = options.config ?? saved?.langgraph_config_path ?? usualConfigPath;
  const settings = {
    source_config: { repo_url: url, ...buildSettingsOf(options) },
    source_revision_config: { repo_ref: ref, langgraph_config_path: config },
  };
  if (options.dryRun) {
    const placement = found === undefined ? await placementOf(client, options, signal) : {};
    const wanted =
      found === undefined ? creation(name, settings, variables, options, placement) : { source: "github", ...settings };
    const { source, source_config, source_revision_config } = wanted;
    const planned = changeBy({ name, current: found }, { source, source_config, source_revision_config }, variables);
    return answerDryRun(
      session,
      [planned],
      [`Builds ${ref} of the repository and deploys it.${whileRollingOut(found)}`],
    );
  }
  const deployment =
    found === undefined
      ? await client.createDeployment(
          { body: creation(name, settings, variables, options, await placementOf(client, options, signal)) },
          { signal },
        )
      : await addVariables(session, found, variables, (part, call) =>
          client.patchDeployment({ deployment_id: found.id, body: { ...settings, ...part } }, call),
        );
  await followRevision(session, deployment, deployment.latest_revision_id ?? "", options);
}

function creation(
  name: string,
  settings: Pick<CreateDeployment, "source_config" | "source_revision_config">,
  secrets: Secret[],
  options: DeployOptions,
  placement: Placement,
): CreateDeployment {
  const type = (options.type ?? null) as DeploymentType | null;
  const source_config = { ...settings.source_config, build_on_push: false, deployment_type: type, ...placement };
  return { ...settings, name, source: "github", source_config, secrets };
}

function refuseOtherSource({ name, source }: Deployment): void {
  if (source === "github") return;
  throw nameTaken(name, `${name} has the source ${source}, which cannot be changed to a repository.`);
}
