import { spawn } from "node:child_process";
import { once } from "node:events";
import { readFile, writeFile } from "node:fs/promises";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import { networkInterfaces } from "node:os";
import path from "node:path";
import { agentPort } from "../../src/compute/kubernetes/render/render-pods.ts";
import { eventually } from "../support/eventually.ts";
import { freePort } from "../support/free-port.ts";
import { make, type Plane } from "./plane.ts";

/** An address of this machine that Kubernetes accepts for pods: it refuses those of the loopback range. */
export function podAddress(): string {
  const all = Object.values(networkInterfaces()).flatMap((list) => list ?? []);
  const found = all.find(({ family, internal }) => family === "IPv4" && !internal);
  if (found === undefined)
    throw new Error("this test needs an IPv4 address beside 127.0.0.1, for pods of the fake node");
  return found.address;
}

/** The agent server that answers for all pods of the fake node, which share an address. */
export async function startPodServer(answer: (request: IncomingMessage, response: ServerResponse) => void) {
  const server = createServer(answer);
  server.listen(agentPort, podAddress());
  await once(server, "listening");
  return {
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      server.close();
      await once(server, "close");
    },
  };
}

export interface ClusterGatewayProgram {
  url: string;
  countsUrl: string;
  isReady(): Promise<boolean>;
  logged(): string;
  /** Asks it to end, as a node does. Resolves when it has. */
  stop(): Promise<void>;
}

/** Returns how to start `pierhead listener gateway` with the rights of the chart's Role, and nothing else. */
export async function grantGateway(plane: Plane, namespace: string) {
  const name = "pierhead-gateway";
  const roles = `/apis/rbac.authorization.k8s.io/v1/namespaces/${namespace}`;
  const accounts = `/api/v1/namespaces/${namespace}/serviceaccounts`;
  const rules = JSON.parse(await readFile("deploy/helm/pierhead-listener/files/gateway-rules.json", "utf8"));
  await make(plane.admin, accounts, { metadata: { name } });
  await make(plane.admin, `${roles}/roles`, { metadata: { name }, rules } as object);
  const roleRef = { apiGroup: "rbac.authorization.k8s.io", kind: "Role", name };
  const subjects = [{ kind: "ServiceAccount", name, namespace }];
  await make(plane.admin, `${roles}/rolebindings`, { metadata: { name }, roleRef, subjects } as object);
  const { status } = (await make(plane.admin, `${accounts}/${name}/token`, { spec: { audiences: [] } })) as unknown as {
    status: { token: string };
  };
  const tokenFile = path.join(plane.directory, `token-of-${namespace}`);
  await writeFile(tokenFile, status.token);
  return (environment: Record<string, string>) =>
    startProgram({
      PIERHEAD_KUBERNETES_URL: plane.address("listener").url,
      PIERHEAD_KUBERNETES_CA_FILE: plane.caFile,
      PIERHEAD_KUBERNETES_TOKEN_FILE: tokenFile,
      PIERHEAD_KUBERNETES_NAMESPACES: namespace,
      PIERHEAD_AGENTS_URL: "https://{slug}.agents.example.com",
      ...environment,
    });
}

async function startProgram(environment: Record<string, string>): Promise<ClusterGatewayProgram> {
  const [port, countsPort] = [await freePort(), await freePort()];
  const ports = { PORT: String(port), PIERHEAD_GATEWAY_COUNTS_PORT: String(countsPort) };
  const child = spawn(process.execPath, [path.resolve("src/main.ts"), "listener", "gateway"], {
    env: { PATH: process.env["PATH"], NO_COLOR: "1", PIERHEAD_LOG_LEVEL: "info", ...ports, ...environment },
    stdio: ["ignore", "ignore", "pipe"],
  });
  let output = "";
  child.stderr.on("data", (chunk: Buffer) => {
    output = (output + chunk.toString()).slice(-20_000);
  });
  const ended = once(child, "exit");
  const countsUrl = `http://127.0.0.1:${countsPort}`;
  const isReady = () =>
    fetch(`${countsUrl}/ready`).then(
      ({ ok }) => ok,
      () => false,
    );
  try {
    await eventually(isReady, (ready) => ready, { timeoutMs: 30_000, what: "the gateway" });
  } catch (error) {
    child.kill("SIGKILL");
    throw new Error(`the gateway is not ready:\n${output}`, { cause: error });
  }
  return {
    ...{ url: `http://127.0.0.1:${port}`, countsUrl, isReady },
    logged: () => output,
    async stop() {
      child.kill("SIGTERM");
      await ended;
    },
  };
}
