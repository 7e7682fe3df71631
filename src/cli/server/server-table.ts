import type { CommandSpec } from "../command.ts";

/** Commands of the operator: run the server or a listener, back up, restore, migrate. */
export const serverCommands: readonly CommandSpec[] = [
  {
    name: "up",
    summary: "Run the server here until Ctrl-C",
    options: [
      ["--port <port>", "port of API and gateway; 0 picks a free one"],
      ["--host <address>", "address to listen on"],
      ["--compute <type>", "where agents run: process, docker, simulated, none"],
      ["--stop-agents-on-exit", "stop the agents too, which otherwise go on and are found again"],
    ],
    examples: ["pierhead up", "pierhead up --port 9000 --data-dir ./data"],
    json: '{"url": string, "workspace_id": string, "credentials_file": string, "pid": number}, when the server is ready',
    load: async () => (await import("./up.ts")).up,
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
    load: async () => (await import("./listener.ts")).runListener,
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
        load: async () => (await import("./listener-install.ts")).installListener,
      },
    ],
  },
  {
    name: "backup",
    summary: "Write the installation as of now into a file, as the operator, while it goes on",
    args: [["[file]", "default: a file here, with the time in its name"]],
    examples: ["pierhead backup", "pierhead backup /var/backups/pierhead.tar.gz"],
    json: '{"file": string, "bytes": number}',
    load: async () => (await import("./backup.ts")).backUp,
  },
  {
    name: "restore",
    summary: "Fill an empty database from a backup, before the server's first start",
    args: [["<file>", "made by pierhead backup"]],
    examples: ["pierhead restore pierhead.tar.gz --data-dir ~/.pierhead-new"],
    json: '{"made_at": string, "deployments": number, "redeployed": number}',
    load: async () => (await import("./backup.ts")).restore,
  },
  {
    name: "migrate",
    summary: "Bring the tables of DATABASE_URL up to date, without starting a server",
    json: '{"applied": string[]}',
    load: async () => (await import("./migrate.ts")).migrate,
  },
];
