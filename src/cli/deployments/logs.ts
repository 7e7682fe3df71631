import type { FollowLogs } from "../../client/client.ts";
import type { Deployment } from "../../contract/deployments/deployment.ts";
import type { LogEntry, LogLevel } from "../../contract/logs/log.ts";
import { withDeploymentName } from "../../domain/deployment-health.ts";
import { builderLookupMax, builderOf, reusedArtifactLine } from "../../domain/reused-artifact.ts";
import { CliFailure, usageFailure } from "../failure.ts";
import type { Session } from "../session.ts";
import { parseMoment, parseWhole, shortId } from "../terminal/text.ts";
import { findDeployment, findRevision } from "./find-deployment.ts";
import { renderLogEntry } from "./render-log-entry.ts";
import { type LineOptions, searchLogs } from "./search-logs.ts";

export interface LogsOptions extends LineOptions {
  all?: boolean;
  /** Name of `lines` in other programs that show logs. */
  tail?: string;
}

/** Prints log lines of replicas or of a build, oldest first. With `--json`, prints one object per line. */
export async function logs(session: Session, [name]: string[], given: LogsOptions): Promise<void> {
  const options = { ...given, lines: given.tail ?? given.lines };
  if (options.all) return await searchLogs(session, name, options);
  if (name === undefined) {
    throw usageFailure(
      "No deployment was named.",
      "One deployment:  pierhead logs NAME",
      "All of them:     pierhead logs --all",
    );
  }
  const { signal, terminal } = session;
  const client = await session.client();
  const deployment = await findDeployment(session, name);
  const query = await queryOf(session, deployment, options);
  const print = (entry: LogEntry) => {
    if (session.options.json) return terminal.print(JSON.stringify(entry));
    const text = renderLogEntry(entry, terminal.paintOut);
    // Pierhead itself writes commands into the log of a build, which does not know the name.
    terminal.print(options.build ? (withDeploymentName(text, deployment.name) ?? text) : text);
  };
  const tail = parseWhole(options.lines);
  if (options.follow) {
    try {
      for await (const entry of client.followLogs(query, { tail, signal })) print(entry);
    } catch (error) {
      if (!signal.aborted) throw error; // Ctrl-C ends a followed log
    }
    return;
  }
  const entries = await client.tailLogs(query, tail, signal);
  for (const entry of entries) print(entry);
  if (entries.length === 0 && tail > 0) terminal.say(noLines(options));
  if (entries.some(({ message }) => message === reusedArtifactLine))
    await nameBuilder(session, deployment, query.revision_id);
}

/** Names the revision that built the artifact of another one, because its log has the build. Another deployment may have built it. */
async function nameBuilder(session: Session, { id, name }: Deployment, revisionId: string | undefined): Promise<void> {
  const client = await session.client();
  const query = { deployment_id: id, limit: builderLookupMax };
  const { resources } = await client.listRevisions(query, { signal: session.signal });
  const builder = builderOf(resources, revisionId);
  if (builder === null) return;
  const log = { deployment_id: id, type: "build", revision_id: builder.id, query: reusedArtifactLine } as const;
  const number = builder.number ?? shortId(builder.id);
  const [reused] = await client.tailLogs(log, 1, session.signal);
  session.terminal.say(
    reused === undefined
      ? `Revision ${number} built it: pierhead logs ${name} --build --revision ${shortId(builder.id)}`
      : `Another deployment built it before revision ${number}, the first one here that uses it.`,
  );
}

function noLines({ build, level, since, search }: LogsOptions): string {
  const isChosen = [level, since, search].some((one) => one !== undefined);
  if (isChosen) return "No lines match the filters --level, --since and --search.";
  return build ? "No build lines yet." : "No lines yet.";
}

/** Builds the query. A build log belongs to one revision, by default to the newest. */
async function queryOf(session: Session, deployment: Deployment, options: LogsOptions): Promise<FollowLogs> {
  const named = options.revision;
  const newest = options.build ? deployment.latest_revision_id : undefined;
  const revisionId = named === undefined ? newest : (await findRevision(session, deployment, named)).id;
  if (revisionId === null) throw new CliFailure(`${deployment.name} has no revision yet.`);
  const level = options.level?.toUpperCase();
  if (level !== undefined && !levels.includes(level)) {
    throw usageFailure(`"${options.level}" is not one of ${levels.join(", ")}.`);
  }
  return {
    deployment_id: deployment.id,
    type: options.build ? "build" : "deploy",
    ...(revisionId === undefined ? {} : { revision_id: revisionId }),
    ...(level === undefined ? {} : { level: level as LogLevel }),
    ...(options.search === undefined ? {} : { query: options.search }),
    ...(options.since === undefined ? {} : { start_time: parseMoment(options.since) }),
  };
}

const levels = ["DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL"];
