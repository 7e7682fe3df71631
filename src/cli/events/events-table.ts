import { yesOption } from "../arguments.ts";
import type { CommandSpec } from "../command.ts";

const webhook = ["<webhook>", "description, address, id, or unique prefix of an id"] as const;
const settings = [
  ["--types <types>", "only these events, separated by commas: revision.status,deployment.deleted"],
  ["--deployment <deployments>", "only these deployments, by name or id, separated by commas"],
  ["--description <text>", "purpose"],
] as const;

export const eventsCommand: CommandSpec = {
  name: "events",
  summary: "Show the events of the workspace or of one deployment",
  args: [["[deployment]", "name, id, or unique prefix of an id; default: all"]],
  options: [
    ["-f, --follow", "keep printing until Ctrl-C, and reconnect after lost connections"],
    ["-n, --lines <count>", "number of newest events to start with", "20"],
    ["--types <types>", "only these event types, separated by commas: revision.status,deployment.deleted"],
  ],
  examples: ["pierhead events", "pierhead events support -f", "pierhead events -f --types revision.status --json"],
  json: "Event",
  jsonNote: "one document a line",
  load: async () => (await import("./events.ts")).events,
};

export const webhooksCommand: CommandSpec = {
  name: "webhooks",
  summary: "Send events to your own addresses",
  commands: [
    {
      name: "list",
      summary: "List the webhooks of the workspace",
      json: '{"webhooks": [Webhook]}',
      load: async () => (await import("./webhooks.ts")).webhooksList,
    },
    {
      name: "create",
      summary: "Create a webhook; its signing secret is shown only once",
      args: [["<url>", "http or https address that receives the messages, or mailto: and a mail address"]],
      options: [["--slack", "text for an incoming webhook of Slack or Mattermost"], ...settings],
      examples: [
        "pierhead webhooks create https://ci.example.org/pierhead --types revision.status",
        "pierhead webhooks create https://hooks.slack.com/services/T0/B0/x --slack",
        "pierhead webhooks create mailto:ops@example.org",
      ],
      json: "NewWebhook",
      load: async () => (await import("./webhooks.ts")).webhooksCreate,
    },
    {
      name: "update",
      summary: "Change a webhook, or turn it off or on",
      args: [webhook],
      options: [
        ["--address <url>", "new address"],
        ...settings,
        ["--enable", "turn it on, also after the server has turned it off"],
        ["--disable", "turn it off"],
      ],
      examples: ["pierhead webhooks update CI --types all", "pierhead webhooks update 5f0c --enable"],
      json: "Webhook",
      load: async () => (await import("./webhooks.ts")).webhooksUpdate,
    },
    {
      name: "delete",
      summary: "Delete a webhook and its deliveries",
      args: [webhook],
      options: [yesOption],
      json: '{"webhook_id": string, "deleted": boolean}',
      load: async () => (await import("./webhooks.ts")).webhooksDelete,
    },
    {
      name: "secret",
      summary: "Replace the signing secret; messages are also signed with the old one for one day",
      args: [webhook],
      examples: ["pierhead webhooks secret CI"],
      json: "WebhookSecret",
      load: async () => (await import("./webhooks.ts")).webhooksSecret,
    },
    {
      name: "test",
      summary: "Send a webhook.test message and show the result",
      args: [webhook],
      examples: ["pierhead webhooks test CI"],
      json: "WebhookDelivery",
      load: async () => (await import("./webhooks.ts")).webhooksTest,
    },
    {
      name: "deliveries",
      summary: "List the messages of a webhook with their last attempts",
      args: [webhook],
      options: [
        ["--status <status>", "pending, delivered or failed"],
        ["-n, --lines <count>", "number of newest deliveries", "20"],
      ],
      examples: ["pierhead webhooks deliveries CI --status failed"],
      json: '{"deliveries": [WebhookDelivery], "has_more": boolean}',
      load: async () => (await import("./webhooks.ts")).webhooksDeliveries,
    },
    {
      name: "redeliver",
      summary: "Send a message again and show the result",
      args: [webhook, ["<delivery>", "id, or unique prefix among the newest hundred"]],
      examples: ["pierhead webhooks redeliver CI 9b2e"],
      json: "WebhookDelivery",
      load: async () => (await import("./webhooks.ts")).webhooksRedeliver,
    },
  ],
};
