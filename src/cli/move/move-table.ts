import { deploymentArgument, dryRunOption, timeoutOption, yesOption } from "../arguments.ts";
import type { CommandSpec } from "../command.ts";

export const moveCommand: CommandSpec = {
  name: "move",
  summary: "Move a deployment with its variables and its database to another listener or control plane",
  args: [deploymentArgument],
  options: [
    ["--to-context <context>", "context of the other control plane; default: the same control plane"],
    ["--to-listener <listener>", "listener that runs it there, by name or id"],
    ["--to-where <labels...>", "labels KEY=VALUE of the listener, instead of --to-listener"],
    ["--to-namespace <namespace>", "namespace of that listener; needed if it has several"],
    ["--to-integration <id>", "integration of the other control plane that reads a private repository"],
    ["--as <name>", "name there; default: the same, or NAME-2 in the same control plane"],
    ["--from-kubectl <context>", "context of kubectl for a database in the old cluster"],
    ["--to-kubectl <context>", "context of kubectl for a database in the new cluster"],
    ["--continue", "the database was copied by hand, go on"],
    ["--finish", "delete the old one"],
    ["--back", "let the old one take writes again, and delete the new one"],
    yesOption,
    dryRunOption,
    timeoutOption,
  ],
  examples: [
    "pierhead move support --to-context eu",
    "pierhead move support --to-listener eu-1 --as support-eu",
    "pierhead move support --to-context eu --finish",
    "pierhead move support --to-context eu --back",
  ],
  json: '{"outcome": "planned" | "copy_by_hand" | "moved" | "finished" | "taken_back", "plan": [string], "from": {"name": string, "deployment_id": string, "url": string | null} | null, "to": {"name": string, "deployment_id": string, "url": string | null} | null, "tables": [{"name": string, "rows": number}] | null}',
  load: async () => (await import("./move.ts")).move,
};
