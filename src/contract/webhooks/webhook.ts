import { type Static, Type } from "typebox";
import { EventType } from "../logs/event.ts";
import { cursorPage, cursorQuery, offsetQuery, resourcePage } from "../page.ts";
import { freeObject, literals, nullable, optional, timestamp, uuid } from "../schema.ts";

const urlLengthMax = 2_048;

const url = (description?: string) =>
  Type.String({
    minLength: 1,
    maxLength: urlLengthMax,
    examples: ["https://ci.example.org/pierhead"],
    ...(description !== undefined && { description }),
  });
const description = Type.String({ maxLength: 1_024, examples: ["CI"] });
const types = Type.Array(EventType, { minItems: 1, examples: [["revision.status"]] });
const deploymentIds = Type.Array(uuid(), { minItems: 1, maxItems: 100 });

/** Form of the messages: signed JSON (Standard Webhooks), an incoming webhook of Slack, or mail. */
export const WebhookFormat = literals(["standard", "slack", "email"]);
export type WebhookFormat = Static<typeof WebhookFormat>;

const chosenFormat = optional(
  literals(["standard", "slack"]),
  "`slack`: text for an incoming webhook of Slack, without a signature. Ignored for `mailto:`, which is `email`.",
);

export const Webhook = Type.Object(
  {
    id: uuid(),
    format: WebhookFormat,
    url: url("Address that receives the messages. Callers who may only read see only its scheme and host."),
    description: nullable(description),
    types: nullable(types, "Types of events that it receives. null: all."),
    deployment_ids: nullable(deploymentIds, "Deployments whose events it receives. null: all of the workspace."),
    enabled: Type.Boolean(),
    disabled_reason: nullable(Type.String(), "Why the server disabled it."),
    failing_since: nullable(timestamp("Time of the first failed attempt since the last success.")),
    created_at: timestamp(),
    updated_at: timestamp(),
  },
  { $id: "Webhook", description: "An endpoint that receives events." },
);
export type Webhook = Static<typeof Webhook>;

const secret = Type.String({
  description: "Secret that signs the messages. Shown only once, stored encrypted.",
  examples: ["whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"],
});

export const NewWebhook = Type.Object({ ...Webhook.properties, secret }, { $id: "NewWebhook" });
export type NewWebhook = Static<typeof NewWebhook>;

export const WebhookSecret = Type.Object({ secret }, { $id: "WebhookSecret" });
export type WebhookSecret = Static<typeof WebhookSecret>;

export const WebhookPage = resourcePage(Webhook, "WebhookPage");
export type WebhookPage = Static<typeof WebhookPage>;

export const WebhookPath = Type.Object({ webhook_id: uuid("Webhook of your workspace.") });
export type WebhookPath = Static<typeof WebhookPath>;

export const ListWebhooksQuery = Type.Object(offsetQuery);
export type ListWebhooksQuery = Static<typeof ListWebhooksQuery>;

export const CreateWebhook = Type.Object(
  {
    url: url("http or https, without a user name. Redirects are not followed. `mailto:` and one address sends mail."),
    format: chosenFormat,
    description: optional(description),
    types: optional(types, "Absent: all; for Slack and mail, the beginning and the end of alerts."),
    deployment_ids: optional(deploymentIds, "Absent: all of the workspace."),
    enabled: optional(Type.Boolean(), "Default true."),
  },
  { $id: "CreateWebhook" },
);
export type CreateWebhook = Static<typeof CreateWebhook>;

/** An absent field leaves the setting unchanged. Null removes a filter. */
export const PatchWebhook = Type.Object(
  {
    url: optional(url()),
    format: chosenFormat,
    description: Type.Optional(nullable(description)),
    types: Type.Optional(nullable(types, "null: all.")),
    deployment_ids: Type.Optional(nullable(deploymentIds, "null: all of the workspace.")),
    enabled: optional(Type.Boolean(), "true also enables a webhook that the server disabled."),
  },
  { $id: "PatchWebhook" },
);
export type PatchWebhook = Static<typeof PatchWebhook>;

export const DeliveryStatus = literals(["pending", "delivered", "failed"]);
export type DeliveryStatus = Static<typeof DeliveryStatus>;

/** Message to a webhook, with the result of the last attempt. */
export const WebhookDelivery = Type.Object(
  {
    id: Type.String({ format: "uuid", description: "Sent as `webhook-id`. The same in every attempt." }),
    webhook_id: uuid(),
    event_id: nullable(Type.String({ examples: ["4711"] }), "null: a test message."),
    type: Type.String({
      description: "Type of the event. `webhook.test` for a test message.",
      examples: ["revision.status"],
    }),
    status: DeliveryStatus,
    attempts: Type.Integer(),
    next_attempt_at: nullable(timestamp()),
    last_attempt_at: nullable(timestamp()),
    duration_ms: nullable(Type.Integer(), "Duration of the last attempt."),
    response_status: nullable(Type.Integer({ examples: [200] })),
    response_bytes: nullable(Type.Integer({ examples: [2] }), "Size of the response in bytes."),
    response_text: nullable(
      Type.String({ examples: ["ok"] }),
      "Start of the response, if the operator allows to record it (`PIERHEAD_WEBHOOK_ANSWERS`).",
    ),
    error: nullable(
      Type.String({ examples: ["ci.example.org cannot be reached (ECONNREFUSED)."] }),
      "Why there was no response.",
    ),
    payload: freeObject("The message: `type`, `timestamp`, and the event in `data`."),
    created_at: timestamp(),
  },
  { $id: "WebhookDelivery" },
);
export type WebhookDelivery = Static<typeof WebhookDelivery>;

export const WebhookDeliveryPage = cursorPage(WebhookDelivery, "WebhookDeliveryPage");
export type WebhookDeliveryPage = Static<typeof WebhookDeliveryPage>;

export const WebhookDeliveryPath = Type.Object({
  webhook_id: uuid("Webhook of your workspace."),
  delivery_id: uuid("Delivery of this webhook."),
});
export type WebhookDeliveryPath = Static<typeof WebhookDeliveryPath>;

export const ListDeliveriesQuery = Type.Object({
  ...cursorQuery,
  status: Type.Optional(literals(DeliveryStatus.enum, { description: "Only deliveries with this status." })),
});
export type ListDeliveriesQuery = Static<typeof ListDeliveriesQuery>;
