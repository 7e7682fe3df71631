import type { CommandSpec } from "../command.ts";

const deployment = ["[deployment]", "name, id, or unique prefix of an id"] as const;

export const alertsCommand: CommandSpec = {
  name: "alerts",
  summary: "Show alerts, and change their rules",
  commands: [
    {
      name: "list",
      summary: "List the alerts that fire now",
      options: [["-a, --all", "also the resolved ones"]],
      examples: ["pierhead alerts list --all"],
      json: '{"alerts": [Alert]}',
      load: async () => (await import("./alerts.ts")).alertsList,
    },
    {
      name: "rules",
      summary: "List the rules of the workspace, or as they apply to one deployment",
      args: [deployment],
      examples: ["pierhead alerts rules support-bot"],
      json: "AlertRules",
      load: async () => (await import("./alerts.ts")).alertsRules,
    },
    {
      name: "set",
      summary: "Turn a rule on or off, or change its threshold",
      args: [["<rule>", "a name that `pierhead alerts rules` shows, such as error_share"]],
      options: [
        ["--on", "turn it on"],
        ["--off", "turn it off"],
        ["--threshold <number>", "new threshold, in the unit that `pierhead alerts rules` shows"],
        ["--deployment <deployment>", "for this deployment alone"],
        ["--inherit", "with --deployment: follow the rule of the workspace again"],
      ],
      examples: [
        "pierhead alerts set latency_p95 --on --threshold 2000",
        "pierhead alerts set error_share --deployment support-bot --threshold 2",
      ],
      json: "AlertRule",
      load: async () => (await import("./alerts.ts")).alertsSet,
    },
    {
      name: "mute",
      summary: "Send no notifications of new alerts for some time",
      args: [deployment],
      options: [
        ["--for <duration>", "30m, 2h, 1d", "1h"],
        ["--about <subject>", "instead of a deployment: the server, host or key that an alert names"],
        ["--end", "notify again from now on"],
      ],
      examples: ["pierhead alerts mute support-bot --for 2h", "pierhead alerts mute --about host-1 --for 1d"],
      json: '{"deployment_id": string | null, "subject": string | null, "muted_until": string | null}',
      load: async () => (await import("./alerts.ts")).alertsMute,
    },
  ],
};
