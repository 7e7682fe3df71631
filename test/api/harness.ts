import { randomBytes } from "node:crypto";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { after } from "node:test";
import type { FastifyInstance, InjectOptions } from "fastify";
import { createApi } from "../../src/api/app.ts";
import type { ApiDeps, ApiSettings } from "../../src/api/deps.ts";
import { Tunnels } from "../../src/api/listeners/tunnels.ts";
import { mintApiKey } from "../../src/auth/api-key.ts";
import { noTrustedProxies } from "../../src/base/trusted-proxies.ts";
import type { GithubApp } from "../../src/integrations/github-app.ts";
import { DirectoryUploads } from "../../src/server/uploads.ts";
import { ensureBuiltinListener } from "../../src/store/data-plane/listener-sessions.ts";
import { type Db, openDatabase } from "../../src/store/engine/database.ts";
import { migrate } from "../../src/store/engine/migrate.ts";
import { EventFeed } from "../../src/store/events/event-feed.ts";
import { openSealer } from "../../src/store/secrets/seal.ts";
import { textSigner } from "../../src/store/secrets/signature.ts";
import { insertApiKey, type KeyRole } from "../../src/store/tenants/api-keys.ts";
import { createOrganization, createWorkspace } from "../../src/store/tenants/tenants.ts";
import { createLogger } from "../../src/telemetry/log.ts";
import { createMetrics } from "../../src/telemetry/metrics.ts";
import { templateDirectory } from "../support/database-template.ts";

export interface Tenant {
  organizationId: string;
  tenantId: string;
  adminKey: string;
}

export interface KeyOptions {
  role?: KeyRole;
  isOrganizational?: boolean;
  isOperator?: boolean;
  listenerId?: string;
  expiresAt?: Date;
}

export interface TestApi {
  api: FastifyInstance;
  db: Db;
  deps: ApiDeps;
  dataDir: string;
  tenant: Tenant;
  /** Another organization with its own workspace. */
  stranger: Tenant;
  mintKey(options?: KeyOptions & { tenant?: Tenant }): Promise<string>;
  /**
   * Sends one request in process, as the admin of `tenant` unless headers differ; without a body it has no content
   * type.
   */
  ask(options: InjectOptions & { key?: string | null }): Promise<Answer>;
}

export interface Answer {
  status: number;
  headers: Record<string, unknown>;
  text: string;
  // biome-ignore lint/suspicious/noExplicitAny: tests look into answers of every shape.
  body: any;
}

/** The GitHub App of this server, as if it were configured. */
type Replaced<More extends keyof ApiDeps> = Partial<
  Pick<ApiDeps, "logger" | "explain" | "readiness" | "registry" | "callAgent" | More> & { github: GithubApp }
>;

/** Starts one API on an embedded database per test file; closes it after the tests. */
export async function startApi(
  settings: Partial<ApiSettings> = {},
  replaced: Replaced<"tracing"> = {},
): Promise<TestApi> {
  const dataDir = await mkdtemp(path.join(tmpdir(), "pierhead-api-"));
  const db = await openDatabase({
    dataDir,
    logger: createLogger("silent"),
    durable: false,
    templateDirectory: await templateDirectory(),
  });
  await migrate(db);
  const made = await startApiOn(db, { ...settings, dataDir }, replaced);
  after(async () => {
    await made.api.close();
    await db.close();
    await rm(dataDir, { recursive: true, force: true });
  });
  return made;
}

