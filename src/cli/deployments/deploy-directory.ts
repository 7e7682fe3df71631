import path from "node:path";
import type { Client } from "../../client/client.ts";
import type { Deployment, DeploymentType, Secret } from "../../contract/deployments/deployment.ts";
import { buildDiskBytesMax, uploadBytesMax } from "../../domain/limits.ts";
import { CliFailure } from "../failure.ts";
import type { Session } from "../session.ts";
import { type Archive, packArchive } from "../source/archive.ts";
import { listProject } from "../source/list-project.ts";
import { findProject, type Project } from "../source/project.ts";
import { createSteps } from "../terminal/steps.ts";
import { harmless } from "../terminal/terminal.ts";
import { count, shortId, size } from "../terminal/text.ts";
import { buildSettingsOf, type DeployOptions, sayTypeStays } from "./deploy-options.ts";
import { refuseOtherProject, rememberPlace } from "./deployed-from.ts";
import { describeRevision } from "./describe-revision.ts";
import { answerDryRun, changeBy, whileRollingOut } from "./dry-run.ts";
import { findByName, nameTaken } from "./find-deployment.ts";
import { checkPlacement, placementOf } from "./find-listener.ts";
import { followRevision, revisionSteps } from "./follow-revision.ts";
import { addVariables, readVariables, unsentVariables } from "./variables.ts";

/** Packs a directory, uploads it, and follows the new revision. */
export async function deployDirectory(session: Session, directory: string, options: DeployOptions): Promise<void> {
  const { terminal, signal } = session;
  const project = await findProject(directory, options.config, session.context.cwd);
  const name = options.name ?? project.name;
  terminal.say(`Deploying ${terminal.paintErr("bold", name)} from ${directory}`);
  terminal.say(`  Found ${harmless(project.found)}`);
  if (project.parts !== null)
    terminal.say(`  Packs ${harmless(project.parts.map((part) => path.join(project.root, part)).join(", "))}`);
  if (options.config === undefined && project.isRecognized) {
    terminal.say("  To change it: --install-command, --build-command, --config FILE, or a pierhead.json");
  }
  const variables = options.envFrom === undefined ? [] : await readVariables(session, options.envFrom);
  if (options.envFrom === undefined) await offerEnvFile(session, project);

  const configDirectory = path.dirname(path.join(project.root, project.configPath));
  if (options.name === undefined) {
    const existing = await findByName(await session.client(), name, signal);
    if (existing !== undefined) await refuseOtherProject(session.context, existing, configDirectory);
  }
  if (options.dryRun) return dryRun(session, { name, project, variables, options });

  const steps = createSteps(terminal, ["Pack", "Upload", ...revisionSteps]);
  try {
    steps.begin("Pack");
    const { files, leftOut, sizeBytes } = await listProject(project, signal, session.context.env);
    refuseLargeSource(sizeBytes);
    const surprising = leftOut.filter((file) => path.join(project.root, file) !== project.envFile);
    for (const file of surprising.slice(0, 10))
      terminal.say(terminal.paintErr("yellow", `  left out: ${harmless(file)}`));
    await using archive = await packArchive(project.root, files, signal);
    steps.note(`${count(files.length, "file")}, ${size(archive.sizeBytes)}`);
    refuseLargeArchive(archive);

    steps.begin("Upload");
    const patched = await sendArchive(session, archive, { name, project, variables, options });
    await rememberPlace(session.context, patched.id, configDirectory);
    steps.note(describeRevision(patched).replace(/^upload /, ""));
    await followRevision(session, patched, patched.latest_revision_id ?? "", options, steps);
  } finally {
    steps.close();
  }
}

async function dryRun(session: Session, { name, project, variables, options }: Sending): Promise<void> {
  const { signal, context } = session;
  const client = await session.client();
  const { files, sizeBytes } = await listProject(project, signal, context.env);
  refuseLargeSource(sizeBytes);
  const current = await findTarget(client, name, options, signal);
  const source_config = current === undefined ? await configOfNew(client, options, signal) : buildSettingsOf(options);
  const source_revision_config = { langgraph_config_path: project.configPath };
  const wanted = { source: "internal_source", source_config, source_revision_config };
  const sent = `Uploads ${count(files.length, "file")} (${size(sizeBytes)}), builds them and deploys the result.`;
  answerDryRun(session, [changeBy({ name, current }, wanted, variables)], [`${sent}${whileRollingOut(current)}`]);
}

