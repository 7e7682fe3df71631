// The suites of `test/**/*.test.ts` that need no packages of their own. Each file belongs to exactly one. A file that no list
// names belongs to `fast`, which is `npm test`. Directories with packages or programs of their own have their own runners.

/** Directories with runners of their own: `npm run test:auth`, `test:clients`, `test:console`, `test:docker` and so on. */
export const ownRunners = [
  "auth/live",
  "clients",
  "cluster",
  "console",
  "docker",
  "engines",
  "hosts",
  "kubeplane",
  "objects",
  "projects",
  "security",
];

/** The files of each suite, as globs from the root. */
const lists = {
  /** The HTTP API, operation by operation, on the embedded database. */
  api: ["test/api/*.test.ts"],
  /** Whole servers with real agents, builds with real toolchains, real processes, lists of many thousand rows. */
  e2e: [
    "test/e2e/*.test.ts",
    "test/builds/build.test.ts",
    "test/builds/langgraph-*.test.ts",
    "test/builds/npm-ci.test.ts",
    "test/builds/python*.test.ts",
    "test/builds/templates.test.ts",
    "test/builds/workspace.test.ts",
    "test/cli/admin.test.ts",
    "test/cli/answers.test.ts",
    "test/cli/auth.test.ts",
    "test/cli/end-to-end.test.ts",
    "test/cli/integrations.test.ts",
    "test/cli/webhooks.test.ts",
    "test/client/documentation.test.ts",
    "test/compute/process/*.test.ts",
    "test/provision/*.test.ts",
    "test/registry/*.test.ts",
    "test/server/agent-callers.test.ts",
    "test/server/remote-listener.test.ts",
    "test/server/traces-off.test.ts",
    "test/store/deployment-list.test.ts",
    "test/webhooks/worker.test.ts",
  ],
  /** The package as a user installs it: packed, installed into an empty folder, deployed from there; and as a coding agent drives it. Needs npm. */
  ship: ["test/ship/*.test.ts", "test/mcp/*.test.ts"],
  /** Kills, partitions, full disks, clocks that jump, databases that stall. */
  faults: [
    "test/faults/*.test.ts",
    "test/builds/build-processes.test.ts",
    "test/integrations/few-descriptors.test.ts",
    "test/listener/partition.test.ts",
    "test/listener/simulation.test.ts",
    "test/server/earlier-copy.test.ts",
    "test/store/clock.test.ts",
    "test/store/embedded-processes.test.ts",
  ],
};

/** The one test of a whole server that belongs to every commit: from a git repository to an answering agent. */
const fastAnyway = ["test/e2e/server.test.ts"];

/** Ends the names of tests that run on PostgreSQL as well as on the embedded database. `fast` and `api` leave them to `postgres`. */
export const onPostgres = /\(postgres\)$/;

export const suites = ["fast", ...Object.keys(lists), "postgres"];

/**
 * Returns the files of a suite, sorted.
 * @param glob `globSync` of Node 22 or later, bound to the root; this file also loads on Node 20, which has none.
 */
export function filesOf(suite, glob) {
  const all = glob("test/**/*.test.ts").filter(
    (file) => !file.includes("node_modules") && !ownRunners.some((directory) => file.startsWith(`test/${directory}/`)),
  );
  const listed = Object.fromEntries(
    Object.entries(lists).map(([name, globs]) => [
      name,
      globs.flatMap((pattern) => glob(pattern)).filter((file) => !fastAnyway.includes(file)),
    ]),
  );
  const elsewhere = new Set(Object.values(listed).flat());
  listed.fast = all.filter((file) => !elsewhere.has(file));
  listed.postgres = [...listed.fast, ...listed.api];
  return [...new Set(listed[suite])].sort();
}
