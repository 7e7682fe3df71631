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

/** Readers are kept out: the address of a webhook may hold a secret of its receiver. */
const usual = { tag: "Webhooks", role: "deployer" } as const;

/** Addresses that are told of events (docs/guides/events.md). */
export const webhookOperations = {
  listWebhooks: operation("listWebhooks", {
    ...usual,
    operationId: "list_webhooks_v2_webhooks_get",
    summary: "List the webhooks of the workspace",
    query: ListWebhooksQuery,
    response: { status: 200, schema: WebhookPage },
  }),
  createWebhook: operation("createWebhook", {
    ...usual,
    operationId: "create_webhook_v2_webhooks_post",
    summary: "Have an address told of events; the answer shows the signing secret, once",
    body: CreateWebhook,
    response: { status: 201, schema: NewWebhook },
    errors: ["invalidField", "deploymentNotFound", "tooManyWebhooks"],
  }),
  getWebhook: operation("getWebhook", {
    ...usual,
    operationId: "get_webhook_v2_webhooks__webhook_id__get",
    summary: "Read a webhook",
    params: WebhookPath,
    response: { status: 200, schema: Webhook },
    errors: ["webhookNotFound"],
  }),
  patchWebhook: operation("patchWebhook", {
    ...usual,
    operationId: "patch_webhook_v2_webhooks__webhook_id__patch",
    summary: "Change a webhook, or switch it on again",
    params: WebhookPath,
    body: PatchWebhook,
    response: { status: 200, schema: Webhook },
    errors: ["webhookNotFound", "invalidField", "deploymentNotFound"],
  }),
  deleteWebhook: operation("deleteWebhook", {
    ...usual,
    operationId: "delete_webhook_v2_webhooks__webhook_id__delete",
    summary: "Delete a webhook with its deliveries",
    params: WebhookPath,
    response: { status: 204, schema: null },
    errors: ["webhookNotFound"],
  }),
  replaceWebhookSecret: operation("replaceWebhookSecret", {
    ...usual,
    operationId: "replace_webhook_secret_v2_webhooks__webhook_id__secret_post",
    summary: "Make another signing secret; the one before signs too for a day",
    params: WebhookPath,
    response: { status: 200, schema: WebhookSecret },
    errors: ["webhookNotFound"],
  }),
  testWebhook: operation("testWebhook", {
    ...usual,
    operationId: "test_webhook_v2_webhooks__webhook_id__test_post",
    summary: "Send a message of the type webhook.test",
    params: WebhookPath,
    response: { status: 202, schema: WebhookDelivery },
    errors: ["webhookNotFound", "webhookDisabled"],
  }),
  listWebhookDeliveries: operation("listWebhookDeliveries", {
    ...usual,
    operationId: "list_webhook_deliveries_v2_webhooks__webhook_id__deliveries_get",
    summary: "What a webhook was told, newest first, and how the last attempts went",
    params: WebhookPath,
    query: ListDeliveriesQuery,
    response: { status: 200, schema: WebhookDeliveryPage },
    errors: ["webhookNotFound", "invalidField"],
  }),
  redeliverWebhook: operation("redeliverWebhook", {
    ...usual,
    operationId: "redeliver_webhook_v2_webhooks__webhook_id__deliveries__delivery_id__redeliver_post",
    summary: "Send a message again, now",
    params: WebhookDeliveryPath,
    response: { status: 202, schema: WebhookDelivery },
    errors: ["webhookNotFound", "deliveryNotFound", "webhookDisabled"],
  }),
};
