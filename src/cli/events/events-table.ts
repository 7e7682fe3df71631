import type { CommandSpec } from "../command.ts";

const webhook = ["<webhook>", "description, address, id, or unique beginning of an id"] as const;
const settings = [
  ["--types <types>", "only these events, separated by commas: revision.status,deployment.deleted"],
  ["--deployment <deployments>", "only of these, by name or id, separated by commas"],
  ["--description <text>", "what it is for"],
] as const;

export const eventsCommand: CommandSpec = {
  name: "events",
  summary: "Show what happened, in the workspace or to one deployment",
  args: [["[deployment]", "name, id, or unique beginning of an id; default: all"]],
  options: [
    ["-f, --follow", "go on until Ctrl-C, over lost connections"],
    ["-n, --lines <count>", "start with so many of the newest events", "20"],
    ["--types <types>", "only these, separated by commas: revision.status,deployment.deleted"],
  ],
  examples: ["pierhead events", "pierhead events support -f", "pierhead events -f --types revision.status --json"],
  json: "one Event a line",
  load: async () => (await import("./events.ts")).events,
};

export const webhooksCommand: CommandSpec = {
  name: "webhooks",
  summary: "Have addresses told of events",
  commands: [
    {
      name: "list",
      summary: "List the webhooks of the workspace",
      json: '{"webhooks": [Webhook]}',
      load: async () => (await import("./webhooks.ts")).webhooksList,
    },
    {
      name: "create",
      summary: "Have an address told of events; its signing secret is shown this once",
      args: [["<url>", "http or https address that takes the messages"]],
      options: settings,
      examples: ["pierhead webhooks create https://ci.example.org/pierhead --types revision.status"],
      json: "NewWebhook",
      load: async () => (await import("./webhooks.ts")).webhooksCreate,
    },
    {
      name: "update",
      summary: "Change a webhook, or switch it off and on",
      args: [webhook],
      options: [
        ["--address <url>", "another address"],
        ...settings,
        ["--enable", "tell it again; also when the server switched it off"],
        ["--disable", "tell it nothing"],
      ],
      examples: ["pierhead webhooks update CI --types all", "pierhead webhooks update 5f0c --enable"],
      json: "Webhook",
      load: async () => (await import("./webhooks.ts")).webhooksUpdate,
    },
    {
      name: "delete",
      summary: "Delete a webhook with its deliveries",
      args: [webhook],
      options: [["-y, --yes", "do not ask"]],
      json: '{"webhook_id": string, "deleted": boolean}',
      load: async () => (await import("./webhooks.ts")).webhooksDelete,
    },
    {
      name: "secret",
      summary: "Replace the signing secret; for a day the old one signs too",
      args: [webhook],
      examples: ["pierhead webhooks secret CI"],
      json: "WebhookSecret",
      load: async () => (await import("./webhooks.ts")).webhooksSecret,
    },
    {
      name: "test",
      summary: "Send a message of the type webhook.test, and show how it went",
      args: [webhook],
      examples: ["pierhead webhooks test CI"],
      json: "WebhookDelivery",
      load: async () => (await import("./webhooks.ts")).webhooksTest,
    },
    {
      name: "deliveries",
      summary: "Show what a webhook was told, and how the last attempts went",
      args: [webhook],
      options: [
        ["--status <status>", "pending, delivered or failed"],
        ["-n, --lines <count>", "so many of the newest", "20"],
      ],
      examples: ["pierhead webhooks deliveries CI --status failed"],
      json: '{"deliveries": [WebhookDelivery], "has_more": boolean}',
      load: async () => (await import("./webhooks.ts")).webhooksDeliveries,
    },
    {
      name: "redeliver",
      summary: "Send a message again, and show how it went",
      args: [webhook, ["<delivery>", "id, or unique beginning of one of the newest hundred"]],
      examples: ["pierhead webhooks redeliver CI 9b2e"],
      json: "WebhookDelivery",
      load: async () => (await import("./webhooks.ts")).webhooksRedeliver,
    },
  ],
};
