import { randomUUID } from "node:crypto";
import { createFromRequest } from "../src/api/deployments/create-deployment.ts";
import { deploymentOf } from "../src/api/deployments/present-deployment.ts";
import type { ApiDeps, ApiSettings } from "../src/api/deps.ts";
import { templatesDirectory } from "../src/builds/sources/templates.ts";
import type { CreateDeployment } from "../src/contract/deployments/deployment.ts";
import { readConfig } from "../src/server/config.ts";
import type { DeploymentRow } from "../src/store/deployments/deployments.ts";
import type { Db } from "../src/store/engine/database.ts";
import type { Sealer } from "../src/store/secrets/seal.ts";
import { sealResponse } from "../src/store/tenants/idempotency-keys.ts";
import type { Installation } from "./installation.ts";

/** Rows that own a new deployment. */
export interface Owner {
  workspaceId: string;
  listenerId: string;
}

/** Body of a deployment of an image with two secrets, as a CI job sends it. */
export const createBody = (name: string): CreateDeployment => ({
  name,
  source: "external_docker",
  source_config: { resource_spec: { cpu: 1, memory_mb: 1024, min_scale: 1, max_scale: 1 } },
  source_revision_config: { image_uri: "registry.example/team/agent:1.4.2" },
  secrets: [
    { name: "OPENAI_API_KEY", value: "sk-0123456789abcdef0123456789abcdef0123456789abcdef" },
    { name: "SEARCH_URL", value: "https://agent:password@search.example:9200/index" },
  ],
});

/** Does the API's work for such a request without HTTP: same rules, same rows. */
export function createWithoutHttp(db: Db, sealer: Pick<Sealer, "seal" | "open">, owner: Owner): Promise<DeploymentRow> {
  const unique = randomUUID();
  const principal = {
    organizationId: owner.workspaceId,
    tenantId: owner.workspaceId,
    role: "admin" as const,
    scope: "workspace" as const,
    keyId: unique,
    actor: `key:${owner.workspaceId}`,
    userId: null,
  };
  const deps = { db, sealer, tracing: null, listenerId: owner.listenerId, settings: apiSettings } as unknown as ApiDeps;
  const showing = { sealer: deps.sealer, principal, deploymentsUrl: "http://127.0.0.1/d/" };
  const keep = (row: DeploymentRow) => {
    const text = JSON.stringify(deploymentOf(row, showing));
    const answer = { requestDigest: randomUUID(), status: 201, headers: {}, text };
    return sealResponse(sealer, { scopeId: owner.workspaceId, key: unique }, answer);
  };
  return createFromRequest(deps, { principal, body: createBody(`bench-${unique}`), responseRow: keep });
}

const createsAtOnce = 16;

/** Creates `count` deployments while no server runs. */
export async function createManyWithoutHttp(installation: Installation, count: number): Promise<void> {
  const { db, sealer, close } = await installation.open();
  let left = count;
  const createSome = async () => {
    while (left > 0) {
      left -= 1;
      await createWithoutHttp(db, sealer, installation);
    }
  };
  await Promise.all(Array.from({ length: createsAtOnce }, createSome)).finally(close);
}

const { mode, region, regions, basePath, dataDir, posture, trustedProxies } = readConfig({});

/** Default settings of an API without a server around it. */
export const apiSettings: ApiSettings = {
  mode,
  region,
  regions,
  basePath,
  posture,
  trustedProxies,
  owner: "bench:1",
  agentsDomain: null,
  corsOrigins: [],
  serviceSecret: null,
  oidc: null,
  dataDir,
  version: "bench",
  publicUrl: null,
  ownUrl: () => "http://127.0.0.1",
  templatesDir: templatesDirectory,
  buildTarget: "directory",
  consoleDir: null,
  allowLocalSources: true,
  allowPrivateNetwork: true,
  mail: null,
  githubUrl: "https://github.com",
  sharedAuthOrganizationId: null,
  allowsExec: true,
  uncappedResources: false,
  hasBuiltinDataPlane: true,
  isDataPlaneRemote: false,
  tracing: null,
  detectionTimeoutMs: 28_000,
  streamHeartbeatMs: 15_000,
  // Counts requests but never limits them.
  rateLimit: { perS: 1_000_000, burst: 1_000_000 },
  workspaceShare: 0.5,
  uploadSpaceMib: undefined,
  diskReserveMib: undefined,
  logLinesPerS: 0,
};

/** Returns the text of one HTTP request. */
export function httpRequest(verb: string, path: string, apiKey: string, body?: object): string {
  const head = `${verb} ${path} HTTP/1.1\r\nHost: 127.0.0.1\r\nAccept: */*\r\nUser-Agent: bench\r\nX-Api-Key: ${apiKey}\r\n`;
  if (body === undefined) return `${head}\r\n`;
  const text = JSON.stringify(body);
  const ours = `Content-Type: application/json\r\nIdempotency-Key: ${randomUUID()}\r\n`;
  return `${head}${ours}Content-Length: ${Buffer.byteLength(text)}\r\n\r\n${text}`;
}
