import { DeploymentPath } from "../deployments/deployment.ts";
import { operation } from "../operation.ts";
import { DeploymentEventsQuery, EventPage, ListEventsQuery } from "./event.ts";

/** Events as a page of stored events or, for clients that accept `text/event-stream`, as a live stream. */
export const eventOperations = {
  listEvents: operation("listEvents", {
    operationId: "list_events_v2_events_get",
    tag: "Events",
    summary: "Watch the events of the workspace, or read past ones",
    query: ListEventsQuery,
    response: { status: 200, schema: EventPage },
    errors: ["eventsForgotten", "shareExceeded"],
    canStream: true,
    role: "reader",
  }),
  listDeploymentEvents: operation("listDeploymentEvents", {
    operationId: "list_deployment_events_v2_deployments__deployment_id__events_get",
    tag: "Events",
    summary: "Watch the events and logs of a deployment, or read past events",
    params: DeploymentPath,
    query: DeploymentEventsQuery,
    response: { status: 200, schema: EventPage },
    errors: ["deploymentNotFound", "eventsForgotten", "shareExceeded"],
    canStream: true,
    role: "reader",
  }),
};