/** Starts an API on a migrated database, which the caller closes after `api.close()`. */
export async function startApiOn(
  db: Db,
  settings: Partial<ApiSettings> & Pick<ApiSettings, "dataDir">,
  replaced: Replaced<"sealer"> = {},
): Promise<TestApi> {
  const sealer = replaced.sealer ?? (await openSealer(db, randomBytes(32)));
  const deps: ApiDeps = {
    db,
    sealer,
    logger: createLogger("silent"),
    metrics: createMetrics(),
    traces: null,
    events: new EventFeed(db, createLogger("silent")),
    listenerId: await ensureBuiltinListener(db, "process"),
    settings: { ...defaultSettings, ...settings },
    uploads: new DirectoryUploads(settings.dataDir),
    contexts: null,
    readiness: () => [],
    databaseEnvironment: async () => ({}),
    tracing: null,
    registry: { signer: textSigner(sealer), host: null },
    explain: async () => undefined,
    openExec: () => Promise.reject(new Error("no agents in this test")),
    tunnels: new Tunnels(db, () => "http://127.0.0.1:1"),
    callAgent: (_request, response) => void response.writeHead(503).end(),
    ...replaced,
    github: { isConfigured: replaced.github !== undefined, current: async () => replaced.github ?? null },
  };
  const api = await createApi(deps);
  const tenant = await makeTenant(db, "acme");
  const stranger = await makeTenant(db, "other");
  return {
    api,
    db,
    deps,
    dataDir: settings.dataDir,
    tenant,
    stranger,
    mintKey: (options = {}) => mintKey(db, options.tenant ?? tenant, options),
    ask: (options) => ask(api, { key: tenant.adminKey, ...options }),
  };
}

const defaultSettings: Omit<ApiSettings, "dataDir"> = {
  mode: "standalone",
  region: "local",
  regions: [{ name: "local", url: "http://127.0.0.1:8124" }],
  version: "0.1.0",
  posture: { kind: "local", because: "it is a test", items: [] },
  trustedProxies: noTrustedProxies,
  agentsDomain: null,
  corsOrigins: [],
  basePath: "",
  owner: "test:1",
  serviceSecret: null,
  oidc: null,
  publicUrl: null,
  ownUrl: () => "http://127.0.0.1:8124",
  templatesDir: path.join(import.meta.dirname, "../../templates"),
  buildTarget: "directory",
  consoleDir: null,
  allowLocalSources: true,
  allowPrivateNetwork: true,
  mail: null,
  githubUrl: "https://github.com",
  allowsExec: true,
  uncappedResources: false,
  sharedAuthOrganizationId: null,
  hasBuiltinDataPlane: true,
  isDataPlaneRemote: false,
  tracing: null,
  detectionTimeoutMs: 28_000,
  streamHeartbeatMs: 15_000,
  rateLimit: { perS: 0, burst: 1 },
  workspaceShare: 0.5,
  uploadSpaceMib: undefined,
  diskReserveMib: undefined,
  logLinesPerS: 0,
};

async function makeTenant(db: Db, name: string): Promise<Tenant> {
  const organizationId = await createOrganization(db, { name, plan: "self_hosted_enterprise" });
  const tenantId = await createWorkspace(db, { organizationId, name });
  const tenant = { organizationId, tenantId, adminKey: "" };
  return { ...tenant, adminKey: await mintKey(db, tenant, { role: "admin" }) };
}

async function mintKey(db: Db, tenant: Tenant, options: KeyOptions): Promise<string> {
  const minted = mintApiKey();
  await insertApiKey(db, {
    ...minted,
    organizationId: tenant.organizationId,
    workspaceId: options.isOrganizational ? null : tenant.tenantId,
    listenerId: options.listenerId ?? null,
    name: "test",
    role: options.role ?? "admin",
    isOperator: options.isOperator ?? false,
    expiresAt: options.expiresAt ?? null,
  });
  return minted.key;
}

async function ask(
  api: FastifyInstance,
  { key, ...options }: InjectOptions & { key?: string | null },
): Promise<Answer> {
  const own = key === null || key === undefined ? {} : { "x-api-key": key };
  const answer = await api.inject({ method: "GET", ...options, headers: { ...own, ...options.headers } });
  const { "content-type": type, "content-encoding": coding } = answer.headers;
  const isJson = String(type).includes("json") && coding === undefined && answer.payload !== "";
  return {
    status: answer.statusCode,
    headers: answer.headers,
    text: answer.payload,
    body: isJson ? answer.json() : undefined,
  };
}
