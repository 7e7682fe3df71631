import { createHash } from "node:crypto";
import { connect } from "node:net";
import { homedir } from "node:os";
import path from "node:path";
import { isDeepStrictEqual } from "node:util";
import { type Client, isSettled } from "../../client/client.ts";
import type { Deployment, Secret } from "../../contract/deployments/deployment.ts";
import type { Revision } from "../../contract/revisions/revision.ts";
import type { CliContext, Environment, RunningServer } from "../context.ts";
import { callsOf } from "../deployments/calls-of.ts";
import { interruptRevisions } from "../deployments/cancel.ts";
import { refuseLargeArchive, refuseLargeSource, sendArchive } from "../deployments/deploy-directory.ts";
import { endOfBuildLog } from "../deployments/follow-revision.ts";
import { renderLogEntry } from "../deployments/render-log-entry.ts";
import { readVariables } from "../deployments/variables.ts";
import { explainFailure } from "../failure.ts";
import { createSession, type Session } from "../session.ts";
import { packArchive } from "../source/archive.ts";
import { listProject } from "../source/list-project.ts";
import { findProject, type Project } from "../source/project.ts";
import { watchSource } from "../source/watch-source.ts";
import { harmless } from "../terminal/terminal.ts";
import { duration, shellWord } from "../terminal/text.ts";
import { consoleUrl, explainStart } from "./up.ts";

interface DevOptions {
  config?: string;
  envFrom?: string;
  port?: string;
}

/** What was deployed last. A change that leaves both as they are, such as one of an ignored file, deploys nothing. */
interface Sent {
  sha256: string;
  variables: Secret[];
}

/**
 * Runs the project of a directory on a server of its own, and deploys it again whenever a file changes. The old code serves until
 * the new one does. Threads and runs are kept for the next call.
 */
export async function dev(outer: Session, [given = "."]: [string?], options: DevOptions): Promise<void> {
  const { terminal, context } = outer;
  const directory = path.resolve(context.cwd, given);
  const project = await findProject(directory, options.config, context.cwd);
  const session = sessionFor(outer, directory, project.name);
  const variablesOf = createVariables(session, options.envFrom);
  terminal.say(`Found ${harmless(project.found)}`);
  await variablesOf(project);
  terminal.say("Starting Pierhead ...");
  const server = await startServer(session, options.port);
  const stop = new AbortController();
  try {
    terminal.say(`Console   ${await consoleUrl(session, server)}`);
    await deployChanges(session, { directory, project, variablesOf, options }, stop.signal);
  } catch (error) {
    if (!session.signal.aborted) throw error;
  } finally {
    stop.abort();
    terminal.say("Stopping ...");
    await server.close();
  }
  terminal.say("Stopped. The next pierhead dev of this directory goes on with its threads.");
}

/** Returns the variables of a project, and the name of the file that has them or would have them. */
type VariablesOf = (project: Project) => Promise<{ variables: Secret[]; named: string }>;

function createVariables(session: Session, envFrom: string | undefined): VariablesOf {
  const { context, terminal } = session;
  let said: string | undefined;
  // Stdin has its content only once.
  const ofStdin = envFrom === "-" ? readVariables(session, envFrom) : undefined;
  return async ({ envFile, root, configPath }) => {
    if (ofStdin !== undefined) return { variables: await ofStdin, named: "stdin" };
    const file = envFrom === undefined ? envFile : path.resolve(context.cwd, envFrom);
    if (file !== said && file !== undefined) terminal.say(`Variables from ${path.relative(context.cwd, file)}`);
    said = file;
    const named = path.relative(context.cwd, file ?? path.join(root, path.dirname(configPath), ".env"));
    return { variables: file === undefined ? [] : await readVariables(session, file), named };
  };
}

interface Work {
  directory: string;
  project: Project;
  variablesOf: VariablesOf;
  options: DevOptions;
}

