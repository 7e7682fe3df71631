import { deploymentArgument } from "../arguments.ts";
import type { CommandSpec } from "../command.ts";

const sendKeyOption = ["--send-key", "send your key to the agent, also at another address than the server's"] as const;
const limitOption = ["--limit <count>", "maximum number", "20"] as const;

const replicaOption = ["--replica <id>", "replica, as ps lists it; default: the newest ready one"] as const;

/** Commands that talk to agents, begin a project, and serve coding agents. */
export const agentCommands: readonly CommandSpec[] = [
  {
    name: "init",
    summary: "Show what would be deployed from a directory, or begin a project from a template in an empty one",
    args: [["[directory]", "default: this one"]],
    options: [["--template <id>", "template to copy"]],
    examples: ["pierhead init", "pierhead init my-agent --template langgraph-js-hello"],
    json: '{"directory": string, "template": string | null, "found": string}',
    load: async () => (await import("./init.ts")).init,
  },
  {
    name: "invoke",
    summary: "Send a message to an agent and print its answer",
    args: [deploymentArgument, ["[message]", "default: stdin"]],
    options: [
      ["--stream", "print the answer while it is made"],
      ["--thread <id>", "continue this thread; default: a new one"],
      ["--assistant <name>", "graph, name or id of the assistant; default: the only one"],
      ["--input <json>", "input of the graph instead of a message: JSON, @file, or - for stdin"],
      ["--timeout <time>", "longest silence of the agent: 90s, 10m", "10m"],
      sendKeyOption,
    ],
    examples: ['pierhead invoke support "hello"', 'pierhead invoke support "and then?" --stream --thread THREAD'],
    json: '{"deployment": string, "assistant_id": string, "thread_id": string, "values": object}',
    load: async () => (await import("./invoke.ts")).invoke,
  },
  {
    name: "threads",
    summary: "List the newest threads of an agent",
    args: [deploymentArgument],
    options: [limitOption, sendKeyOption],
    examples: ["pierhead threads support"],
    json: '{"deployment": string, "threads": [object]}',
    jsonNote: "as the agent sends them",
    load: async () => (await import("./threads.ts")).threads,
  },
  {
    name: "runs",
    summary: "List the newest runs of a thread",
    args: [deploymentArgument, ["<thread>", "id of the thread"]],
    options: [limitOption, sendKeyOption],
    examples: ["pierhead runs support THREAD"],
    json: '{"deployment": string, "runs": [object]}',
    jsonNote: "as the agent sends them",
    load: async () => (await import("./threads.ts")).runs,
  },
  {
    name: "mcp",
    summary: "Offer the server as tools to a coding agent over stdio (Model Context Protocol)",
    options: [["--read-only", "only tools that change nothing"]],
    examples: ["claude mcp add pierhead -- pierhead mcp", "pierhead mcp --read-only --context production"],
    json: "none",
    jsonNote: "because stdout belongs to the protocol",
    load: async () => (await import("./mcp.ts")).serveMcp,
  },
  {
    name: "exec",
    summary: "Run a program beside an agent, with its files and variables",
    args: [deploymentArgument, ["<command...>", "program and arguments, after --; no shell reads them"]],
    options: [replicaOption, ["--no-tty", "no terminal, also where this command has one"]],
    examples: ["pierhead exec support -- env", "pierhead exec support -- python manage.py migrate"],
    json: '{"replica_id": string, "exit_code": number, "stdout": string, "stderr": string}',
    load: async () => (await import("./exec.ts")).execute,
  },
  {
    name: "shell",
    summary: "Open a shell beside an agent",
    args: [deploymentArgument],
    options: [replicaOption, ["--shell <program>", "shell to start", "sh"]],
    examples: ["pierhead shell support", "pierhead shell support --shell bash"],
    json: '{"error": Error}',
    load: async () => (await import("./exec.ts")).shell,
  },
  {
    name: "port-forward",
    summary: "Serve an agent on a port of this machine, with your key added, for programs that can send none",
    args: [deploymentArgument, ["[port]", "port of 127.0.0.1; default: a free one"]],
    options: [
      sendKeyOption,
      ["--allow-origin <origin>", "pages of this origin may call the agent, too"],
      [
        "--through-server",
        "go through the server and the agent's listener, as without it where the address is not reachable",
      ],
    ],
    examples: ["pierhead port-forward support 2024"],
    json: '{"url": string, "deployment": string, "sends_key": boolean}',
    load: async () => (await import("./port-forward.ts")).portForward,
  },
];
