import { execFile } from "node:child_process";
import { chown } from "node:fs/promises";
import { promisify } from "node:util";
import { parseAllDocuments } from "yaml";
import type { DeploymentView } from "../../src/compute/kubernetes/watch/rollout.ts";
import { make, type Plane } from "../kubeplane/plane.ts";
import { eventually } from "../support/eventually.ts";
import { addDisk } from "./disk.ts";
import { pushRegistry } from "./images.ts";
import { address, allowHttp, type RealNode } from "./real-node.ts";

const plurals: Record<string, string> = {
  ConfigMap: "/api/v1 configmaps",
  Secret: "/api/v1 secrets",
  PersistentVolumeClaim: "/api/v1 persistentvolumeclaims",
  Service: "/api/v1 services",
  Deployment: "/apis/apps/v1 deployments",
  NetworkPolicy: "/apis/networking.k8s.io/v1 networkpolicies",
};

const manifestType = "application/vnd.oci.image.manifest.v1+json";

interface Blob {
  digest: string;
}

interface ChartRegistry {
  /** What the chart tells the listener about the registry. */
  settings: Record<string, string>;
  pullHost: string;
  /** Copies an image of one layer from the registry of the node, as a build would push it. @returns its name */
  copy(image: string): Promise<string>;
  /** Returns the tags of the images that builds pushed. */
  tags(): Promise<string[]>;
}

/** Creates the registry of the listener's chart in a new namespace, and waits until its pod is ready. */
export async function addChartRegistry(
  plane: Plane,
  node: RealNode,
  namespaces: { agents: string; builds: string },
): Promise<ChartRegistry> {
  const namespace = await plane.newNamespace();
  const pullHost = `${address}:30500`;
  await allowHttp(node, pullHost);
  // fsGroup has no effect on a directory of the node.
  await chown(await addDisk(plane, node, `of-${namespace}`), 1000, 1000);
  const values = [
    ...["controlPlaneUrl=http://x.example.com", "listenerKey=k", `namespaces={${namespaces.agents}}`],
    ...[`builds.namespace=${namespaces.builds}`, "registry.enabled=true", "registry.password=0123456789abcdef"],
    ...[`registry.image=${await pushRegistry(node.images)}`, `registry.pullHost=${pullHost}`, "registry.size=1Gi"],
  ].flatMap((one) => ["--set", one]);
  const chart = ["template", "r", "deploy/helm/pierhead-listener", "-n", namespace, ...values];
  const { stdout } = await promisify(execFile)(process.env["PIERHEAD_TEST_HELM"] ?? "helm", chart);
  const documents = parseAllDocuments(stdout).flatMap((one) => one.toJS() ?? []);
  for (const document of documents) {
    if (document.metadata.labels?.["app.kubernetes.io/name"] !== "pierhead-registry") continue;
    const [root, plural] = plurals[document.kind]?.split(" ") ?? [];
    await make(plane.admin, `${root}/namespaces/${document.metadata.namespace}/${plural}`, document);
  }
  const inTime = () => AbortSignal.timeout(10_000);
  const read = () => plane.admin.get<DeploymentView>("Deployment", namespace, "pierhead-r-registry", inTime());
  await eventually(read, (found) => found?.status?.availableReplicas === 1, {
    ...{ timeoutMs: 120_000, what: "the registry of the chart" },
  });
  const listener = documents.find(({ kind, metadata }) => kind === "Deployment" && metadata.name === "pierhead-r");
  const variables: { name: string; value: string }[] = listener.spec.template.spec.containers[0].env;
  const isAboutRegistry = ({ name }: { name: string }) => /_(BUILD_\w*REGISTRY\w*|PULL_SECRETS)$/.test(name);
  const service = await plane.admin.get<{ spec: { clusterIP: string } }>(
    "Service",
    namespace,
    "pierhead-r-registry",
    inTime(),
  );
  const authorization = `Basic ${Buffer.from("push:0123456789abcdef").toString("base64")}`;
  const call = (target: string, init: RequestInit = {}) =>
    fetch(new URL(target, `http://${service?.spec.clusterIP}:5000`), {
      ...init,
      headers: { ...init.headers, authorization },
    });
  // kube-proxy learns of the ready pod a moment later.
  const answers = () =>
    call("/v2/").then(
      ({ ok }) => ok,
      () => false,
    );
  await eventually(answers, (isUp) => isUp, { what: "the Service of the registry" });
  const settings = Object.fromEntries(variables.filter(isAboutRegistry).map(({ name, value }) => [name, value]));
  return {
    settings,
    pullHost,
    async copy(image) {
      const [repository, tag] = image.slice(node.images.registry.length + 1).split(":");
      const from = `http://${node.images.registry}/v2/${repository}`;
      const headers = { accept: manifestType, "content-type": manifestType };
      const manifest = await (await fetch(`${from}/manifests/${tag}`, { headers })).text();
      const { config, layers } = JSON.parse(manifest) as Record<"config", Blob> & { layers: Blob[] };
      for (const { digest } of [config, ...layers]) {
        const body = await (await fetch(`${from}/blobs/${digest}`)).arrayBuffer();
        const begun = await call("/v2/agents/blobs/uploads/", { method: "POST" });
        const target = new URL(begun.headers.get("location") ?? "");
        target.searchParams.set("digest", digest);
        const type = { "content-type": "application/octet-stream" };
        const put = await call(`${target.pathname}${target.search}`, { method: "PUT", body, headers: type });
        if (put.status !== 201) throw new Error(`the registry answered ${put.status}: ${await put.text()}`);
      }
      const put = await call(`/v2/agents/manifests/${tag}`, { method: "PUT", body: manifest, headers });
      if (put.status !== 201) throw new Error(`the registry answered ${put.status}: ${await put.text()}`);
      return `${settings["PIERHEAD_KUBERNETES_BUILD_REGISTRY"]}:${tag}`;
    },
    async tags() {
      const { tags } = (await (await call("/v2/agents/tags/list")).json()) as { tags?: string[] | null };
      return tags ?? [];
    },
  };
}
