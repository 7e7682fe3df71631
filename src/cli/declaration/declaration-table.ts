import { dryRunOption, waitOptions } from "../arguments.ts";
import type { CommandSpec } from "../command.ts";

const fileOption = ["-f, --file <file>", "the declaration", "pierhead.yaml"] as const;
const pruneOption = [
  "--prune [names...]",
  "delete these deployments; without names, those with the tag of the file that the file no longer has",
] as const;

/** Commands that keep deployments as a file declares them. */
export const declarationCommands: readonly CommandSpec[] = [
  {
    name: "plan",
    alias: "diff",
    summary: "Show what apply would change; exit code 2 when there is something",
    options: [fileOption, pruneOption],
    examples: ["pierhead plan", "pierhead diff --prune", "pierhead plan --file agents.yaml --json"],
    json: '{"changes": [Change], "left": [string]}',
    load: async () => (await import("./apply.ts")).plan,
  },
  {
    name: "apply",
    summary: "Create and change deployments until they are as a file declares",
    options: [fileOption, pruneOption, dryRunOption, ...waitOptions],
    examples: ["pierhead apply", "pierhead apply --prune", "pierhead apply --file agents.yaml --prune old-agent"],
    json: '{"changes": [Change], "left": [string], "applied": boolean, "failed"?: [string], "pending"?: [string]}',
    load: async () => (await import("./apply.ts")).apply,
  },
  {
    name: "pull",
    summary: "Write the settings of deployments into a file; values of secrets become references",
    args: [["[deployment...]", "names for a new file; default: those of the file"]],
    options: [fileOption],
    examples: ["pierhead pull support billing", "pierhead pull"],
    json: '{"file": string, "deployments": [string]}',
    load: async () => (await import("./pull.ts")).pull,
  },
];
