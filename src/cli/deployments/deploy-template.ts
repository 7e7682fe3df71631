import type { Client } from "../../client/client.ts";
import type { DeploymentType } from "../../contract/deployments/deployment.ts";
import { usageFailure } from "../failure.ts";
import type { Session } from "../session.ts";
import { nameFrom } from "../source/project.ts";
import { buildSettingsOf, type DeployOptions, refuseGiven, sayTypeStays } from "./deploy-options.ts";
import { answerDryRun, changeBy, whileRollingOut } from "./dry-run.ts";
import { findByName, nameTaken } from "./find-deployment.ts";
import { checkPlacement, placementOf } from "./find-listener.ts";
import { followRevision } from "./follow-revision.ts";
import { addVariables, readVariables } from "./variables.ts";

/** Deploys a template from the server's catalogue. An existing deployment is updated to the current template. */
export async function deployTemplate(session: Session, templateId: string, options: DeployOptions): Promise<void> {
  const { terminal, signal } = session;
  refuseSettingsOfSources(options);
  const name = options.name ?? nameFrom(templateId);
  const client = await session.client();
  const variables = options.envFrom === undefined ? [] : await readVariables(session, options.envFrom);
  const found = await findByName(client, name, signal);
  if (found !== undefined && found.source_config.template_id !== templateId) {
    throw nameTaken(name, `${name} exists and was not created from the template ${templateId}.`);
  }
  terminal.say(`Deploying ${terminal.paintErr("bold", name)} from the template ${templateId}`);
  if (found !== undefined) {
    sayTypeStays(session, found, options);
    await checkPlacement(client, found, options, signal);
    if (options.dryRun) {
      const planned = changeBy({ name, current: found }, { source_config: buildSettingsOf(options) }, variables);
      return answerDryRun(
        session,
        [planned],
        [`Deploys the current version of the template.${whileRollingOut(found)}`],
      );
    }
    const revision = await addVariables(session, found, variables, (part, call) =>
      client.createRevision(
        { deployment_id: found.id, body: { ...part, source_config: buildSettingsOf(options) } },
        call,
      ),
    );
    return followRevision(session, found, revision.id, options);
  }
  const body = {
    name,
    source: "internal_template" as const,
    source_config: {
      template_id: templateId,
      deployment_type: (options.type ?? null) as DeploymentType | null,
      ...buildSettingsOf(options),
      ...(await placementOf(client, options, signal)),
    },
    source_revision_config: {},
    secrets: variables,
  };
  if (options.dryRun) {
    await checkTemplate(client, templateId, signal);
    const { source, source_config } = body;
    return answerDryRun(session, [changeBy({ name, current: undefined }, { source, source_config }, variables)], []);
  }
  const deployment = await client.createDeployment({ body }, { signal });
  await followRevision(session, deployment, deployment.latest_revision_id ?? "", options);
}

/** @throws CliFailure for a template that the server does not have. */
async function checkTemplate(client: Client, wanted: string, signal: AbortSignal): Promise<void> {
  const { templates } = await client.listTemplates({}, { signal });
  const ids = templates.map(({ id }) => id);
  if (!ids.includes(wanted)) throw usageFailure(`There is no template ${wanted}.`, `Templates: ${ids.join(", ")}`);
}

/** Rejects options that have no effect, because a template has its own settings. */
function refuseSettingsOfSources({ ref, config, installCommand, buildCommand }: DeployOptions): void {
  const given = {
    "--ref": ref,
    "--config": config,
    "--install-command": installCommand,
    "--build-command": buildCommand,
  };
  refuseGiven(given, "belongs to a directory or a git URL, not to a template.");
}
