import path from "node:path";
import type { Deployment, DeploymentTier, PatchDeployment } from "../../contract/deployments/deployment.ts";
import { kindOf } from "../../domain/tiers.ts";
import { CliFailure, usageFailure } from "../failure.ts";
import type { Session } from "../session.ts";
import { buildSettingsOf } from "./deploy-options.ts";
import { answerDryRun, changeBy, whileRollingOut } from "./dry-run.ts";
import { findDeployment } from "./find-deployment.ts";
import { answerWithoutRevision, type FollowOptions, followRevision } from "./follow-revision.ts";

export interface ChangeOptions extends FollowOptions {
  config?: string;
  root?: string;
  ref?: string;
  image?: string;
  installCommand?: string;
  buildCommand?: string;
  engine?: string;
  size?: string;
}

/** Changes what a deployment is built from and follows the revision, also if no revision of it has ever worked. */
export async function change(session: Session, [name = ""]: string[], options: ChangeOptions): Promise<void> {
  const { terminal, signal } = session;
  if (options.config !== undefined && options.root !== undefined) {
    throw usageFailure("--root and --config both say where the config file is.", "Give one of them.");
  }
  const client = await session.client();
  const deployment = await findDeployment(session, name);
  const body = patchOf(deployment, options);
  if (options.dryRun) {
    const { revision_source: source, source_config, source_revision_config, deployment_tier } = body;
    const wanted = { source, source_config, source_revision_config, deployment_tier };
    const planned = changeBy({ name: deployment.name, current: deployment }, wanted);
    if (planned.fields.length === 0) return answerDryRun(session, [], []);
    return answerDryRun(session, [planned], [`Deploys with these settings.${whileRollingOut(deployment)}`]);
  }
  const changed = await client.patchDeployment({ deployment_id: deployment.id, body }, { signal });
  if (changed.latest_revision_id === null) {
    terminal.say(`Stored for the first deploy of ${changed.name}.`);
    answerWithoutRevision(session, changed);
    return;
  }
  if (changed.latest_revision_id === deployment.latest_revision_id) {
    throw new CliFailure(`These settings change nothing for ${changed.name}.`, {
      hints: [`Try the same again: pierhead retry ${changed.name}`],
    });
  }
  terminal.say(`Deploying ${changed.name} with the changed settings`);
  await followRevision(session, changed, changed.latest_revision_id, options);
}

function patchOf(deployment: Deployment, options: ChangeOptions): PatchDeployment {
  const config = options.root === undefined ? options.config : configIn(options.root, deployment);
  const code = {
    ...(config === undefined ? {} : { langgraph_config_path: config }),
    ...(options.ref === undefined ? {} : { repo_ref: options.ref }),
    ...(options.image === undefined ? {} : { image_uri: options.image }),
  };
  const commands = buildSettingsOf(options);
  const isImageNew = options.image !== undefined && !deployment.source.endsWith("_docker");
  const body = {
    ...(isImageNew && { revision_source: "internal_docker" as const }),
    ...(options.size === undefined ? {} : { deployment_tier: tierOf(options.size, deployment) }),
    ...(Object.keys(commands).length === 0 ? {} : { source_config: commands }),
    ...(Object.keys(code).length === 0 ? {} : { source_revision_config: code }),
  };
  if (Object.keys(body).length > 0) return body;
  throw usageFailure(
    "Nothing to change.",
    "Give --config, --root, --ref, --image, --install-command, --build-command, --engine or --size.",
    `Try the same again: pierhead retry ${deployment.name}`,
  );
}

/** Returns the path of the config file in another directory. */
function configIn(root: string, { name, source_revision_config: config }: Deployment): string {
  const { langgraph_config_path: current } = config;
  if (current === null) throw new CliFailure(`${name} has no config file, so it has no root directory.`);
  return path.posix.join(root, path.posix.basename(current));
}

/** Returns the tier for a size. A type without sizes has one only. */
function tierOf(size: string, { name, source_config: { deployment_type: type } }: Deployment): DeploymentTier {
  const letter = size.toUpperCase();
  if (letter !== "S" && letter !== "M" && letter !== "L") {
    throw usageFailure(`"${size}" is not a size.`, "Give S, M or L.");
  }
  const kind = type === null ? null : kindOf(type);
  if (kind !== null) return `${kind}_${letter}`;
  throw new CliFailure(`${name} is of type ${type}, which has one size.`, {
    hints: ["Deploy the source under a new name with --type prod. Its sizes are S, M and L."],
  });
}
