import type { CommandSpec } from "../command.ts";

const contextList = '{"current": string, "contexts": [{"name": string, "url": string, "workspace_id": string | null}]}';

/** Commands that choose the server, the key and the workspace. */
export const loginCommands: readonly CommandSpec[] = [
  {
    name: "login",
    summary: "Sign in to a server in the browser, or with a key, and store its key as a context",
    args: [["[url]", "address of the server; default: --url, then PIERHEAD_URL, then the current context"]],
    options: [
      ["--name <name>", "name of the context; default: the host"],
      ["--browser", "show a code to type in the console; the default in a terminal"],
      ["--key", "take an API key: asked for in a terminal, otherwise from stdin"],
    ],
    examples: [
      "pierhead login https://pierhead.example.com",
      "pierhead login https://pierhead.example.com --workspace Search --name search <key.txt",
      "pierhead login --browser https://pierhead.example.com",
    ],
    json: '{"context": string, "url": string, "workspace_id": string | null, "session": Session}',
    load: async () => (await import("./login.ts")).login,
  },
  {
    name: "logout",
    summary: "Delete a context and its key from this machine, and revoke a key from the browser",
    args: [["[context]", "default: the current context"]],
    examples: ["pierhead logout", "pierhead logout search"],
    json: '{"context": string, "deleted": true, "revoked": boolean}',
    load: async () => (await import("./login.ts")).logout,
  },
  {
    name: "whoami",
    summary: "Show the server, the key with its role, and the workspace that commands use",
    examples: ["pierhead whoami", "pierhead whoami --context search"],
    json: '{"url": string, "url_from": string, "api_key_from": string, "workspace_id": string | null, "session": Session}',
    load: async () => (await import("./whoami.ts")).whoami,
  },
  {
    name: "context",
    summary: "List the stored contexts, or choose the current one",
    examples: ["pierhead context", "pierhead context use search"],
    json: contextList,
    load: async () => (await import("./context-commands.ts")).contextList,
    commands: [
      {
        name: "list",
        summary: "List the contexts; * marks the current one",
        examples: ["pierhead context list"],
        json: contextList,
        load: async () => (await import("./context-commands.ts")).contextList,
      },
      {
        name: "use",
        summary: "Make a context the current one",
        args: [["<context>", "name of a context, or local for the server of the data directory"]],
        examples: ["pierhead context use search", "pierhead context use local"],
        json: '{"current": string}',
        load: async () => (await import("./context-commands.ts")).contextUse,
      },
    ],
  },
];
