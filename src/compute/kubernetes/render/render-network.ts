import type { Manifest } from "../api/manifest.ts";
import type { ClusterPolicy, ClusterTraits } from "../cluster-context.ts";
import type { Workload } from "../workload.ts";
import { annotationsOf, labelsOf, routeAnnotation, selectorOf } from "./names.ts";
import { agentPort } from "./render-pods.ts";

/** What the gateway in the cluster must know of a deployment. The listener writes it on the Service. */
export interface ServiceRoute {
  slug: string;
  deployment_id: string;
  workspace_id: string;
  /** Absent: every caller is admitted. */
  admission?: { workspace_id: string | null };
  /** Absent: the address of the deployment contains its slug. */
  custom_url?: string;
}

/** Returns whether requests to the address of a deployment reach it through the gateway in the cluster. */
export function leadsToGateway(
  { slug, cluster: { url } }: Pick<Workload, "slug" | "cluster">,
  policy: ClusterPolicy,
): boolean {
  return policy.hasAgentGateway && (isMadeFromSlug(url, slug) || policy.agentGatewayHosts.some(serves(new URL(url))));
}

function isMadeFromSlug(url: string, slug: string): boolean {
  const { hostname, pathname } = new URL(url);
  return [...hostname.split("."), ...pathname.split("/")].includes(slug);
}

const serves =
  ({ hostname }: URL) =>
  (host: string) =>
    host.startsWith("*.") ? hostname.slice(hostname.indexOf(".")) === host.slice(1) : hostname === host;

export function renderService(workload: Workload, { hasAgentGateway }: ClusterPolicy): Manifest {
  const { slug, deploymentId, cluster } = workload;
  const annotations = { ...annotationsOf(workload).annotations, ...(hasAgentGateway && routeOf(workload)) };
  const ports = [{ name: "http", port: agentPort, targetPort: "http", protocol: "TCP" }];
  return {
    apiVersion: "v1",
    kind: "Service",
    metadata: {
      name: slug,
      namespace: cluster.namespace as string,
      labels: labelsOf(workload, "server"),
      ...withAnnotations(annotations),
    },
    spec: { type: "ClusterIP", selector: selectorOf(deploymentId, "server"), ports },
  };
}

function routeOf({ slug, deploymentId, tenantId, admission, cluster: { url } }: Workload): Record<string, string> {
  const route: ServiceRoute = {
    ...{ slug, deployment_id: deploymentId, workspace_id: tenantId },
    ...(admission && { admission: { workspace_id: admission.workspaceId } }),
    ...(!isMadeFromSlug(url, slug) && { custom_url: url }),
  };
  return { [routeAnnotation]: JSON.stringify(route) };
}

/** Renders the route from outside, of the kind that this cluster supports. A deployment that the gateway serves has none. */
export function renderRoute(workload: Workload, traits: ClusterTraits, policy: ClusterPolicy): Manifest[] {
  if (leadsToGateway(workload, policy)) return [];
  const { slug, cluster } = workload;
  const { hostname, pathname } = new URL(cluster.url);
  const prefix = pathname.replace(/\/+$/, "");
  const metadata = {
    name: slug,
    namespace: cluster.namespace as string,
    labels: labelsOf(workload, "server"),
    ...withAnnotations(ofOperator(workload, policy)),
  };
  if (policy.gateway !== null && traits.hasGatewayApi) {
    return [httpRoute(metadata, { hostname, prefix, gateway: policy.gateway })];
  }
  if (policy.ingressClass === null) return [];
  const backend = { service: { name: slug, port: { name: "http" } } };
  const paths = [{ path: prefix === "" ? "/" : prefix, pathType: "Prefix", backend }];
  return [
    {
      apiVersion: "networking.k8s.io/v1",
      kind: "Ingress",
      metadata,
      spec: { ingressClassName: policy.ingressClass, rules: [{ host: hostname, http: { paths } }] },
    },
  ];
}

const withAnnotations = (annotations: Record<string, string>) =>
  Object.keys(annotations).length > 0 ? { annotations } : {};

/** Routes have the operator's annotations only, because they configure the controller that all routes share, and decide who is let in. */
const ofOperator = ({ slug, deploymentId }: Workload, { routeAnnotations }: ClusterPolicy) =>
  Object.fromEntries(
    Object.entries(routeAnnotations).map(([key, text]) => [
      key,
      text.replaceAll("{deployment_id}", deploymentId).replaceAll("{slug}", slug),
    ]),
  );

/** A path prefix belongs to the route: the agent server sees only the rest of the path. */
function httpRoute(
  metadata: Manifest["metadata"],
  { hostname, prefix, gateway }: { hostname: string; prefix: string; gateway: { namespace: string; name: string } },
): Manifest {
  const rewrite = { type: "URLRewrite", urlRewrite: { path: { type: "ReplacePrefixMatch", replacePrefixMatch: "/" } } };
  return {
    apiVersion: "gateway.networking.k8s.io/v1",
    kind: "HTTPRoute",
    metadata,
    spec: {
      parentRefs: [{ group: "gateway.networking.k8s.io", kind: "Gateway", ...gateway }],
      hostnames: [hostname],
      rules: [
        {
          matches: [{ path: { type: "PathPrefix", value: prefix === "" ? "/" : prefix } }],
          ...(prefix !== "" && { filters: [rewrite] }),
          backendRefs: [{ group: "", kind: "Service", name: metadata.name, port: agentPort, weight: 1 }],
        },
      ],
    },
  };
}
