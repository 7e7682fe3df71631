import { findNameProblem, findPodProblem } from "../../../contract/deployments/pod-rules.ts";
import type { ResourceSpec } from "../../../contract/deployments/resource-spec.ts";
import type { ApiServer } from "../api/api-server.ts";
import type { LiveObject } from "../api/manifest.ts";
import { type ClusterPolicy, rightsOf } from "../cluster-context.ts";
import { componentLabel, labelPrefix } from "../render/names.ts";
import { leadsToGateway } from "../render/render-network.ts";
import { UnusableWorkload, type Workload } from "../workload.ts";

/**
 * Rejects what pods may not have, although the API has done so before: the control plane may have accepted it for another
 * listener, or before the operator withdrew a right.
 * @throws UnusableWorkload
 */
export function checkWorkload(workload: Workload, policy: ClusterPolicy): void {
  refuseForeignHost(workload, policy);
  refuseCustomUrl(workload, policy);
  const { cluster } = workload;
  const reservedSecrets = policy.imagePullSecrets;
  const problem = findPodProblem(cluster.spec, { rights: rightsOf(policy), reservedSecrets });
  if (problem !== null) throw new UnusableWorkload(`resource_spec.${problem.field} ${problem.because}`);
  for (const { name, secret_name } of cluster.secret_references) {
    const because = findNameProblem("Secret", secret_name, reservedSecrets);
    if (because !== null) throw new UnusableWorkload(`The secret reference '${name}' ${because}`);
  }
}

/**
 * Rejects objects of the namespace that belong to another deployment, a database or a listener. Their labels show it, whatever
 * their names are. Secrets are judged by name only, because the Role does not allow to read them.
 * @throws UnusableWorkload
 */
export async function refuseForeignObjects(api: ApiServer, { cluster }: Workload, signal: AbortSignal): Promise<void> {
  for (const { kind, name, field } of objectsOf(cluster.spec)) {
    const object = await api.get<LiveObject>(kind, cluster.namespace as string, name, signal);
    if (object === null || !isForeign(object.metadata.labels ?? {})) continue;
    throw new UnusableWorkload(
      `resource_spec.${field} names the ${kind} '${name}', which belongs to Pierhead or to a database. Use another one.`,
    );
  }
}

const ownNames = ["pierhead", "pierhead-listener", "pierhead-agent-gateway"];

/** Labels of what a listener creates, of disks of databases, and of the installed charts. */
function isForeign(labels: Record<string, string>): boolean {
  const owned = Object.keys(labels).some((key) => key.startsWith(labelPrefix) || key.startsWith("cnpg.io/"));
  return owned || ownNames.includes(labels["app.kubernetes.io/name"] ?? "") || labels[componentLabel] === "anchor";
}

interface NamedObject {
  kind: "ServiceAccount" | "ConfigMap" | "PersistentVolumeClaim";
  name: string;
  field: string;
}

/** Returns the objects that a checked spec names. */
function objectsOf(spec: ResourceSpec): NamedObject[] {
  const found = new Map<string, NamedObject>();
  const add = (kind: NamedObject["kind"], name: unknown, field: string) => {
    if (typeof name === "string" && name !== "") found.set(`${kind}/${name}`, { kind, name, field });
  };
  add("ServiceAccount", spec.service_account_name, "service_account_name");
  for (const volume of spec.volumes ?? []) {
    add("ConfigMap", volume.configMap?.["name"], "volumes");
    add("PersistentVolumeClaim", volume.persistentVolumeClaim?.["claimName"], "volumes");
    const sources = (volume.projected?.["sources"] ?? []) as { configMap?: { name?: string } }[];
    for (const { configMap } of sources) add("ConfigMap", configMap?.name, "volumes");
  }
  for (const field of ["init_containers", "sidecars"] as const) {
    for (const { env, envFrom } of spec[field] ?? []) {
      for (const { valueFrom } of env ?? []) {
        add("ConfigMap", (valueFrom?.["configMapKeyRef"] as { name?: string } | null)?.name, field);
      }
      for (const source of envFrom ?? []) {
        add("ConfigMap", (source["configMapRef"] as { name?: string } | null)?.name, field);
      }
    }
  }
  return [...found.values()];
}

/**
 * Rejects an address that belongs to Pierhead or to other agents: a route of its own with a longer path would get their requests, with
 * the keys of their callers. The gateway in the cluster decides about addresses itself.
 */
function refuseForeignHost(
  { slug, isServing, cluster: { url } }: Workload,
  { ownHosts, agentsUrl }: ClusterPolicy,
): void {
  if (isServing) return;
  const { hostname } = new URL(url);
  if (ownHosts.includes(hostname) && !isBelowSlug(url, slug))
    throw new UnusableWorkload(`custom_url has the host of Pierhead, ${hostname}. Use a host name of your own.`);
  if (agentsUrl !== null && isHostOfOthers(url, slug, agentsUrl))
    throw new UnusableWorkload(`custom_url has the host of other agents, ${hostname}. Use a host name of your own.`);
}

const slugMark = "0slug0";
const namespaceMark = "0namespace0";

function isHostOfOthers(url: string, slug: string, agentsUrl: string): boolean {
  const text = agentsUrl.replaceAll("{slug}", slugMark).replace(/\{namespace:[^}]*\}/, namespaceMark);
  if (!URL.canParse(text)) return false;
  const { hostname } = new URL(text);
  const escaped = hostname.replaceAll(/[^a-z0-9]/g, "\\$&");
  const pattern = escaped.replace(slugMark, "([^.]+)").replaceAll(slugMark, "[^.]+").replace(namespaceMark, "[^.]+");
  const found = new RegExp(`^${pattern}$`).exec(new URL(url).hostname);
  if (found === null) return false;
  return found[1] === undefined ? !isBelowSlug(url, slug) : found[1] !== slug;
}

/** Where agents share a host, the path of each contains its slug. */
const isBelowSlug = (url: string, slug: string) => new URL(url).pathname.split("/").includes(slug);

/** A revision that served before the gateway was installed keeps its own route. A new one would bypass the checks of the gateway. */
function refuseCustomUrl(workload: Workload, policy: ClusterPolicy): void {
  if (!policy.hasAgentGateway || workload.isServing || leadsToGateway(workload, policy)) return;
  const { url } = workload.cluster;
  throw new UnusableWorkload(
    `The gateway of this cluster does not serve ${url}. Remove custom_url, or add ${new URL(url).hostname} to gateway.hosts of the listener's chart.`,
  );
}
