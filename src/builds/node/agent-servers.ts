import { createHash } from "node:crypto";
import type { InstalledPackage, SharedName } from "../../compute/process/langgraph/langgraph-js-packages.ts";
import manifest1117 from "../toolchains/langgraph-js-1.1.17.package.json" with { type: "json" };
import lock1117 from "../toolchains/langgraph-js-1.1.17.package-lock.json" with { type: "json" };
import manifest122 from "../toolchains/langgraph-js-1.2.2.package.json" with { type: "json" };
import lock122 from "../toolchains/langgraph-js-1.2.2.package-lock.json" with { type: "json" };
import manifest144 from "../toolchains/langgraph-js-1.4.4.package.json" with { type: "json" };
import lock144 from "../toolchains/langgraph-js-1.4.4.package-lock.json" with { type: "json" };
import manifest151 from "../toolchains/langgraph-js-1.5.1.package.json" with { type: "json" };
import lock151 from "../toolchains/langgraph-js-1.5.1.package-lock.json" with { type: "json" };
import manifestPostgres from "../toolchains/langgraph-js-postgres-1.5.1.package.json" with { type: "json" };
import lockPostgres from "../toolchains/langgraph-js-postgres-1.5.1.package-lock.json" with { type: "json" };
import { isInRange } from "../version-range.ts";

export const apiPackage = "@langchain/langgraph-api";

/** A version of the open LangGraph.js server with the exact versions of everything that is installed with it. */
export interface AgentServer {
  version: string;
  /** Names the installation: the version with a digest of manifest and lock file. */
  id: string;
  manifest: object;
  lock: object;
  /** Ranges of the project's packages that this server works with, as it declares them. */
  peers: Partial<Record<SharedName, string>>;
}

/**
 * Newest first. Each is the newest server for a range of LangGraph.js versions: 1.4.18 and newer, 1.3.6 and newer, core 1.1.44 and
 * newer, LangGraph 0.2.57 and newer. Version 2.0.0 in the npm registry is older than 1.5.1 and must not be used.
 *
 * To add a version: write its package.json into toolchains/, run `npm install --package-lock-only` on a copy of it in an
 * empty directory, and copy the lock file without its `resolved` addresses.
 */
export const agentServers: readonly AgentServer[] = [
  agentServer(manifest151, lock151),
  agentServer(manifest144, lock144),
  agentServer(manifest122, lock122),
  agentServer(manifest1117, lock1117),
];

/** The newest server with the packages of `engines/langgraph-js-postgres`, which works with this version alone. */
export const postgresServer: AgentServer = agentServer(manifestPostgres, lockPostgres);

/** Exit code of `fit-server` when the engine on PostgreSQL does not work with the packages in an image. */
export const misfitExitCode = 3;

/** What it prints then. A cluster reports the last lines of a build, but no exit code. */
export const misfitText = "No LangGraph.js server on PostgreSQL works with";

function agentServer(manifest: { dependencies: { [apiPackage]: string } }, lock: { packages: object }): AgentServer {
  const version = manifest.dependencies[apiPackage];
  const digest = createHash("sha256")
    .update(JSON.stringify([manifest, lock]))
    .digest("hex");
  const packages = lock.packages as Record<string, { peerDependencies?: AgentServer["peers"] }>;
  const peers = packages[`node_modules/${apiPackage}`]?.peerDependencies ?? {};
  return { version, id: `${version}-${digest.slice(0, 12)}`, manifest, lock, peers };
}

/**
 * Packages whose ranges decide. Servers declare narrow ranges for the checkpoint package, which LangGraph itself leaves, and use it
 * only through LangGraph.
 */
const decisive = ["@langchain/langgraph", "@langchain/core"] as const;

export interface Choice {
  server: AgentServer;
  /** Why, for the build log. */
  because: string;
}

/**
 * Returns the servers to try for a project, the best first: those whose requirements fit its packages, newest first. When
 * none fits, the nearest one, which then must pass the check.
 */
export function fittingServers(
  packages: Partial<Record<SharedName, InstalledPackage>>,
  servers: readonly AgentServer[] = agentServers,
): [Choice, ...Choice[]] {
  const installed = decisive.flatMap((name) => {
    const version = packages[name]?.version;
    return version === undefined ? [] : [{ name, version }];
  });
  const shown = installed.map(({ name, version }) => `${name} ${version}`).join(" and ");
  if (installed.length === 0) {
    const [server] = servers as [AgentServer];
    return [{ server, because: "the project does not install @langchain/langgraph" }];
  }
  const [first, ...others] = servers
    .filter((server) => installed.every(({ name, version }) => isInRange(version, server.peers[name] ?? "*")))
    .map((server) => ({ server, because: `it is the newest that works with ${shown}` }));
  if (first !== undefined) return [first, ...others];
  return [
    { server: nearest(packages, servers), because: `no server declares support for ${shown}, and it is the nearest` },
  ];
}

/** Packages newer than all servers get the newest server, all others the oldest. */
function nearest(
  packages: Partial<Record<SharedName, InstalledPackage>>,
  servers: readonly AgentServer[],
): AgentServer {
  const major = Number.parseInt(packages["@langchain/langgraph"]?.version ?? "0", 10);
  const [newest, oldest] = [servers[0], servers.at(-1)] as [AgentServer, AgentServer];
  return major >= 1 ? newest : oldest;
}
