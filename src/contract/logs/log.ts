import { type Static, Type } from "typebox";
import { logEntryExample } from "../examples.ts";
import { cursorPage, cursorQuery, SortOrder } from "../page.ts";
import { literals, nullable, optional, timestamp, uuid } from "../schema.ts";

/** Page sizes of logs (contract 4.7). */
export const logPageSizeMax = 1_000;
export const logPageSizeDefault = 50;

export const LogLevel = literals(["DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL"]);
export type LogLevel = Static<typeof LogLevel>;

export const LogType = literals(["build", "deploy"]);
export type LogType = Static<typeof LogType>;

/** Line of a build or a replica. A client that follows a log drops lines whose id it has seen (contract 3.4). */
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

/** `next_offset` is null only when the log has ended and was read completely. Otherwise it points behind the last line. */
export const LogPage = Type.Object(
  { logs: Type.Array(LogEntry), next_offset: nullable(Type.String(), "Pass it as `offset` to get the next lines.") },
  { $id: "LogPage" },
);
export type LogPage = Static<typeof LogPage>;

export const DeploymentLogPage = cursorPage(LogEntry, "DeploymentLogPage");
export type DeploymentLogPage = Static<typeof DeploymentLogPage>;

const filters = {
  start_time: Type.Optional(timestamp("Lines at or after this time.")),
  end_time: Type.Optional(timestamp("Lines before this time.")),
  query: Type.Optional(Type.String({ description: "Text that the message contains, case-insensitive." })),
  level: Type.Optional(literals(LogLevel.enum, { description: "Lines of this level or a more severe one." })),
  run_id: Type.Optional(Type.String({ description: "Lines of this run of the agent." })),
};

/** Query of G1 and G3. */
export const ReadLogsQuery = Type.Object({
  type: literals(LogType.enum, { description: "build: the output of the build. deploy: the output of the replicas." }),
  order: literals(SortOrder.enum, { default: "asc", description: "asc: oldest first." }),
  limit: Type.Integer({
    minimum: 1,
    maximum: logPageSizeMax,
    default: logPageSizeDefault,
    description: "Lines per page.",
  }),
  offset: Type.Optional(Type.String({ description: "The `next_offset` of the previous page." })),
  ...filters,
});
export type ReadLogsQuery = Static<typeof ReadLogsQuery>;

/** Query of G2. */
export const DeploymentLogsQuery = Type.Object({
  deployment_id: uuid("Deployment of your workspace."),
  revision_id: Type.Optional(uuid("Only lines of this revision.")),
  log_type: literals(["BUILD", "DEPLOY"], {
    default: "DEPLOY",
    description: "BUILD: the output of the build. DEPLOY: the output of the replicas.",
  }),
  sort_order: literals(SortOrder.enum, { default: "asc", description: "asc: oldest first." }),
  ...cursorQuery,
  ...filters,
});
export type DeploymentLogsQuery = Static<typeof DeploymentLogsQuery>;

/** Body of G4 and G5, as the command-line clients send it. Every field may be left out. */
export const ReadLogsBody = Type.Object(
  {
    order: optional(SortOrder, "Default asc."),
    limit: optional(
      Type.Integer({ minimum: 1, maximum: logPageSizeMax }),
      "Default 50. With `start_time`, a page may be longer, so that lines with the same time are not separated.",
    ),
    offset: optional(Type.String()),
    level: optional(LogLevel),
    query: optional(Type.String()),
    start_time: optional(timestamp("Lines at or after this time.")),
    end_time: optional(timestamp("Lines before this time.")),
  },
  { $id: "ReadLogsBody", examples: [{ order: "desc", limit: 30, level: "ERROR" }] },
);
export type ReadLogsBody = Static<typeof ReadLogsBody>;
