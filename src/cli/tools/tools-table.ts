import type { CommandSpec } from "../command.ts";

/** Commands around the program itself: checks, raw API calls, completion, versions. */
export const toolCommands: readonly CommandSpec[] = [
  {
    name: "doctor",
    summary: "Check this machine and the server, and suggest a fix for each problem",
    examples: ["pierhead doctor"],
    json: '{"checks": [{"name": string, "status": "ok" | "warning" | "failed", "found": string, "fix": string | null}], "posture": Posture | null}',
    load: async () => (await import("./doctor.ts")).doctor,
  },
  {
    name: "detect",
    summary: "Show what a deploy of a directory would deploy",
    args: [["[directory]", "default: this one"]],
    options: [["-c, --config <path>", "langgraph.json, pierhead.json, or a file such as package.json"]],
    examples: ["pierhead detect", "pierhead detect ./agents/support"],
    json: '{"name": string, "found": string, "config_path": string, "root": string, "recognized": boolean}',
    load: async () => (await import("./detect.ts")).detect,
  },
  {
    name: "api",
    summary: "Make one API call with the key, and print the response unchanged, including secrets",
    args: [
      ["<method>", "GET, POST, PUT, PATCH or DELETE"],
      ["<path>", "for example /v2/deployments"],
    ],
    options: [["-d, --data <json>", "body: JSON, @file, or - for stdin"]],
    examples: ["pierhead api GET '/v2/deployments?limit=1'", "pierhead api PATCH /v2/deployments/ID -d @patch.json"],
    json: "any",
    jsonNote: "the response as it is",
    load: async () => (await import("./api.ts")).api,
  },
  {
    name: "completion",
    summary: "Print a completion script for bash, zsh, fish or PowerShell",
    args: [["<shell>", "bash, zsh, fish or pwsh"]],
    examples: [
      "source <(pierhead completion bash)",
      "pierhead completion fish > ~/.config/fish/completions/pierhead.fish",
    ],
    json: '{"shell": string, "script": string}',
    load: async () => (await import("./completion.ts")).completion,
  },
  {
    name: "schema",
    summary: "Print the JSON Schema of the --json answer of a command, or of all",
    args: [["[command...]", "words of the command, such as admin keys list; default: all commands"]],
    examples: ["pierhead schema list", "pierhead schema admin keys list"],
    json: "object",
    jsonNote: "a JSON Schema (draft 2020-12)",
    load: async () => (await import("./json-schema.ts")).schema,
  },
  {
    name: "version",
    summary: "Show the versions of this program and the server",
    options: [["--check", "ask the npm registry for the newest version; nothing else ever asks for it"]],
    examples: ["pierhead version --check"],
    json: '{"client": string, "server": string | null, "node": string, "newest"?: string | null}',
    load: async () => (await import("./version-command.ts")).version,
  },
  {
    name: "__complete",
    summary: "Print completion candidates; called by the completion scripts",
    args: [["[words...]", "the words typed so far; the last one is unfinished"]],
    hidden: true,
    load: async () => (await import("./completion.ts")).complete,
  },
];