interface Sending {
  name: string;
  project: Project;
  variables: Secret[];
  /** The deployment gets exactly these variables, unless there are none. Otherwise they are added to those that it has. */
  replacesVariables?: boolean;
  options: DeployOptions;
}

/** Uploads a packed directory, and starts a revision of it. Creates the deployment if needed. */
export async function sendArchive(
  session: Session,
  archive: Archive,
  { name, project, variables, replacesVariables = false, options }: Sending,
): Promise<Deployment> {
  const { signal } = session;
  const client = await session.client();
  const deployment = await ensureDeployment(client, name, variables, options, signal);
  sayTypeStays(session, deployment, options);
  const ids = { deployment_id: deployment.id };
  const { upload_url: uploadUrl, object_path: objectPath } = await client.createUploadUrl(ids, { signal });
  await client.uploadArchive(uploadUrl, archive.blob, { signal });
  const body = patchOf(deployment, project, objectPath, options);
  if (replacesVariables) {
    const secrets = variables.length === 0 ? {} : { secrets: variables };
    return client.patchDeployment({ ...ids, body: { ...body, ...secrets } }, { signal });
  }
  return addVariables(session, deployment, variables, (part, call) =>
    client.patchDeployment({ ...ids, body: { ...body, ...part } }, call),
  );
}

/** Returns the deployment, and creates it if needed. A new one has no revision until the archive is uploaded. */
async function ensureDeployment(
  client: Client,
  name: string,
  variables: Secret[],
  options: DeployOptions,
  signal: AbortSignal,
): Promise<Deployment> {
  const found = await findTarget(client, name, options, signal);
  if (found !== undefined) return found;
  const body = {
    name,
    source: "internal_source" as const,
    source_config: await configOfNew(client, options, signal),
    source_revision_config: {},
    secrets: variables,
  };
  return client.createDeployment({ body }, { signal });
}

async function configOfNew(client: Client, options: DeployOptions, signal: AbortSignal) {
  const type = (options.type ?? null) as DeploymentType | null;
  return { deployment_type: type, ...buildSettingsOf(options), ...(await placementOf(client, options, signal)) };
}

/** Returns the deployment with this name, if there is one. @throws CliFailure for one that cannot get a directory. */
async function findTarget(
  client: Client,
  name: string,
  options: DeployOptions,
  signal: AbortSignal,
): Promise<Deployment | undefined> {
  const found = await findByName(client, name, signal);
  if (found === undefined) return undefined;
  if (found.source === "external_docker" || found.source === "internal_template") {
    throw nameTaken(
      name,
      `${name} (${shortId(found.id)}) has the source ${found.source}, which cannot be changed to a directory.`,
    );
  }
  await checkPlacement(client, found, options, signal);
  return found;
}

function patchOf(deployment: Deployment, project: Project, objectPath: string, options: DeployOptions) {
  const commands = buildSettingsOf(options);
  return {
    ...(deployment.source === "internal_source" ? {} : { revision_source: "internal_source" as const }),
    ...(Object.keys(commands).length === 0 ? {} : { source_config: commands }),
    source_revision_config: { source_tarball_path: objectPath, langgraph_config_path: project.configPath },
  };
}

/** Refuses what no build would unpack, before it is packed. */
export function refuseLargeSource(sizeBytes: number): void {
  refuseTooLarge("source", sizeBytes, buildDiskBytesMax);
}

/** Refuses what the server would not accept, before it is sent. */
export function refuseLargeArchive({ sizeBytes }: Archive): void {
  refuseTooLarge("packed source", sizeBytes, uploadBytesMax);
}

function refuseTooLarge(what: string, sizeBytes: number, sizeBytesMax: number): void {
  if (sizeBytes <= sizeBytesMax) return;
  const hints = ["Exclude files that are not needed in .gitignore or .dockerignore"];
  throw new CliFailure(`The ${what} is ${size(sizeBytes)}. The limit is ${size(sizeBytesMax)}.`, { hints });
}

/** Suggests `--env-from` for a .env file. Its values are secrets and are not sent without that option. */
async function offerEnvFile({ terminal }: Session, { envFile }: Project): Promise<void> {
  if (envFile === undefined) return;
  const variables = await unsentVariables(envFile);
  if (variables === undefined) return;
  terminal.say(
    terminal.paintErr(
      "yellow",
      `  .env has ${variables} that this deploy does not send. To send: --env-from ${envFile}`,
    ),
  );
}
