import { adminCommand } from "./admin-table.ts";
import { authCommand } from "./auth-table.ts";
import { databaseCommand } from "./database-table.ts";
import { eventsCommand, webhooksCommand } from "./events-table.ts";
import { integrationsCommand, pushesCommand } from "./integrations-table.ts";
import type { Session } from "./session.ts";

/** Ends with 0, or by a thrown failure. */
// biome-ignore lint/suspicious/noExplicitAny: each command has options of its own; the table below is where they meet.
export type Run = (session: Session, args: any, options: any) => Promise<void>;

export interface CommandSpec {
  name: string;
  /** Commander's notation: `<needed>`, `[optional]`, `<many...>`. */
  args?: readonly (readonly [notation: string, meaning: string])[];
  options?: readonly (readonly [flags: string, meaning: string, fallback?: string])[];
  summary: string;
  examples?: readonly string[];
  /** Shape of the `--json` answer, for the reference page. */
  json?: string;
  /** Loaded when the command runs: `--help` should not wait for what it does not use. */
  load?: () => Promise<Run>;
  commands?: readonly CommandSpec[];
  hidden?: boolean;
}

const deployment = ["<deployment>", "name, id, or unique beginning of an id"] as const;
const revision = ["[revision]", "id or unique beginning of one"] as const;
const waiting = [
  ["--no-wait", "do not wait for the end; exit code 8"],
  ["--timeout <time>", "how long to wait, as 90s, 10m, 2h", "30m"],
] as const;
const yes = ["-y, --yes", "do not ask"] as const;
const followed = '{"deployment": Deployment, "revision": Revision, "elapsed_ms": number, "error"?: Error}';

