import { operation } from "../operation.ts";
import {
  CreateWebhook,
  ListDeliveriesQuery,
  ListWebhooksQuery,
  NewWebhook,
  PatchWebhook,
  Webhook,
  WebhookDelivery,
  WebhookDeliveryPage,
  WebhookDeliveryPath,
  WebhookPage,
  WebhookPath,
  WebhookSecret,
} from "./webhook.ts";

/** Readers have no access, because the address of a webhook may contain a secret of its receiver. */
const defaults = { tag: "Webhooks", role: "deployer" } as const;

/** Endpoints that receive events (docs/guides/events.md). */
export const webhookOperations = {
  listWebhooks: operation("listWebhooks", {
    ...defaults,
    operationId: "list_webhooks_v2_webhooks_get",
    summary: "List the webhooks of the workspace",
    query: ListWebhooksQuery,
    response: { status: 200, schema: WebhookPage },
  }),
  createWebhook: operation("createWebhook", {
    ...defaults,
    operationId: "create_webhook_v2_webhooks_post",
    summary: "Create a webhook for events; only this response shows the signing secret",
    body: CreateWebhook,
    response: { status: 201, schema: NewWebhook },
    errors: ["invalidField", "deploymentNotFound", "tooManyWebhooks"],
  }),
  getWebhook: operation("getWebhook", {
    ...defaults,
    operationId: "get_webhook_v2_webhooks__webhook_id__get",
    summary: "Read a webhook",
    params: WebhookPath,
    response: { status: 200, schema: Webhook },
    errors: ["webhookNotFound"],
  }),
  patchWebhook: operation("patchWebhook", {
    ...defaults,
    operationId: "patch_webhook_v2_webhooks__webhook_id__patch",
    summary: "Change a webhook, or enable it again",
    params: WebhookPath,
    body: PatchWebhook,
    response: { status: 200, schema: Webhook },
    errors: ["webhookNotFound", "invalidField", "deploymentNotFound"],
  }),
  deleteWebhook: operation("deleteWebhook", {
    ...defaults,
    operationId: "delete_webhook_v2_webhooks__webhook_id__delete",
    summary: "Delete a webhook and its deliveries",
    params: WebhookPath,
    response: { status: 204, schema: null },
    errors: ["webhookNotFound"],
  }),
  replaceWebhookSecret: operation("replaceWebhookSecret", {
    ...defaults,
    operationId: "replace_webhook_secret_v2_webhooks__webhook_id__secret_post",
    summary: "Replace the signing secret; the old one also signs for another day",
    params: WebhookPath,
    response: { status: 200, schema: WebhookSecret },
    errors: ["webhookNotFound"],
  }),
  testWebhook: operation("testWebhook", {
    ...defaults,
    operationId: "test_webhook_v2_webhooks__webhook_id__test_post",
    summary: "Send a message of the type webhook.test",
    params: WebhookPath,
    response: { status: 202, schema: WebhookDelivery },
    errors: ["webhookNotFound", "webhookDisabled"],
  }),
  listWebhookDeliveries: operation("listWebhookDeliveries", {
    ...defaults,
    operationId: "list_webhook_deliveries_v2_webhooks__webhook_id__deliveries_get",
    summary: "List the deliveries of a webhook, newest first, with the result of the last attempt",
    params: WebhookPath,
    query: ListDeliveriesQuery,
    response: { status: 200, schema: WebhookDeliveryPage },
    errors: ["webhookNotFound", "invalidField"],
  }),
  redeliverWebhook: operation("redeliverWebhook", {
    ...defaults,
    operationId: "redeliver_webhook_v2_webhooks__webhook_id__deliveries__delivery_id__redeliver_post",
    summary: "Send a message again immediately",
    params: WebhookDeliveryPath,
    response: { status: 202, schema: WebhookDelivery },
    errors: ["webhookNotFound", "deliveryNotFound", "webhookDisabled"],
  }),
};
