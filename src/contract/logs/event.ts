import { type Static, Type } from "typebox";
import { SortOrder } from "../page.ts";
import { freeObject, literals, nullable, timestamp, uuid } from "../schema.ts";
import { LogType } from "./log.ts";

/** What can happen to a deployment, its revisions and its workspace. */
export const EventType = literals([
  "deployment.created",
  "deployment.changed",
  "deployment.status",
  "deployment.delete_requested",
  "deployment.deleted",
  "revision.created",
  "revision.status",
  "tracing.project_ready",
  "tracing.failed",
  "webhook.disabled",
]);
export type EventType = Static<typeof EventType>;

const deploymentId = "6b1f0f64-5f0e-4a0e-9a35-0d5b6c1f7a11";

export const eventExample = {
  id: "4711",
  type: "revision.status",
  created_at: "2026-11-20T10:04:11.120000Z",
  tenant_id: "0f8f5c1e-7d0e-4d69-9f7d-0f2f0f6b7c22",
  deployment_id: deploymentId,
  deployment_name: "support-bot",
  revision_id: "b8a14c1e-2a5d-4f6e-8d0b-7c1f3e5a9d42",
  data: { from: "DEPLOYING", to: "DEPLOYED", because: "healthy, and traffic has moved", message: null },
} as const;

/** One line of the timeline: what a watcher and a webhook are told. */
export const Event = Type.Object(
  {
    id: Type.String({ description: "Its place: rises from event to event, also over restarts." }),
    type: EventType,
    created_at: timestamp(),
    tenant_id: uuid(),
    deployment_id: nullable(uuid()),
    deployment_name: nullable(Type.String(), "null once the deployment is gone."),
    revision_id: nullable(uuid()),
    data: freeObject("By type; a status move has from, to, because and message."),
  },
  { $id: "Event", description: "One thing that happened.", examples: [eventExample] },
);
export type Event = Static<typeof Event>;

export const EventPage = Type.Object(
  {
    events: Type.Array(Event),
    position: Type.String({
      description: "Where to go on from: `after` of the next page, or `Last-Event-ID` of a stream.",
      examples: ["4711"],
    }),
  },
  { $id: "EventPage" },
);
export type EventPage = Static<typeof EventPage>;

/** Number of the last event seen; in a stream with logs that of the last line of each kind follows, each behind a dot. */
export const positionPattern = "^[0-9]{1,15}(\\.[0-9]{1,15}){0,2}$";

const position = (description: string) =>
  Type.Optional(Type.String({ pattern: positionPattern, description, examples: ["4711"] }));

export const lastEventIdHeader = position("Where a stream was lost: it goes on behind this place. Wins over `after`.");

const shared = {
  after: position("A place that an answer gave; `0`: the oldest event that is kept. Absent: a stream begins now."),
  types: Type.Optional(Type.Array(EventType, { description: "Only these, separated by commas." })),
  order: literals(SortOrder.enum, { default: "asc", description: "Of a page; `desc` goes back from `after`." }),
  limit: Type.Integer({ minimum: 1, maximum: 1_000, default: 100, description: "Events of a page." }),
};

export const ListEventsQuery = Type.Object({
  ...shared,
  deployment_ids: Type.Optional(Type.Array(uuid(), { description: "Only of these, separated by commas." })),
});
export type ListEventsQuery = Static<typeof ListEventsQuery>;

export const DeploymentEventsQuery = Type.Object({
  ...shared,
  logs: Type.Optional(
    Type.Array(LogType, { description: "Lines of these logs come with the stream, as events of the type `log`." }),
  ),
  logs_after: Type.Optional(
    Type.String({
      pattern: "^[0-9]{1,15}$",
      description: "Id of the last line that is known. Absent: lines from now on.",
      examples: ["90210"],
    }),
  ),
});
export type DeploymentEventsQuery = Static<typeof DeploymentEventsQuery>;
