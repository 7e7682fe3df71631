import { type Static, Type } from "typebox";
import { SortOrder } from "../page.ts";
import { freeObject, literals, nullable, timestamp, uuid } from "../schema.ts";
import { LogType } from "./log.ts";

/** What can happen to a deployment, its revisions and its workspace. */
export const EventType = literals([
  "deployment.created",
  "deployment.changed",
  "deployment.status",
  "deployment.health",
  "deployment.delete_requested",
  "deployment.deleted",
  "revision.created",
  "revision.status",
  "replica.exited",
  "tracing.project_ready",
  "tracing.failed",
  "webhook.disabled",
  "alert.firing",
  "alert.resolved",
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

/** Entry of the timeline, as watchers and webhooks receive it. */
export const Event = Type.Object(
  {
    id: Type.String({ description: "Position of the event. Increases from event to event, also across restarts." }),
    type: EventType,
    created_at: timestamp(),
    tenant_id: uuid(),
    deployment_id: nullable(uuid()),
    deployment_name: nullable(Type.String(), "null once the deployment is gone."),
    revision_id: nullable(uuid()),
    data: freeObject(
      "Depends on the type. A status change has `from`, `to`, `because` and `message`; an exit has `reason` and `message`.",
    ),
  },
  { $id: "Event", description: "One event of a workspace.", examples: [eventExample] },
);
export type Event = Static<typeof Event>;

export const EventPage = Type.Object(
  {
    events: Type.Array(Event),
    position: Type.String({
      description: "Where to continue: `after` of the next page, or `Last-Event-ID` of a stream.",
      examples: ["4711"],
    }),
  },
  { $id: "EventPage" },
);
export type EventPage = Static<typeof EventPage>;

/** The id of the last event. In a stream with logs, the id of the last line of each log type follows, each after a dot. */
export const positionPattern = "^[0-9]{1,15}(\\.[0-9]{1,15}){0,2}$";

const position = (description: string) =>
  Type.Optional(Type.String({ pattern: positionPattern, description, examples: ["4711"] }));

export const lastEventIdHeader = position(
  "Position at which a stream broke off. It continues there. Takes precedence over `after`.",
);

const shared = {
  after: position(
    "Position from a previous response. `0`: the oldest stored event. Absent: a stream starts with the next event.",
  ),
  types: Type.Optional(Type.Array(EventType, { description: "Only events of these types, separated by commas." })),
  order: literals(SortOrder.enum, { default: "asc", description: "Order of a page. `desc` goes back from `after`." }),
  limit: Type.Integer({ minimum: 1, maximum: 1_000, default: 100, description: "Events per page." }),
};

export const ListEventsQuery = Type.Object({
  ...shared,
  deployment_ids: Type.Optional(
    Type.Array(uuid(), { description: "Only events of these deployments, separated by commas." }),
  ),
});
export type ListEventsQuery = Static<typeof ListEventsQuery>;

export const DeploymentEventsQuery = Type.Object({
  ...shared,
  logs: Type.Optional(
    Type.Array(LogType, { description: "Logs whose lines the stream also carries, as events of the type `log`." }),
  ),
  logs_after: Type.Optional(
    Type.String({
      pattern: "^[0-9]{1,15}$",
      description: "Id of the last line that the client has. Absent: the stream starts with new lines.",
      examples: ["90210"],
    }),
  ),
});
export type DeploymentEventsQuery = Static<typeof DeploymentEventsQuery>;
