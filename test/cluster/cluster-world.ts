import { once } from "node:events";
import { get, type IncomingMessage } from "node:http";
import { text } from "node:stream/consumers";
import type { ClusterPolicy } from "../../src/compute/kubernetes/cluster-context.ts";
import type { DeploymentReport } from "../../src/contract/listeners/assignment.ts";
import { healthOf } from "../../src/domain/deployment-health.ts";
import { httpIsReached } from "../../src/server/cluster-gateway.ts";
import { newRun, openSite, type Site, sizes } from "../kubeplane/harness.ts";
import { type Plane, startPlane } from "../kubeplane/plane.ts";
import { eventually } from "../support/eventually.ts";
import { agentProgram, crashingProgram, shortLivedProgram } from "./agent.ts";
import { pushAgent, pushPostgres, pushRedis } from "./images.ts";
import { type RealNode, startRealNode } from "./real-node.ts";

/** A control plane with a real node, and images of agents and databases in its registry. */
export interface ClusterWorld extends AsyncDisposable {
  plane: Plane;
  node: RealNode;
  policy: Pick<ClusterPolicy, "postgresImage" | "redisImage">;
  images: Record<"first" | "second" | "crashing" | "shortLived", string>;
}

export async function startClusterWorld({
  policyEngine = null,
}: {
  policyEngine?: string | null;
} = {}): Promise<ClusterWorld> {
  const program = process.env["PIERHEAD_TEST_KUBEPLANE"];
  if (program === undefined) throw new Error("run this by `npm run test:cluster`");
  const plane = await startPlane(program);
  const node = await startRealNode(plane, program, policyEngine);
  return {
    plane,
    node,
    policy: { postgresImage: await pushPostgres(node.images), redisImage: await pushRedis(node.images) },
    images: {
      first: await pushAgent(node.images, "agent:1", agentProgram("one")),
      second: await pushAgent(node.images, "agent:2", agentProgram("two")),
      crashing: await pushAgent(node.images, "agent:crashing", crashingProgram),
      shortLived: await pushAgent(node.images, "agent:short-lived", shortLivedProgram),
    },
    async [Symbol.asyncDispose]() {
      await node[Symbol.asyncDispose]();
      await plane[Symbol.asyncDispose]();
    },
  };
}

/** Opens a namespace that enforces the restricted Pod Security Standard, and empties it at the end. */
export async function openRestrictedSite(
  { plane, policy }: ClusterWorld,
  changed: Partial<ClusterPolicy> = {},
): Promise<Site> {
  const site = await openSite(plane, { ...policy, ...changed }, { isReached: httpIsReached([]) });
  const labels = { "pod-security.kubernetes.io/enforce": "restricted" };
  const call = { method: "PATCH", path: `/api/v1/namespaces/${site.namespace}`, type: "merge" } as const;
  await plane.admin.call({ ...call, body: { metadata: { labels } }, signal: AbortSignal.timeout(10_000) });
  const close = site[Symbol.asyncDispose].bind(site);
  site[Symbol.asyncDispose] = async () => {
    await close();
    await eventually(
      () => site.list("Pod"),
      (pods) => pods.length === 0,
      { timeoutMs: 90_000, what: "no pod left" },
    );
  };
  return site;
}

export async function serviceUrl(
  { plane }: ClusterWorld,
  { namespace }: Pick<Site, "namespace">,
  slug: string,
): Promise<string> {
  const signal = AbortSignal.timeout(10_000);
  const service = await plane.admin.get<{ spec: { clusterIP: string } }>("Service", namespace, slug, signal);
  return `http://${service?.spec.clusterIP}:8000`;
}

/** Reads a page on a connection of its own. */
export const read = async (url: string) => {
  const request = get(url, { agent: false, signal: AbortSignal.timeout(20_000) });
  const [answer] = (await once(request, "response")) as [IncomingMessage];
  return `${answer.statusCode} ${await text(answer)}`;
};

/** Sizes with which a Node program starts in a few seconds. */
export const roomy = { ...sizes, cpuLimitCores: 1, memoryLimitMib: 512 };
export const runOf = (site: Site, image: string, secrets?: Record<string, string>) =>
  newRun(site, image, { sizes: roomy }, secrets);

export const isReady = ({ phase }: DeploymentReport["replicas"][number]) => phase === "ready";

/** Health as the control plane derives it from a report on a deployment that served. */
export function healthWordOf(report: DeploymentReport): string {
  const activeRevisionId = report.serving_revision_id;
  const settled = { status: "READY", isUnderWay: false, latest: null, replicasMin: 1 } as const;
  return healthOf({ ...settled, activeRevisionId, report }).word;
}

/** Sends this many requests at once, each on a connection of its own. @returns the answers, each once */
export async function answersAtOnce(url: string, count: number): Promise<string[]> {
  const ask = () => read(url).catch((error) => `failed: ${error.cause ?? error}`);
  return [...new Set(await Promise.all(Array.from({ length: count }, ask)))];
}
