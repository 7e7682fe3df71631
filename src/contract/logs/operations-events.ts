import { DeploymentPath } from "../deployments/deployment.ts";
import { operation } from "../operation.ts";
import { DeploymentEventsQuery, EventPage, ListEventsQuery } from "./event.ts";

/** What happens, as a page of what is kept or, to those who accept `text/event-stream`, as it happens. */
export const eventOperations = {
  listEvents: operation("listEvents", {
    operationId: "list_events_v2_events_get",
    tag: "Events",
    summary: "Watch the workspace, or read what happened in it",
    query: ListEventsQuery,
    response: { status: 200, schema: EventPage },
    errors: ["eventsForgotten"],
    canStream: true,
    role: "reader",
  }),
  listDeploymentEvents: operation("listDeploymentEvents", {
    operationId: "list_deployment_events_v2_deployments__deployment_id__events_get",
    tag: "Events",
    summary: "Watch a deployment and its logs, or read what happened to it",
    params: DeploymentPath,
    query: DeploymentEventsQuery,
    response: { status: 200, schema: EventPage },
    errors: ["deploymentNotFound", "eventsForgotten"],
    canStream: true,
    role: "reader",
  }),
};
