import { type Static, Type } from "typebox";
import { logEntryExample } from "../examples.ts";
import { cursorPage, cursorQuery, SortOrder } from "../page.ts";
import { given, literals, nullable, timestamp, uuid } from "../schema.ts";

/** Page sizes of logs (contract 4.7). */
export const logPageSizeMax = 1_000;
export const logPageSizeDefault = 50;

export const LogLevel = literals(["DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL"]);
export type LogLevel = Static<typeof LogLevel>;

export const LogType = literals(["build", "deploy"]);
export type LogType = Static<typeof LogType>;

/** One line of a build or a replica. A client that follows drops lines whose id it has seen (contract 3.4). */
export const LogEntry = Type.Object(
  {
    id: Type.String({ description: "Unique and stable." }),
    timestamp: timestamp(),
    level: Type.String({ description: "DEBUG, INFO, WARNING, ERROR or CRITICAL." }),
    message: Type.String(),
    source: LogType,
    revision_id: nullable(uuid()),
    replica: nullable(Type.String(), "The replica that wrote it; null in build logs."),
    stream: nullable(literals(["stdout", "stderr"])),
    run_id: nullable(Type.String()),
  },
  { $id: "LogEntry", examples: [logEntryExample] },
);
export type LogEntry = Static<typeof LogEntry>;

/** `next_offset` is null only when the stream has ended and everything was read; otherwise it points behind the last line. */
export const LogPage = Type.Object(
  { logs: Type.Array(LogEntry), next_offset: nullable(Type.String(), "Pass as `offset` for the lines that follow.") },
  { $id: "LogPage" },
);
export type LogPage = Static<typeof LogPage>;

export const DeploymentLogPage = cursorPage(LogEntry, "DeploymentLogPage");
export type DeploymentLogPage = Static<typeof DeploymentLogPage>;

const filters = {
  start_time: Type.Optional(timestamp("Inclusive.")),
  end_time: Type.Optional(timestamp("Exclusive.")),
  query: Type.Optional(Type.String({ description: "Text the message contains, in any case." })),
  level: Type.Optional(literals(LogLevel.enum, { description: "This level or a more severe one." })),
  run_id: Type.Optional(Type.String({ description: "Lines that belong to this run of the agent." })),
};

/** G1 and G3. */
export const ReadLogsQuery = Type.Object({
  type: literals(LogType.enum, { description: "build: what the builder said. deploy: what the replicas say." }),
  order: literals(SortOrder.enum, { default: "asc", description: "asc: oldest first." }),
  limit: Type.Integer({
    minimum: 1,
    maximum: logPageSizeMax,
    default: logPageSizeDefault,
    description: "Lines per page.",
  }),
  offset: Type.Optional(Type.String({ description: "The `next_offset` of the page before." })),
  ...filters,
});
export type ReadLogsQuery = Static<typeof ReadLogsQuery>;

/** G2. */
export const DeploymentLogsQuery = Type.Object({
  deployment_id: uuid("Deployment of your workspace."),
  revision_id: Type.Optional(uuid("Only lines of this revision.")),
  log_type: literals(["BUILD", "DEPLOY"], {
    default: "DEPLOY",
    description: "BUILD: what the builder said. DEPLOY: what the replicas say.",
  }),
  sort_order: literals(SortOrder.enum, { default: "asc", description: "asc: oldest first." }),
  ...cursorQuery,
  ...filters,
});
export type DeploymentLogsQuery = Static<typeof DeploymentLogsQuery>;

/** G4 and G5: what the command-line clients send. Every field may be left out. */
export const ReadLogsBody = Type.Object(
  {
    order: given(SortOrder, "Default asc."),
    limit: given(
      Type.Integer({ minimum: 1, maximum: logPageSizeMax }),
      "Default 50. From a `start_time` on, what was written at once is not parted.",
    ),
    offset: given(Type.String()),
    level: given(LogLevel),
    query: given(Type.String()),
    start_time: given(timestamp("Inclusive.")),
    end_time: given(timestamp("Exclusive.")),
  },
  { $id: "ReadLogsBody", examples: [{ order: "desc", limit: 30, level: "ERROR" }] },
);
export type ReadLogsBody = Static<typeof ReadLogsBody>;
