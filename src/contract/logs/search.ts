import { type Static, Type } from "typebox";
import { logEntryExample } from "../examples.ts";
import { literals, nullable, timestamp, uuid } from "../schema.ts";
import { LogEntry, LogType, logPageSizeMax } from "./log.ts";

/** Lines that one search reads at most. It then returns what it found, and a cursor to go on. */
export const logSearchLinesMax = 10_000;

/** Deployments with a count of their own. */
export const logSearchDeploymentsMax = 50;

/** The range of a search without `start_time`, and the longest range of one. */
export const logSearchHoursDefault = 24;
export const logSearchDaysMax = 400;

export const SearchLogsQuery = Type.Object({
  query: Type.Optional(
    Type.String({
      maxLength: 1_000,
      description:
        'Words, `"phrases"`, `field:value`, `field:a,b`; `-` before a term excludes it. A line must match all terms. ' +
        "Fields: `level` (also `level:>=warning`), `deployment`, `revision`, `replica`, `source`, `stream`, `run`.",
      examples: ['level:error,critical deployment:support "timed out" -health'],
    }),
  ),
  start_time: Type.Optional(
    timestamp(`Lines at or after this time. Default: ${logSearchHoursDefault} hours before the end.`),
  ),
  end_time: Type.Optional(timestamp("Lines before this time. Default: no end.")),
  limit: Type.Integer({
    minimum: 1,
    maximum: logPageSizeMax,
    default: 200,
    description: "Matching lines of one response.",
  }),
  cursor: Type.Optional(
    Type.String({ description: "The `next_cursor` of the previous response, with the same query and times." }),
  ),
  counts: Type.Boolean({
    default: false,
    description: `Whether to read up to ${logSearchLinesMax} lines and count the matching ones. Without it, reading ends when \`limit\` lines are found.`,
  }),
});
export type SearchLogsQuery = Static<typeof SearchLogsQuery>;

/** A line and where it comes from. */
export const FoundLogEntry = Type.Object(
  {
    ...LogEntry.properties,
    deployment_id: uuid(),
    deployment_name: Type.String(),
    revision_number: nullable(Type.Integer(), "Number of the revision within its deployment."),
  },
  {
    $id: "FoundLogEntry",
    examples: [
      {
        ...logEntryExample,
        deployment_id: "6b1f0f64-5f0e-4a0e-9a35-0d5b6c1f7a11",
        deployment_name: "support-bot",
        revision_number: 41,
      },
    ],
  },
);
export type FoundLogEntry = Static<typeof FoundLogEntry>;

const count = (description?: string) => Type.Integer({ minimum: 0, ...(description !== undefined && { description }) });

/** The matching lines among those that one search read, by field and over time. */
export const LogCounts = Type.Object(
  {
    lines_read: count(`Lines that were read, at most ${logSearchLinesMax}.`),
    matches: count("How many of them match."),
    read_to: timestamp("All lines of the range at or after this time were read."),
    next_cursor: nullable(Type.String(), "Where to go on counting. null: the whole range was read."),
    levels: Type.Array(Type.Object({ level: Type.String(), count: count() })),
    sources: Type.Array(Type.Object({ source: literals(LogType.enum), count: count() })),
    deployments: Type.Array(Type.Object({ deployment_id: uuid(), name: Type.String(), count: count() }), {
      description: `The ${logSearchDeploymentsMax} with most matching lines, most first.`,
    }),
    step_ms: Type.Integer({ description: "Length of one interval of the histogram." }),
    histogram: Type.Array(
      Type.Object({
        at: timestamp("Start of the interval."),
        errors: count("Lines of the level ERROR or CRITICAL."),
        warnings: count(),
        others: count(),
      }),
      { description: "Intervals with matching lines, oldest first. Intervals start at multiples of `step_ms`." },
    ),
  },
  { $id: "LogCounts" },
);
export type LogCounts = Static<typeof LogCounts>;

export const LogSearch = Type.Object(
  {
    logs: Type.Array(FoundLogEntry, { description: "Newest first." }),
    next_cursor: nullable(
      Type.String(),
      "Where to go on. A response without lines may have one: nothing matched so far. null: the whole range was searched.",
    ),
    searched_to: timestamp(
      "`logs` has all matching lines of the range, or of those before the cursor, back to this time.",
    ),
    start_time: timestamp("Start of the range."),
    end_time: nullable(timestamp(), "End of the range. null: no end."),
    counts: nullable(LogCounts, "null unless the request asks for counts."),
  },
  { $id: "LogSearch" },
);
export type LogSearch = Static<typeof LogSearch>;
