import type { FoundLogEntry } from "../../contract/logs/search.ts";
import { LogQueryError, parseLogQuery } from "../../domain/log-query.ts";
import { usageFailure } from "../failure.ts";
import type { Session } from "../session.ts";
import { parseMoment, parseWhole } from "../terminal/text.ts";
import { renderLogEntry } from "./render-log-entry.ts";

/** Which lines to print. A search of all deployments takes the filters from the query. */
export interface LineOptions {
  follow?: boolean;
  build?: boolean;
  level?: string;
  since?: string;
  lines: string;
  revision?: string;
  search?: string;
}

const pageSizeMax = 1_000;
const rangeDefault = "24h";

/** Prints the newest lines of all deployments that match a query, oldest first. */
export async function searchLogs(session: Session, query = "", options: LineOptions): Promise<void> {
  refuseOthers(options);
  checkQuery(query);
  const { signal, terminal } = session;
  const client = await session.client();
  const print = (entry: FoundLogEntry) =>
    terminal.print(
      session.options.json ? JSON.stringify(entry) : renderLogEntry(entry, terminal.paintOut, entry.deployment_name),
    );
  const wanted = parseWhole(options.lines);
  const range = { query, start_time: parseMoment(options.since ?? rangeDefault) };
  const found: FoundLogEntry[] = [];
  for (let cursor: string | null | undefined; cursor !== null && found.length < wanted; ) {
    const limit = Math.min(pageSizeMax, wanted - found.length);
    const page = await client.searchLogs({ ...range, limit, ...(cursor !== undefined && { cursor }) }, { signal });
    found.push(...page.logs);
    cursor = page.next_cursor;
  }
  for (const entry of found.toReversed()) print(entry);
  if (options.follow) {
    const start_time = found[0]?.timestamp ?? new Date().toISOString();
    try {
      for await (const lines of client.followSearch({ query, start_time }, { seen: found, signal }))
        lines.forEach(print);
    } catch (error) {
      if (!signal.aborted) throw error; // Ctrl-C ends a followed log
    }
  } else if (found.length === 0 && wanted > 0) {
    terminal.say(`No lines match since ${range.start_time}. Look further back with --since, for example --since 7d.`);
  }
}

function refuseOthers(options: LineOptions): void {
  const replaced = {
    build: "source:build",
    level: `level:>=${options.level?.toLowerCase()}`,
    revision: `revision:${options.revision}`,
    search: `"${options.search}"`,
  } as const;
  for (const [name, term] of Object.entries(replaced)) {
    if (options[name as keyof typeof replaced] === undefined) continue;
    throw usageFailure(`--${name} does not work with --all.`, `Write it into the query: pierhead logs --all '${term}'`);
  }
}

/** @throws CliFailure that shows where the query is wrong. */
function checkQuery(query: string): void {
  try {
    parseLogQuery(query);
  } catch (error) {
    if (!(error instanceof LogQueryError)) throw error;
    throw usageFailure(error.message, query, `${" ".repeat(error.position - 1)}^`);
  }
}