async function deployChanges(session: Session, { directory, project: first, ...work }: Work, stop: AbortSignal) {
  const { terminal, signal } = session;
  const { config, envFrom } = work.options;
  using watch = watchSource((error) => {
    terminal.say(`Not every directory is watched, so changes may be missed: ${error.message}`);
  });
  const extra = envFrom === undefined || envFrom === "-" ? undefined : path.resolve(session.context.cwd, envFrom);
  const cover = async (covered: Project): Promise<Listed> => {
    let sizeBytes = 0;
    const list = async () => {
      const listed = await listProject(covered, signal, session.context.env);
      sizeBytes = listed.sizeBytes;
      return listed.files;
    };
    return { files: await watch.cover(covered.root, list, extra), sizeBytes };
  };
  const sayError = (error: unknown) => {
    const { message, because, hints } = explainFailure(error, signal);
    terminal.say(`${terminal.paintErr("red", "Error:")} ${harmless(message)}`);
    for (const line of [because, ...hints]) if (line !== null) terminal.say(`  ${harmless(line)}`);
  };
  let sent: Sent | undefined;
  let project = first;
  let newer: AbortController | undefined;
  for (;;) {
    try {
      let listed = await cover(project);
      const found = await findProject(directory, config);
      if (!isDeepStrictEqual(found, project)) listed = await cover(found);
      project = found;
      const { variables, named } = await work.variablesOf(project);
      const next = await send(session, { project, listed, variables }, sent);
      if (next !== undefined) {
        if (newer === undefined) void followLog(session, next.deployment, stop);
        newer?.abort();
        await interruptOlder(session, next.deployment);
        newer = new AbortController();
        sent = next.sent;
        // Not awaited: a program that never becomes healthy must not delay its correction.
        const reported = AbortSignal.any([signal, stop, newer.signal]);
        report(session, { ...next, named }, reported).catch((error) => reported.aborted || sayError(error));
      }
    } catch (error) {
      signal.throwIfAborted();
      sayError(error);
    }
    await watch.changed(signal);
  }
}

interface Listed {
  files: string[];
  sizeBytes: number;
}

interface Next {
  sent: Sent;
  deployment: Deployment;
  startedAt: number;
}

/** Deploys the files unless they are as at the last time. */
async function send(
  session: Session,
  { project, listed, variables }: { project: Project; listed: Listed; variables: Secret[] },
  last: Sent | undefined,
): Promise<Next | undefined> {
  const startedAt = performance.now();
  refuseLargeSource(listed.sizeBytes);
  await using archive = await packArchive(project.root, listed.files, session.signal);
  const sent = { sha256: archive.sha256, variables };
  if (isDeepStrictEqual(sent, last)) return undefined;
  refuseLargeArchive(archive);
  session.terminal.say(last === undefined ? `Deploying ${project.name} ...` : "Changed. Deploying again ...");
  const client = await session.client();
  const deployment = await sendArchive(session, archive, {
    ...{ name: project.name, project, variables },
    // The deployment belongs to this command, so a variable that left the file is removed.
    replacesVariables: true,
    options: { wait: true, type: "dev" },
  });
  if (variables.length === 0 && deployment.secrets.length > 0) await removeAll(client, deployment, session.signal);
  return { sent, deployment, startedAt };
}

/** An empty list in a change leaves the variables as they are. */
async function removeAll(client: Client, { id, secrets }: Deployment, signal: AbortSignal): Promise<void> {
  const body = { remove: secrets.map(({ name }) => name) };
  await client.changeVariables({ deployment_id: id, body }, { signal });
}

/** Ends rollouts of older code, which would be waited for, also those of an earlier call of this command. */
async function interruptOlder(session: Session, { id }: Deployment): Promise<void> {
  const client = await session.client();
  const { latest_revision_id: latest } = await client.getDeployment({ deployment_id: id }, { signal: session.signal });
  const { resources } = await client.listRevisions({ deployment_id: id, limit: 20 }, { signal: session.signal });
  const older = resources.filter((revision) => revision.id !== latest && !isSettled(revision.status));
  await interruptRevisions(session, older);
}

/** Waits for the newest revision, and reports how it ended. */
async function report(
  session: Session,
  { deployment: { id }, startedAt, named }: Next & { named: string },
  signal: AbortSignal,
): Promise<void> {
  const { terminal } = session;
  const client = await session.client();
  const { latest_revision_id: latest } = await client.getDeployment({ deployment_id: id }, { signal });
  if (latest === null) return;
  // The first build installs what later ones reuse, and may take a minute.
  const isFirst = !session.hasAnswered();
  const seen = new Set<string>();
  const onChange = ({ status }: Revision) => {
    const doing = doings[status];
    if (isFirst && doing !== undefined && !seen.has(status)) terminal.say(doing);
    seen.add(status);
  };
  const revision = await client.waitForRevision({ deployment_id: id, revision_id: latest }, { signal, onChange });
  const deployment = await client.getDeployment({ deployment_id: id }, { signal });
  if (revision.status !== "DEPLOYED") return sayFailed(session, deployment, revision, named);
  const took = duration(performance.now() - startedAt);
  terminal.say(`${terminal.paintErr("green", "Ready")} in ${took}. Change a file to deploy again, stop with Ctrl-C.`);
  if (session.hasAnswered()) return;
  const { url, name } = deployment;
  session.answer(
    { url, deployment: name, data_dir: session.options.dataDir, pid: process.pid },
    () => url ?? undefined,
  );
  // The command of another terminal finds this server by its data directory.
  const at = ` --data-dir ${shellWord(session.options.dataDir ?? "")}`;
  for (const line of await callsOf(deployment, revision, signal))
    terminal.say(terminal.paintErr("dim", `  ${line}${line.startsWith("pierhead ") ? at : ""}`));
}

