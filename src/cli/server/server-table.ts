import type { CommandSpec } from "../command.ts";

/** Commands of the operator: run the server or a listener, back up, restore, migrate. */
export const serverCommands: readonly CommandSpec[] = [
  {
    name: "up",
    summary: "Run the server here until Ctrl-C",
    options: [
      ["--port <port>", "port of the API and the gateway; 0 picks a free one"],
      ["--host <address>", "address to listen on"],
      ["--compute <type>", "where agents run: process, docker, simulated, none"],
      ["--stop-agents-on-exit", "also stop the agents; without it they keep running and the next start finds them"],
    ],
    examples: ["pierhead up", "pierhead up --port 9000 --data-dir ./data"],
    json: '{"url": string, "workspace_id": string, "credentials_file": string, "pid": number}',
    jsonNote: "when the server is ready",
    load: async () => (await import("./up.ts")).up,
  },
  {
    name: "dev",
    summary: "Run a project here on a server of its own, and deploy it again when a file changes, until Ctrl-C",
    args: [["[directory]", "default: this one"]],
    options: [
      [
        "-c, --config <path>",
        "langgraph.json, pierhead.json, or a file such as package.json; relative to the directory",
      ],
      ["--env-from <file>", "dotenv file with the variables of the project; default: its .env"],
      ["--port <port>", "port of the server; 0 picks a free one; default: 8124, or a free one if that is taken"],
    ],
    examples: ["pierhead dev", "pierhead dev ./agents/support --port 9000"],
    json: '{"url": string, "deployment": string, "data_dir": string, "pid": number}',
    jsonNote: "when the project serves",
    load: async () => (await import("./dev.ts")).dev,
  },
  {
    name: "listener",
    summary: "Run a data plane here for a remote control plane until Ctrl-C",
    options: [
      ["--port <port>", "port of /ok and /ready, and of the agents outside a cluster; 0 picks a free one"],
      ["--compute <type>", "where agents run: kubernetes, process, docker, simulated"],
    ],
    examples: ["PIERHEAD_LISTENER_KEY_FILE=key pierhead listener --url https://pierhead.example.com"],
    json: '{"url": string, "pid": number}',
    jsonNote: "when it is running",
    load: async () => (await import("./listener.ts")).runListener,
    commands: [
      {
        name: "install",
        summary: "Print the Kubernetes objects of a listener, for kubectl apply",
        options: [
          ["--print", "write the objects to stdout"],
          ["--name <name>", "name of the listener's own objects", "pierhead-listener"],
          ["--namespace <namespace>", "namespace of the listener", "pierhead"],
          [
            "--agents <namespaces>",
            "namespaces of the agents, without that of the listener, separated by commas",
            "agents",
          ],
          ["--key-file <file>", "file with the listener's key; - is stdin"],
          ["--token-file <file>", "file with an enrollment token to exchange for the key; - is stdin"],
          ["--image <image>", "image of Pierhead; default: this version"],
          ["--replicas <count>", "number of replicas: one is active, the others stand by", "2"],
          [
            "--agents-url <url>",
            "address where callers reach agents; {slug} is replaced by the slug of the deployment",
          ],
          ["--gateway <gateway>", "namespace/name of the Gateway that the routes attach to"],
          ["--ingress-class <class>", "class of the Ingress objects, without a Gateway"],
          ["--programs", "the listener may run programs in pods and connect to them, for exec, shell and port-forward"],
        ],
        examples: [
          "pierhead listener install --print --url https://pierhead.example.com --key-file key | kubectl apply -f -",
        ],
        json: "[object]",
        jsonNote: "Kubernetes objects",
        load: async () => (await import("./listener-install.ts")).installListener,
      },
      {
        name: "gateway",
        summary: "Run a replica of the gateway in a Kubernetes cluster (the listener's chart starts it)",
        options: [],
        examples: ["PIERHEAD_URL=https://pierhead.example.com pierhead listener gateway"],
        json: '{"url": string, "pid": number}',
        jsonNote: "when it is running",
        load: async () => (await import("./listener.ts")).runClusterGateway,
      },
    ],
  },
  {
    name: "backup",
    summary: "Write the installation into a file while the server runs (operators)",
    args: [["[file]", "default: a file in this directory, with the time in its name; - is stdout"]],
    examples: ["pierhead backup", "pierhead backup /var/backups/pierhead.tar.gz"],
    json: '{"file": string, "bytes": number}',
    load: async () => (await import("./backup.ts")).backUp,
  },
  {
    name: "restore",
    summary: "Fill an empty database from a backup, before the server's first start",
    args: [
      [
        "<file>",
        "a file that pierhead backup wrote; - is stdin; bucket:latest is the newest backup in PIERHEAD_S3_BUCKET",
      ],
    ],
    examples: ["pierhead restore pierhead.tar.gz --data-dir ~/.pierhead-new", "pierhead restore bucket:latest"],
    json: '{"made_at": string, "deployments": number, "redeployed": number}',
    load: async () => (await import("./backup.ts")).restore,
  },
  {
    name: "migrate",
    summary: "Migrate the database at DATABASE_URL without starting a server",
    json: '{"applied": [string]}',
    load: async () => (await import("./migrate.ts")).migrate,
  },
];
