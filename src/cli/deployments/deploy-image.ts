import type { Deployment } from "../../contract/deployments/deployment.ts";
import { CliFailure } from "../failure.ts";
import type { Session } from "../session.ts";
import { nameFrom } from "../source/project.ts";
import { buildSettingsOf, type DeployOptions, refuseGiven } from "./deploy-options.ts";
import { answerDryRun, changeBy, whileRollingOut } from "./dry-run.ts";
import { findByName } from "./find-deployment.ts";
import { checkPlacement, placementOf } from "./find-listener.ts";
import { followRevision } from "./follow-revision.ts";
import { nameOfImage } from "./image-name.ts";
import { addVariables, readVariables } from "./variables.ts";

/** Deploys an image, which is run as it is. An existing deployment of images gets this one. */
export async function deployImage(session: Session, image: string, options: DeployOptions): Promise<void> {
  const { terminal, signal } = session;
  refuseSettingsOfSources(options);
  const name = options.name ?? nameFrom(nameOfImage(image).name);
  const client = await session.client();
  const variables = options.envFrom === undefined ? [] : await readVariables(session, options.envFrom);
  const found = await findByName(client, name, signal);
  if (found !== undefined) {
    refuseOtherSource(found);
    await checkPlacement(client, found, options, signal);
  }
  terminal.say(`Deploying ${terminal.paintErr("bold", name)} from the image ${image}`);
  const settings = { source_revision_config: { image_uri: image } };
  const source = "external_docker" as const;
  if (options.dryRun) {
    const placement = found === undefined ? await placementOf(client, options, signal) : {};
    const wanted = found === undefined ? { ...settings, source, source_config: placement } : settings;
    const planned = changeBy({ name, current: found }, wanted, variables);
    return answerDryRun(session, [planned], [`Runs the image.${whileRollingOut(found)}`]);
  }
  const deployment =
    found === undefined
      ? await client.createDeployment(
          {
            body: {
              ...{ ...settings, name, source, secrets: variables },
              source_config: await placementOf(client, options, signal),
            },
          },
          { signal },
        )
      : await addVariables(session, found, variables, (part, call) =>
          client.patchDeployment({ deployment_id: found.id, body: { ...settings, ...part } }, call),
        );
  await followRevision(session, deployment, deployment.latest_revision_id ?? "", options);
}

function refuseOtherSource({ name, source }: Deployment): void {
  if (source.endsWith("_docker")) return;
  const hints = [
    "Choose another name:           --name NAME",
    `Or run the image from now on:  pierhead change ${name} --image IMAGE`,
  ];
  throw new CliFailure(`${name} is built from its source (${source}).`, { hints });
}

/** Rejects options that have no effect, because nothing is built, and the deployment has no type. */
function refuseSettingsOfSources(options: DeployOptions): void {
  const { ref, config, type } = options;
  const { install_command, build_command, engine } = buildSettingsOf(options);
  const given = {
    "--ref": ref,
    "--config": config,
    "--type": type,
    "--install-command": install_command,
    "--build-command": build_command,
    "--engine": engine,
  };
  refuseGiven(given, "belongs to a directory or a git URL, not to an image.");
}