const doings: Partial<Record<Revision["status"], string>> = {
  BUILDING: "Building. The first build also installs what later ones reuse.",
  DEPLOYING: "Starting ...",
};

async function sayFailed(session: Session, deployment: Deployment, revision: Revision, named: string): Promise<void> {
  const { terminal } = session;
  if (revision.status === "SKIPPED") return; // A newer one is on its way.
  const log = revision.status === "BUILD_FAILED" ? await endOfBuildLog(session, revision) : [];
  const message = revision.status_message ?? `It ended in ${revision.status}.`;
  const missing = revision.failure?.code === "variables_missing" ? revision.failure.variables : [];
  const cause = missing.length === 0 ? message : putInto(named, missing, message);
  terminal.say(`${terminal.paintErr("red", "Failed:")} ${harmless([cause, ...log].join("\n"))}`);
  terminal.say(
    deployment.active_revision_id === null
      ? "Change a file to try again."
      : "The code before still serves. Change a file to try again.",
  );
}

/** Names the file, because the command in the message would set the variables on another server. Keeps the lines of the log. */
function putInto(file: string, missing: readonly string[], message: string): string {
  const [, ...log] = message.split("\n");
  const isOne = missing.length === 1;
  const advice = `${missing.join(", ")} ${isOne ? "is" : "are"} not set. Put ${isOne ? "it" : "each"} into ${file}.`;
  return [advice, ...log].join("\n");
}

/** Prints what the project writes, until the command stops. */
async function followLog(session: Session, { id }: Deployment, stop: AbortSignal): Promise<void> {
  const { terminal } = session;
  const signal = AbortSignal.any([stop, session.signal]);
  const client = await session.client();
  try {
    const lines = client.followLogs({ deployment_id: id, type: "deploy" }, { tail: 0, signal });
    for await (const entry of lines) terminal.say(renderLogEntry({ ...entry, replica: null }, terminal.paintErr));
  } catch (error) {
    if (!signal.aborted) terminal.say(`The log is no longer shown: ${(error as Error).message}`);
  }
}

/** Settings of other servers, which this one must not use. */
const ofOthers = [
  ...["DATABASE_URL", "PORT", "HOST", "PIERHEAD_S3_BUCKET"],
  ...["PIERHEAD_URL", "PIERHEAD_API_KEY", "PIERHEAD_WORKSPACE"],
];

/** Returns a session whose calls go to the server of this directory only. */
function sessionFor({ context, terminal, options }: Session, directory: string, name: string): Session {
  const own = `${name}-${createHash("sha256").update(directory).digest("hex").slice(0, 8)}`;
  const dataDir = path.resolve(context.cwd, options.dataDir ?? path.join(homedir(), ".pierhead-dev", own));
  const env: Environment = Object.fromEntries(Object.entries(context.env).filter(([key]) => !ofOthers.includes(key)));
  const inner: CliContext = { ...context, env };
  const { json, verbose, color } = options;
  return createSession(inner, terminal, {
    ...(json !== undefined && { json }),
    ...(verbose !== undefined && { verbose }),
    ...(color !== undefined && { color }),
    dataDir,
  });
}

async function startServer(session: Session, port: string | undefined): Promise<RunningServer> {
  const { context, options } = session;
  const environment = {
    ...context.env,
    PIERHEAD_DATA_DIR: options.dataDir,
    PORT: port ?? ((await isTaken(usualPort)) ? "0" : String(usualPort)),
    PIERHEAD_LOG_LEVEL: context.env.PIERHEAD_LOG_LEVEL || "warn",
  };
  return context.startServer(environment, { stopReplicasOnClose: true }).catch((error: Error) => {
    throw explainStart(error, []);
  });
}

const usualPort = 8124;

/** Whether another program listens, such as `pierhead up`. */
function isTaken(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect({ port, host: "127.0.0.1", timeout: 1_000 });
    const end = (taken: boolean) => {
      socket.destroy();
      resolve(taken);
    };
    socket.once("connect", () => end(true));
    socket.once("error", () => end(false));
    socket.once("timeout", () => end(false));
  });
}