/** Every command: what it is called, what it takes, and where it is done. Help, completion and docs are made from it. */
export const commandTable: readonly CommandSpec[] = [
  {
    name: "up",
    summary: "Run the server here until Ctrl-C",
    options: [
      ["--port <port>", "port of API and gateway; 0 picks a free one"],
      ["--host <address>", "address to listen on"],
      ["--compute <type>", "where agents run: process, simulated, none"],
      ["--stop-agents-on-exit", "stop the agents too, which otherwise go on and are found again"],
    ],
    examples: ["pierhead up", "pierhead up --port 9000 --data-dir ./data"],
    json: '{"url": string, "workspace_id": string, "credentials_file": string, "pid": number}, when the server is ready',
    load: async () => (await import("./commands/up.ts")).up,
  },
  {
    name: "listener",
    summary: "Run a data plane here that follows a control plane elsewhere, until Ctrl-C",
    options: [
      ["--port <port>", "port of /ok and /ready, and of the agents unless they run in a cluster; 0 picks a free one"],
      ["--compute <type>", "where agents run: kubernetes, process, docker, simulated"],
    ],
    examples: ["PIERHEAD_LISTENER_KEY_FILE=key pierhead listener --url https://pierhead.example.com"],
    json: '{"url": string, "pid": number}, when it runs',
    load: async () => (await import("./commands/listener.ts")).runListener,
    commands: [
      {
        name: "install",
        summary: "Print what runs a listener on a cluster, for kubectl",
        options: [
          ["--print", "write the objects to stdout"],
          ["--name <name>", "of the listener's own objects", "pierhead-listener"],
          ["--namespace <namespace>", "where the listener runs", "pierhead"],
          ["--agents <namespaces>", "where agents may live, separated by commas; default: the same"],
          ["--key-file <file>", "file with the listener's key; - is stdin"],
          ["--token-file <file>", "file with an enrollment token, which is exchanged for the key; - is stdin"],
          ["--image <image>", "of Pierhead; default: this version"],
          ["--replicas <count>", "one acts, the others stand by", "2"],
          ["--agents-url <url>", "where callers reach agents; {slug} stands for that of a deployment"],
          ["--gateway <gateway>", "namespace/name of the Gateway that routes hang on"],
          ["--ingress-class <class>", "class of Ingress objects, where there is no Gateway"],
        ],
        examples: [
          "pierhead listener install --print --url https://pierhead.example.com --key-file key | kubectl apply -f -",
        ],
        json: "a list of Kubernetes objects",
        load: async () => (await import("./commands/listener-install.ts")).installListener,
      },
    ],
  },
  {
    name: "backup",
    summary: "Write the installation as of now into a file, as the operator, while it goes on",
    args: [["[file]", "default: a file here, with the time in its name"]],
    examples: ["pierhead backup", "pierhead backup /var/backups/pierhead.tar.gz"],
    json: '{"file": string, "bytes": number}',
    load: async () => (await import("./commands/backup.ts")).backUp,
  },
  {
    name: "restore",
    summary: "Fill an empty database from a backup, before the server's first start",
    args: [["<file>", "made by pierhead backup"]],
    examples: ["pierhead restore pierhead.tar.gz --data-dir ~/.pierhead-new"],
    json: '{"made_at": string, "deployments": number, "redeployed": number}',
    load: async () => (await import("./commands/backup.ts")).restore,
  },
  {
    name: "migrate",
    summary: "Bring the tables of DATABASE_URL up to date, without starting a server",
    json: '{"applied": string[]}',
    load: async () => (await import("./commands/migrate.ts")).migrate,
  },
  {
    name: "deploy",
    summary: "Deploy a directory, a git URL or a template, and wait until it serves",
    args: [["[source]", "directory (default: this one), git URL, or template id"]],
    options: [
      ["-n, --name <name>", "deployment to make or change; default: from the source"],
      ["-c, --config <path>", "langgraph.json or pierhead.json, relative to the source"],
      ["--ref <ref>", "branch, refs/tags/TAG or commit of a git URL"],
      ["--template <id>", "template of the server's catalogue"],
      ["--env-file <file>", "dotenv file whose variables are sent, sealed, and kept"],
      ["--type <type>", "dev_free, dev, prod, dev_zero or dev_free_zero, at the first deploy"],
      ["--install-command <command>", "instead of the detected install command"],
      ["--build-command <command>", "runs after the installation"],
      ...waiting,
    ],
    examples: [
      "pierhead deploy",
      "pierhead deploy ./agents/support --name support --env-file .env",
      "pierhead deploy https://example.com/team/agent.git --ref main",
      "pierhead deploy --template node-server",
    ],
    json: followed,
    load: async () => (await import("./commands/deploy.ts")).deploy,
  },
  {
    name: "list",
    summary: "List the deployments",
    options: [
      ["--status <status>", "only those in this status"],
      ["--search <text>", "only those whose name contains this"],
      ["--tag <tags...>", "only those tagged TAG=VALUE; values of one tag are alternatives"],
      ["--limit <count>", "at most so many", "100"],
    ],
    examples: ["pierhead list", "pierhead list --json | jq -r '.deployments[].url'"],
    json: '{"deployments": [Deployment], "has_more": boolean}',
    load: async () => (await import("./commands/list.ts")).list,
  },
  {
    name: "status",
    summary: "Show a deployment and its latest revisions",
    args: [deployment],
    options: [["-w, --watch", "wait for the newest revision to end"], waiting[1]],
    examples: ["pierhead status support", "pierhead status support --watch"],
    json: `{"deployment": Deployment, "revisions": [Revision]}; with --watch ${followed}`,
    load: async () => (await import("./commands/status.ts")).status,
  },
  {
    name: "logs",
    summary: "Show what the replicas, or a build, wrote",
    args: [deployment],
    options: [
      ["-f, --follow", "go on until Ctrl-C, over lost connections"],
      ["--build", "the build of the newest revision"],
      ["--level <level>", "DEBUG, INFO, WARNING, ERROR or CRITICAL, and what is worse"],
      ["--since <time>", "a moment (ISO 8601) or a length of time ago: 10m, 2h"],
      ["-n, --lines <count>", "start with so many of the newest lines", "100"],
      ["--revision <id>", "only this revision"],
      ["--search <text>", "only lines that contain this"],
    ],
    examples: [
      "pierhead logs support -f",
      "pierhead logs support --build",
      "pierhead logs support --level ERROR --since 2h",
    ],
    json: "one LogEntry a line",
    load: async () => (await import("./commands/logs.ts")).logs,
  },
  eventsCommand,
  {
    name: "redeploy",
    summary: "Run a revision again with the current variables; nothing is built that was kept",
    args: [deployment, revision],
    options: waiting,
    examples: ["pierhead redeploy support", "pierhead redeploy support b8a1c2d3"],
    json: followed,
    load: async () => (await import("./commands/redeploy.ts")).redeploy,
  },
  {
    name: "rollback",
    summary: "Go back to the revision that was deployed before, or to a named one",
    args: [deployment, revision],
    options: [yes, ...waiting],
    examples: ["pierhead rollback support", "pierhead rollback support b8a1c2d3 --yes"],
    json: followed,
    load: async () => (await import("./commands/redeploy.ts")).rollback,
  },
  {
    name: "cancel",
    summary: "Stop the revisions that are in progress; builds are killed",
    args: [deployment, revision],
    examples: ["pierhead cancel support"],
    json: '{"deployment_id": string, "interrupted": [revision id]}',
    load: async () => (await import("./commands/cancel.ts")).cancel,
  },
  {
    name: "delete",
    summary: "Delete deployments and everything that was made for them",
    args: [["<deployment...>", "names, ids, or unique beginnings of ids"]],
    options: [yes, ["--force", "forget one whose deletion hangs, without its data plane"], ...waiting],
    examples: ["pierhead delete support", "pierhead delete pr-1 pr-2 pr-3 --yes --no-wait"],
    json: '{"deployment_id": string, "deleted": boolean}; of several: {"deployments": [...]}',
    load: async () => (await import("./commands/delete.ts")).deleteDeployments,
  },
  {
    name: "why",
    summary: "Show what the server would do next with a deployment, and what it waits for",
    args: [deployment],
    examples: ["pierhead why support"],
    json: "DeploymentDebug",
    load: async () => (await import("./commands/why.ts")).why,
  },
  {
    name: "env",
    summary: "Read and change the variables of a deployment",
    commands: [
      {
        name: "list",
        summary: "List the variables, without their values",
        args: [deployment],
        options: [["--reveal", "show the values"]],
        examples: ["pierhead env list support"],
        json: '{"deployment_id": string, "variables": [{"name": string, "value": string | null}]}',
        load: async () => (await import("./commands/env.ts")).envList,
      },
      {
        name: "set",
        summary: "Set a variable to what is typed, or comes on stdin",
        args: [deployment, ["<variable>", "its name; a value does not belong on a command line"]],
        options: waiting,
        examples: ["pierhead env set support OPENAI_API_KEY", "pierhead env set support OPENAI_API_KEY < key.txt"],
        json: followed,
        load: async () => (await import("./commands/env.ts")).envSet,
      },
      {
        name: "unset",
        summary: "Remove variables",
        args: [deployment, ["<variables...>", "names"]],
        options: waiting,
        examples: ["pierhead env unset support OLD_KEY OTHER"],
        json: followed,
        load: async () => (await import("./commands/env.ts")).envUnset,
      },
      {
        name: "import",
        summary: "Add the variables of a dotenv file",
        args: [deployment, ["<file>", "dotenv file; - is stdin"]],
        options: waiting,
        examples: ["pierhead env import support .env"],
        json: followed,
        load: async () => (await import("./commands/env.ts")).envImport,
      },
    ],
  },
  authCommand,
  integrationsCommand,
  pushesCommand,
  webhooksCommand,
  databaseCommand,
  adminCommand,
  {
    name: "open",
    summary: "Print the address of a deployment, and open it in the browser",
    args: [deployment],
    options: [["--console", "its page in the console instead"]],
    examples: ['curl "$(pierhead open support)/ok"'],
    json: '{"url": string}',
    load: async () => (await import("./commands/open.ts")).open,
  },
  {
    name: "doctor",
    summary: "Check this machine and the server, with a fix for what is wrong",
    examples: ["pierhead doctor"],
    json: '{"checks": [{"name": string, "status": "ok" | "warning" | "failed", "found": string, "fix": string | null}]}',
    load: async () => (await import("./commands/doctor.ts")).doctor,
  },
  {
    name: "api",
    summary: "Make one API call with the key; the answer is printed as it is, secrets included",
    args: [
      ["<method>", "GET, POST, PUT, PATCH or DELETE"],
      ["<path>", "such as /v2/deployments"],
    ],
    options: [["-d, --data <json>", "body: JSON, @file, or - for stdin"]],
    examples: ["pierhead api GET '/v2/deployments?limit=1'", "pierhead api PATCH /v2/deployments/ID -d @patch.json"],
    json: "the answer",
    load: async () => (await import("./commands/api.ts")).api,
  },
  {
    name: "completion",
    summary: "Print a completion script for bash, zsh or fish",
    args: [["<shell>", "bash, zsh or fish"]],
    examples: [
      "source <(pierhead completion bash)",
      "pierhead completion fish > ~/.config/fish/completions/pierhead.fish",
    ],
    json: '{"shell": string, "script": string}',
    load: async () => (await import("./commands/completion.ts")).completion,
  },
  {
    name: "version",
    summary: "Show the versions of this program and of the server",
    json: '{"client": string, "server": string | null, "node": string}',
    load: async () => (await import("./commands/version.ts")).version,
  },
  {
    name: "__complete",
    summary: "What could follow; asked by the completion scripts",
    args: [["[words...]", "the words so far, the last one unfinished"]],
    hidden: true,
    load: async () => (await import("./commands/completion.ts")).complete,
  },
];

/** Options that every command takes. */
export const globalOptions: readonly (readonly [flags: string, meaning: string])[] = [
  ["--json", "answer with one JSON document on stdout"],
  ["--url <url>", "server; else PIERHEAD_URL, else credentials.json of the data directory"],
  ["--workspace <id>", "workspace; else PIERHEAD_WORKSPACE, else the key's own"],
  ["--api-key-file <file>", "file with the API key, - is stdin; else PIERHEAD_API_KEY, else credentials.json"],
  ["--data-dir <directory>", "data directory of a server on this machine; else PIERHEAD_DATA_DIR, else ~/.pierhead"],
  ["--verbose", "show HTTP calls, secrets masked, and build lines"],
  ["--no-color", "no colors; NO_COLOR, FORCE_COLOR, CI and TERM=dumb are obeyed too"],
];
